//! The manager as other threads see it: an inbox, a bell, and whether the manager exists.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Weak};

use crate::policy::presence::{Attempt, Presence};
use crate::policy::rescue::Call;
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::sync::Mutex;

use crate::engine::executor::core::Core;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::user_code::{destroy_error, report};
use crate::engine::worker::rescuer::Order;

use super::bell::Bell;
use super::manager_thread::spawn;
use super::missing;
use super::supervision::Point;

thread_local! {
    /// The handle of the manager whose thread this is; null on other threads.
    static MANAGED: Cell<*const ManagerHandle> = const { Cell::new(std::ptr::null()) };
}

/// A request to the manager.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Create(Weak<Pool>),
    Cull(Weak<Pool>, Time),
    Watch(Weak<Pool>),
    /// A worker was woken: see at this time whether it got a CPU.
    Stall(Weak<Pool>, Time),
    /// Work waits for a worker that cannot be made.
    Call(Weak<Pool>, Call),
    /// A queue with a rescuer is being built.
    Rescuer(Arc<Order>),
    /// A worker has left, and a pool waits for its place.
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

/// See the module.
#[derive(Debug)]
pub(crate) struct ManagerHandle {
    inbox: Mutex<Inbox>,
    pub(super) bell: Arc<Bell>,
    /// Where the manager is to panic next.
    #[cfg(test)]
    faults: Mutex<Vec<Point>>,
}

#[derive(Debug)]
struct Inbox {
    requests: Vec<Request>,
    stop: bool,
    presence: Presence,
    /// The owner of this handle. Set before the manager is made for the first time.
    core: Weak<Core>,
}

impl ManagerHandle {
    pub(crate) fn new(bell: Arc<Bell>) -> Self {
        let (requests, core) = (Vec::new(), Weak::new());
        Self {
            inbox: Mutex::new(Inbox { requests, stop: false, presence: Presence::Starting, core }),
            bell,
            #[cfg(test)]
            faults: Mutex::default(),
        }
    }

    /// Makes the manager's thread for an executor that no other thread knows yet.
    ///
    /// # Errors
    ///
    /// If the thread cannot be made. The next request tries again.
    pub(crate) fn start(core: &Arc<Core>) -> io::Result<()> {
        core.manager.inbox.lock().core = Arc::downgrade(core);
        Self::make(core)
    }

    /// Makes the manager's thread. The caller has claimed the attempt.
    fn make(core: &Arc<Core>) -> io::Result<()> {
        let made = spawn(core);
        let mut inbox = core.manager.inbox.lock();
        match &made {
            Ok(()) => inbox.presence.made(),
            // Read after the attempt, which may have taken long.
            Err(_) => inbox.presence.failed(clock::now()),
        }
        drop(inbox);
        if made.is_err() {
            missing::register(core);
        }
        // A thread that found the manager missing has not rung for it.
        made.map(|()| core.manager.bell.ring())
    }

    /// Makes the manager if it is missing, unless another thread is making it or an attempt has failed within the
    /// last second. Returns whether the manager exists. Also returns true if the executor has ended and needs none.
    #[cold]
    pub(super) fn bring_about(&self) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.stop {
            return true;
        }
        // An executor that is gone needs no manager.
        let Some(core) = inbox.core.upgrade() else { return true };
        let attempt = inbox.presence.needed(clock::now());
        drop(inbox);
        match attempt {
            Attempt::Ask => true,
            Attempt::GoWithout => false,
            Attempt::Make => match Self::make(&core) {
                // The requests that its pools have made so far are lost.
                Ok(()) => {
                    core.pools().iter().for_each(|pool| pool.manager_came());
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

    /// Wakes the manager for a deadline that comes before all others. If it is missing, tries to make it.
    pub(crate) fn rouse(&self) {
        let is_there = self.inbox.lock().presence.is_there();
        if is_there {
            self.bell.ring();
        } else {
            self.bring_about();
        }
    }

    /// Returns whether the caller is on this manager's own thread. Hooks and loggers are user code that runs there.
    pub(crate) fn is_current_thread(&self) -> bool {
        std::ptr::eq(MANAGED.get(), self)
    }

    /// Makes the calling thread the manager.
    pub(super) fn arrive(&self) {
        MANAGED.set(self);
        self.inbox.lock().presence.made();
    }

    /// Returns whether the manager was told to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inbox.lock().stop
    }

    /// Returns whether the manager takes no requests: it is missing, or was told to end.
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

    /// Called by a thread that reaches this point. Panics if a test has planted a fault there.
    #[inline]
    pub(crate) fn strike(&self, point: Point) {
        assert!(!self.meets(point), "a test has planted a fault at {point:?}");
    }

    /// Returns whether a test has planted a fault at this point, and removes it.
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

    /// Takes the requests. Returns them, and whether the manager must end. Called by the manager.
    pub(super) fn empty(&self) -> (Vec<Request>, bool) {
        let mut inbox = self.inbox.lock();
        (std::mem::take(&mut inbox.requests), inbox.stop)
    }
}
