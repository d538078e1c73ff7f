//! Managers that could not be made. Nobody else makes threads, so it is tried again by those who bring a request, and by
//! those who wait for something: by any of them, for all managers that are missing, at most once a second for each.

use std::sync::{Arc, Weak};

use crate::policy::manager::CREATION_COOLDOWN;
use crate::sys::clock;
use crate::sys::sync::Mutex;
use crate::sys::wait::{Chore, set_chore};

use super::super::user_code::{call, report};
use super::{Core, ManagerHandle, ThreadState};

/// The lock of the chore is taken inside of this one.
static MISSING: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// Has whoever waits see to it that this manager is made.
pub(super) fn register(core: &Arc<Core>) {
    let mut missing = MISSING.lock();
    let this = Arc::downgrade(core);
    if !missing.iter().any(|known| known.ptr_eq(&this)) {
        missing.push(this);
    }
    set_chore(Some(Chore { every: CREATION_COOLDOWN, perform: try_again }));
}

fn try_again() {
    let known = MISSING.lock().clone();
    // In a forked process, the parent's is nobody's business.
    let bring_about = |core: Arc<Core>| core.origin.is_forked() || core.manager.bring_about();
    let is_settled = |core: &Weak<Core>| core.upgrade().is_none_or(bring_about);
    let settled: Vec<_> = known.into_iter().filter(is_settled).collect();
    let mut missing = MISSING.lock();
    missing.retain(|core| !settled.iter().any(|settled| settled.ptr_eq(core)));
    if missing.is_empty() {
        set_chore(None);
    }
}

impl ManagerHandle {
    /// Is nobody there whom a request could be put to, for now or any more?
    pub(crate) fn is_missing(&self) -> bool {
        let inbox = self.inbox.lock();
        inbox.stop || matches!(inbox.state, ThreadState::Missing { .. })
    }

    /// If the manager is missing, tries to make it, unless that was tried within the last second. True if there is one.
    #[cold]
    pub(super) fn bring_about(&self) -> bool {
        let mut inbox = self.inbox.lock();
        let ThreadState::Missing { core, try_again } = &mut inbox.state else { return true };
        let now = clock::now();
        if now < *try_again {
            return false;
        }
        // Whoever comes meanwhile leaves the attempt to this thread.
        *try_again = now + CREATION_COOLDOWN;
        let core = core.upgrade();
        drop(inbox);
        let Some(core) = core else { return false };
        if let Err(error) = Self::start(&core) {
            // The error may be a hook's, so its destructor is user code, too.
            call(move || {
                report!(error, "the manager's thread cannot be made: {error}; work waits");
                drop(error);
            });
            return false;
        }
        // Nobody has served any of them so far.
        core.pools().iter().for_each(|pool| pool.manager_came());
        true
    }
}
