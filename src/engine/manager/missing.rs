//! Managers that could not be made. No other thread makes threads, so threads that bring a request, and threads that wait
//! for something, try again: any of them, for all managers that are missing, at most once a second for each.

use std::sync::{Arc, Weak};

use crate::policy::manager::CREATION_COOLDOWN;
use crate::sys::sync::Mutex;
use crate::sys::wait::{Chore, set_chore};

use super::Core;

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
