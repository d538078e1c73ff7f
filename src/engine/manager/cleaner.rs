//! The cleaner: the thread that destroys what the manager must not.
//!
//! A destructor of a user may wait for a timer, which the manager fires, or for an item, whose worker the manager makes. So
//! the manager [leaves](super::super::user_code::destroy) what it would destroy: the last handle of an item whose timer came
//! too late, an entry of a pool that runs nothing any more, the hooks of an executor that nothing else knows.
//!
//! The thread is made when something was left, one at a time, and ends when nothing is left. If it cannot be made, that is
//! tried again as for every thread. It counts as a thread of the executor, so a shutdown waits for it. The hook
//! `before_spawn` is not asked: what that refuses a thread with is left, too, so one that refuses every thread would leave
//! more and more.

use std::io;
use std::sync::Arc;

use crate::sys::sync::Mutex;

use super::super::core::Core;
use super::super::threads::{ExecutorThreads, Place};
use super::super::user_code::{Leftover, contain, destroy, report};
use super::Point;

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
    let begun = Begun(Some(Arc::clone(core)));
    core.manager.strike(Point::Cleaner);
    if core.manager.meets(Point::NoCleaner) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    Place::of_cleaner(&core.threads).start(name(core), core.settings.stack_size, move || begun.clean())
}

/// The thread, from before it is made. If it does not come to cleaning, another one is to be made.
struct Begun(Option<Arc<Core>>);

impl Begun {
    fn clean(mut self) {
        if let Some(core) = self.0.take() {
            core.cleaner.clean();
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(core) = self.0.take() {
            core.cleaner.0.lock().is_there = false;
        }
    }
}

/// What a manager keeps for its end, when its executor may be gone: how the last cleaner is made.
pub(super) struct Last {
    threads: Arc<ExecutorThreads>,
    name: String,
    stack_size: Option<usize>,
}

impl Last {
    pub(super) fn new(core: &Core) -> Self {
        let (threads, stack_size) = (Arc::clone(&core.threads), core.settings.stack_size);
        Self { threads, name: name(core), stack_size }
    }

    /// The manager has ended: what it has left nevertheless is destroyed by a thread of its own or, if none can be made, here.
    /// No other thread depends on this one any more.
    pub(super) fn clean(self, left: Vec<Leftover>) {
        let cleaner = Arc::new(Cleaner::default());
        if !cleaner.leave(left) {
            return;
        }
        let elsewhere = Arc::clone(&cleaner);
        let place = Place::of_cleaner(&self.threads);
        if let Err(error) = place.start(self.name, self.stack_size, move || elsewhere.clean()) {
            report!(warn, "the cleaner cannot be made: {error}; the manager's thread does its work");
            cleaner.clean();
        }
    }
}

/// That of its thread.
fn name(core: &Core) -> String {
    format!("{}/cleaner", core.settings.name_prefix)
}

impl std::fmt::Debug for Cleaner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Cleaner").field("left", &state.left.len()).field("is_there", &state.is_there).finish()
    }
}
