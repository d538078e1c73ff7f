//! The manager as other threads see it: an inbox, a bell, and whether it is there.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Weak};

use crate::policy::presence::{Attempt, Presence};
use crate::policy::rescue::Call;
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::sync::Mutex;

use super::super::bell::Bell;
use super::super::core::Core;
use super::super::pool::Pool;
use super::super::rescuer::Order;
use super::super::user_code::{destroy_error, report};
use super::supervision::Point;
use super::{missing, spawn};

thread_local! {
    /// Whose manager the calling thread is.
    static MANAGED: Cell<*const ManagerHandle> = const { Cell::new(std::ptr::null()) };
}

/// What is asked of the manager.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Create(Weak<Pool>),
    Cull(Weak<Pool>, Time),
    Watch(Weak<Pool>),
    /// A worker was woken, and may not get a CPU.
    Stall(Weak<Pool>, Time),
    /// Work waits for a worker that cannot be made.
    Call(Weak<Pool>, Call),
    /// A queue with a rescuer is being built.
    Rescuer(Arc<Order>),
    /// A worker has left, and a pool waits for its place.
    Room,
}

impl Request {
    /// The manager ends: a thread that waits for an answer gets it.
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
    /// That which owns this handle; set before the manager is made for the first time.
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
    /// If the thread cannot be made. It is tried again when something is asked of it.
    pub(crate) fn start(core: &Arc<Core>) -> io::Result<()> {
        core.manager.inbox.lock().core = Arc::downgrade(core);
        Self::make(core)
    }

    /// Makes the manager's thread: the attempt is the caller's.
    fn make(core: &Arc<Core>) -> io::Result<()> {
        let made = spawn(core);
        let mut inbox = core.manager.inbox.lock();
        match &made {
            Ok(()) => inbox.presence.made(),
            // At its end, since the attempt itself may have taken long.
            Err(_) => inbox.presence.failed(clock::now()),
        }
        drop(inbox);
        if made.is_err() {
            missing::register(core);
        }
        // A request that came since it looked into the inbox found no manager to ring for.
        made.map(|()| core.manager.bell.ring())
    }

    /// If the manager is missing, makes it, unless another thread does or that was tried within the last second. True if
    /// there is one, or is none any more.
    #[cold]
    pub(super) fn bring_about(&self) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.stop {
            return true;
        }
        // An executor that is gone misses no manager.
        let Some(core) = inbox.core.upgrade() else { return true };
        let attempt = inbox.presence.needed(clock::now());
        drop(inbox);
        match attempt {
            Attempt::Ask => true,
            Attempt::GoWithout => false,
            Attempt::Make => match Self::make(&core) {
                // Its pools were not served so far.
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

    /// Puts a request into the inbox. False if there is no manager and none can be made now: the request is gone.
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

    /// Wakes the manager: its next deadline is sooner than it knows. A missing one is tried.
    pub(crate) fn rouse(&self) {
        let is_there = self.inbox.lock().presence.is_there();
        if is_there {
            self.bell.ring();
        } else {
            self.bring_about();
        }
    }

    /// Is this the manager's own thread? Hooks and loggers are user code that runs there.
    pub(crate) fn is_current_thread(&self) -> bool {
        std::ptr::eq(MANAGED.get(), self)
    }

    /// The calling thread is the manager from now on.
    pub(super) fn arrive(&self) {
        MANAGED.set(self);
        self.inbox.lock().presence.made();
    }

    /// Is it to end, or has it ended?
    pub(crate) fn is_stopped(&self) -> bool {
        self.inbox.lock().stop
    }

    /// Can no request be put to it, for now or any more?
    pub(crate) fn is_missing(&self) -> bool {
        let inbox = self.inbox.lock();
        inbox.stop || !inbox.presence.is_there()
    }

    /// The executor is done with: the manager ends.
    pub(crate) fn stop(&self) {
        let mut inbox = self.inbox.lock();
        inbox.stop = true;
        drop(inbox);
        self.bell.ring();
    }

    /// Has the manager panic when it comes there, once.
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

    /// By a thread that has come there. Panics if a test has planted that.
    #[inline]
    pub(crate) fn strike(&self, point: Point) {
        assert!(!self.meets(point), "a fault that was planted: {point:?}");
    }

    /// Has a test planted that?
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

    /// By the manager: takes the requests, and whether it is to end.
    pub(super) fn empty(&self) -> (Vec<Request>, bool) {
        let mut inbox = self.inbox.lock();
        (std::mem::take(&mut inbox.requests), inbox.stop)
    }
}
