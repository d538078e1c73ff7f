//! Managers that could not be made. No other thread makes threads, so other threads have to try again. A thread that
//! sends a request tries to make the manager of its executor; a thread that waits tries to make all that are missing.
//! Each is tried at most once a second.

use std::sync::{Arc, Weak};

use crate::policy::manager::CREATION_COOLDOWN;
use crate::sys::sync::Mutex;
use crate::sys::wait::{Chore, set_chore};

use crate::engine::executor::core::Core;

/// Lock order: this lock first, then that of the chore.
static MISSING: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// Notes that the manager of this executor is missing. From now on, threads that wait try to make it.
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
    // In a forked child, the executors of the parent need no manager.
    let bring_about = |core: Arc<Core>| core.origin.is_forked() || core.manager.bring_about();
    let is_settled = |core: &Weak<Core>| core.upgrade().is_none_or(bring_about);
    let settled: Vec<_> = known.into_iter().filter(is_settled).collect();
    let mut missing = MISSING.lock();
    missing.retain(|core| !settled.iter().any(|settled| settled.ptr_eq(core)));
    if missing.is_empty() {
        set_chore(None);
    }
}
