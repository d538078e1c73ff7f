//! The cleaner: the thread that destroys what the manager must not.
//!
//! A destructor of a user may wait for a timer, which the manager fires, or for an item, whose worker the manager makes. So
//! the manager [leaves](super::super::user_code::destroy) what it would destroy: the last handle of an item whose timer came
//! too late, an entry of a pool that runs nothing any more, the hooks of an executor that nothing else knows.
//!
//! The thread is made when something was left, one at a time, and ends when nothing is left. If it cannot be made, that is
//! tried again as for every thread. It counts as a thread of the executor, so a shutdown waits for it.

use std::io;
use std::sync::Arc;

use crate::sys::sync::Mutex;
use crate::sys::thread;

use super::super::core::Core;
use super::super::threads::Place;
use super::super::user_code::{Leftover, contain, destroy};

/// What an executor's manager has left.
#[derive(Default)]
pub(crate) struct Cleaner(Mutex<State>);

#[derive(Default)]
struct State {
    left: Vec<Leftover>,
    /// A thread is made, or is being made, and has not found the list empty.
    is_there: bool,
}

impl Cleaner {
    /// The manager leaves these. True if a thread is to be made for them.
    pub(super) fn leave(&self, mut left: Vec<Leftover>) -> bool {
        if left.is_empty() {
            return false;
        }
        let mut state = self.0.lock();
        state.left.append(&mut left);
        !state.is_there
    }

    /// What was left so far. Empty: the thread that asks is not there any more.
    fn take(&self) -> Vec<Leftover> {
        let mut state = self.0.lock();
        state.is_there = !state.left.is_empty();
        std::mem::take(&mut state.left)
    }

    /// False if no thread is to be made.
    fn begin(&self) -> bool {
        let mut state = self.0.lock();
        let begins = !state.is_there && !state.left.is_empty();
        state.is_there |= begins;
        begins
    }

    fn could_not_be_made(&self) {
        self.0.lock().is_there = false;
    }

    /// Destroys what was left, and what is left meanwhile.
    pub(super) fn clean(&self) {
        loop {
            let left = self.take();
            if left.is_empty() {
                return;
            }
            left.into_iter().for_each(contain);
        }
    }
}

impl Drop for Cleaner {
    /// The executor ends before a thread was made for these: they are destroyed here or, on a manager's thread, by a thread
    /// that follows it.
    fn drop(&mut self) {
        for left in std::mem::take(&mut *self.0.lock()).left {
            destroy(move || contain(left));
        }
    }
}

/// Makes the thread, if one is to be made.
pub(super) fn make(core: &Arc<Core>) -> io::Result<()> {
    if !core.cleaner.begin() {
        return Ok(());
    }
    let cleaned = Arc::clone(core);
    let made = Place::of_cleaner(core).spawn(core, name(core), move || cleaned.cleaner.clean());
    made.inspect_err(|_| core.cleaner.could_not_be_made())
}

/// The manager has ended, and its executor is gone: what it has left nevertheless is destroyed by a thread of its own or, if
/// none can be made, here. No other thread depends on this one any more.
pub(super) fn finish(left: Vec<Leftover>, name: String, stack_size: Option<usize>) {
    let cleaner = Arc::new(Cleaner::default());
    if cleaner.leave(left) {
        let elsewhere = Arc::clone(&cleaner);
        if thread::spawn(name, stack_size, move || elsewhere.clean()).is_err() {
            cleaner.clean();
        }
    }
}

/// That of its thread.
pub(super) fn name(core: &Core) -> String {
    format!("{}/cleaner", core.settings.name_prefix)
}

impl std::fmt::Debug for Cleaner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Cleaner").field("left", &state.left.len()).field("is_there", &state.is_there).finish()
    }
}
