//! The manager as other threads see it: an inbox, a bell, and whether the manager exists.
//!
//! The manager makes all other threads of its executor. So if the manager could not be made, other threads have to try
//! again to make it. When a thread sends a request to a missing manager, it tries to make that manager. A thread that
//! waits inside this crate, for an item for example, tries to make every missing manager. There is at most one attempt
//! a second for each manager.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Weak};

use crate::policy::manager::CREATION_COOLDOWN;
use crate::policy::presence::{Attempt, Presence};
use crate::policy::time::Time;
use crate::sys::sync::Mutex;
use crate::sys::wait::{Chore, set_chore};
use crate::sys::{clock, machine};

use crate::engine::pool::calls::Order;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::user_code::{destroy_error, report};

use super::bell::Bell;

thread_local! {
    /// On a manager's thread, the handle of that manager. On every other thread, a null pointer.
    static MANAGED: Cell<*const ManagerHandle> = const { Cell::new(std::ptr::null()) };
}

/// Makes the manager of one executor.
pub(crate) trait Maker: Send + Sync {
    /// Makes the manager's thread.
    fn make(self: Arc<Self>) -> io::Result<()>;

    /// Tells the pools that the manager exists now, so that the pools repeat the requests that were lost while the
    /// manager was missing.
    fn made_late(&self);

    /// Returns the manager that this value makes. Returns `None` in a forked process, where the executors of the parent
    /// need no manager.
    fn manager(&self) -> Option<&ManagerHandle>;
}

/// The points at which a test can make the manager panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// The manager's thread has begun.
    Arrival,
    Request,
    Duty,
    /// The manager has begun to make a worker.
    Making,
    Timer,
    /// The item of a timer was admitted to its queue.
    Admission,
    /// The timer of an admitted item was taken off the map of timers.
    Taken,
    /// The manager has begun to make a cleaner.
    Cleaner,
    /// The creation of a cleaner fails here, but the manager does not panic.
    NoCleaner,
    /// A round of the manager has begun.
    Round,
    /// The manager's executor has ended.
    End,
}

/// A request to the manager.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Create(Weak<Pool>),
    Watch(Weak<Pool>),
    /// The pool's earliest deadline, which the manager does not know yet.
    Deadline(Weak<Pool>, Time),
    /// A thread builds a queue with a rescuer, and the manager must make that rescuer.
    Rescuer(Arc<Order>),
    /// A worker has left, and its executor's cap now permits a thread for which a pool waits.
    Room,
}

impl Request {
    /// Refuses the request because the manager ends. A thread that waits for the result gets an error.
    pub(super) fn refuse(self) {
        if let Self::Rescuer(order) = self {
            order.refuse();
        }
    }
}

/// The manager of one executor, as other threads see it.
#[derive(Debug)]
pub(crate) struct ManagerHandle {
    inbox: Mutex<Inbox>,        // K
    pub(super) bell: Arc<Bell>, // A
    /// The points at which the manager will panic.
    #[cfg(test)]
    faults: Mutex<Vec<Point>>, // K
}

#[derive(Debug)]
struct Inbox {
    requests: Vec<Request>,
    stop: bool,
    presence: Presence,
    /// Makes the manager. The maker is set before the first attempt to make the manager, and no longer exists once the
    /// executor has ended.
    maker: Option<Weak<dyn Maker>>,
}

impl ManagerHandle {
    pub(crate) fn new(bell: Arc<Bell>) -> Self {
        let inbox = Inbox { requests: Vec::new(), stop: false, presence: Presence::Starting, maker: None };
        Self {
            inbox: Mutex::new(inbox),
            bell,
            #[cfg(test)]
            faults: Mutex::default(),
        }
    }

    /// Makes the manager's thread for an executor that no other thread knows yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be made. The next thread that sends a request to the manager tries again.
    pub(crate) fn start(&self, maker: &Arc<dyn Maker>) -> io::Result<()> {
        self.inbox.lock().maker = Some(Arc::downgrade(maker));
        self.make(maker)
    }

    /// Makes the manager's thread. No other thread attempts this at the same time.
    fn make(&self, maker: &Arc<dyn Maker>) -> io::Result<()> {
        let made = Arc::clone(maker).make();
        let mut inbox = self.inbox.lock();
        match &made {
            Ok(()) => inbox.presence.made(),
            // The clock is read after the attempt, because the attempt may have taken long.
            Err(_) => inbox.presence.failed(clock::now()),
        }
        drop(inbox);
        if made.is_err() {
            register_missing(maker);
        }
        // The bell rings here, because a thread that found the manager missing did not ring it.
        made.map(|()| self.bell.ring())
    }

    /// Makes the manager if it is missing. Makes no attempt if another thread is making the manager, or if an attempt
    /// has failed within the last second. Returns false if the manager is still missing. Returns true if the manager
    /// was told to end, because then it is not needed.
    #[cold]
    fn bring_about(&self) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.stop {
            return true;
        }
        // An executor that is gone makes no manager any more.
        let Some(maker) = inbox.maker.as_ref().and_then(Weak::upgrade) else { return false };
        let attempt = inbox.presence.needed(clock::now());
        drop(inbox);
        match attempt {
            Attempt::Ask => true,
            Attempt::GoWithout => false,
            Attempt::Make => match self.make(&maker) {
                // The requests that the executor's pools have made so far are lost, so the pools make them again.
                Ok(()) => {
                    maker.made_late();
                    true
                }
                Err(error) => {
                    report!(error, "the manager's thread cannot be made: {error}; work waits");
                    destroy_error(error);
                    false
                }
            },
        }
    }

    /// Puts a request into the inbox. Returns false, and drops the request, if the manager was told to end, or if it
    /// does not exist and cannot be made now.
    pub(crate) fn ask(&self, request: Request) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.stop {
            return false;
        }
        if inbox.presence.is_there() {
            inbox.requests.push(request);
            drop(inbox);
            self.bell.ring();
            return true;
        }
        drop(inbox);
        self.bring_about() && self.ask(request)
    }

    /// Wakes the manager, so that it notices a new deadline. If the manager's thread is missing, tries to make that
    /// thread. Returns whether the manager exists or was told to end.
    pub(crate) fn rouse(&self) -> bool {
        let is_there = self.inbox.lock().presence.is_there();
        if is_there {
            self.bell.ring();
            return true;
        }
        self.bring_about()
    }

    /// Returns whether the caller is on this manager's own thread. A caller on that thread is a hook or a logger.
    pub(crate) fn is_current_thread(&self) -> bool {
        std::ptr::eq(MANAGED.get(), self)
    }

    /// Notes that the calling thread is the manager's thread.
    pub(super) fn arrive(&self) {
        MANAGED.set(self);
        self.inbox.lock().presence.made();
    }

    /// Returns whether the manager was told to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inbox.lock().stop
    }

    /// Returns whether the manager takes no requests, because it is missing or was told to end.
    pub(crate) fn is_missing(&self) -> bool {
        let inbox = self.inbox.lock();
        inbox.stop || !inbox.presence.is_there()
    }

    /// Tells the manager to end, because its executor ends.
    pub(crate) fn stop(&self) {
        let mut inbox = self.inbox.lock();
        inbox.stop = true;
        drop(inbox);
        self.bell.ring();
    }

    /// Makes the manager count as missing, as if another thread were making it.
    #[cfg(test)]
    pub(crate) fn hide(&self) {
        self.inbox.lock().presence = Presence::Starting;
    }

    /// Undoes [`hide`](Self::hide), as if another thread had made the manager.
    #[cfg(test)]
    pub(crate) fn appear(&self) {
        let mut inbox = self.inbox.lock();
        inbox.presence.made();
        let maker = inbox.maker.as_ref().and_then(Weak::upgrade);
        drop(inbox);
        maker.expect("the executor exists").made_late();
    }

    /// Makes the manager panic once, when it reaches this point.
    #[cfg(test)]
    pub(crate) fn plant(&self, fault: Point) {
        self.faults.lock().push(fault);
    }

    #[cfg(test)]
    pub(crate) fn has_faults(&self) -> bool {
        self.faults() > 0
    }

    #[cfg(test)]
    pub(crate) fn faults(&self) -> usize {
        self.faults.lock().len()
    }

    /// Panics if a test has planted a fault at this point. A thread calls this function each time it reaches the point.
    #[inline]
    pub(crate) fn strike(&self, point: Point) {
        assert!(!self.meets(point), "a test has planted a fault at {point:?}");
    }

    /// If a test has planted a fault at this point, removes the fault and returns true.
    #[inline]
    pub(super) fn meets(&self, point: Point) -> bool {
        #[cfg(test)]
        {
            let mut faults = self.faults.lock();
            let at = faults.iter().position(|fault| *fault == point);
            at.inspect(|at| _ = faults.remove(*at)).is_some()
        }
        #[cfg(not(test))]
        {
            let _not_in_a_test = point;
            false
        }
    }

    /// Takes all requests out of the inbox and returns them. Also returns whether the manager must end. Only the
    /// manager calls this.
    pub(super) fn empty(&self) -> (Vec<Request>, bool) {
        let mut inbox = self.inbox.lock();
        (std::mem::take(&mut inbox.requests), inbox.stop)
    }
}

/// The makers whose managers could not be made. The *chore* is a function that waiting threads call at intervals. The
/// chore has a lock of its own. A thread that needs the lock of `MISSING` and the lock of the chore takes the lock of
/// `MISSING` first.
static MISSING: Mutex<Vec<Weak<dyn Maker>>> = Mutex::new(Vec::new());

/// Notes that the manager of this maker is missing. From now on, each waiting thread tries to make this manager.
fn register_missing(maker: &Arc<dyn Maker>) {
    let this = Arc::downgrade(maker);
    // Only threads of a made-up (simulated) machine may make the machine's threads.
    let own = this.clone();
    if machine::add_chore(|| Arc::new(move || is_settled(&own))) {
        return;
    }
    let mut missing = MISSING.lock();
    if !missing.iter().any(|known| known.ptr_eq(&this)) {
        missing.push(this);
    }
    set_chore(Some(Chore { every: CREATION_COOLDOWN, perform: try_again }));
}

/// Tries to make a manager. Returns false if another attempt is needed.
fn is_settled(maker: &Weak<dyn Maker>) -> bool {
    maker.upgrade().is_none_or(|maker| maker.manager().is_none_or(ManagerHandle::bring_about))
}

fn try_again() {
    let known = MISSING.lock().clone();
    let settled: Vec<_> = known.into_iter().filter(is_settled).collect();
    let mut missing = MISSING.lock();
    missing.retain(|maker| !settled.iter().any(|settled| settled.ptr_eq(maker)));
    if missing.is_empty() {
        set_chore(None);
    }
}
