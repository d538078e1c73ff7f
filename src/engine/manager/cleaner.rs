//! The cleaner: the thread that destroys what the manager must not destroy.
//!
//! A user's destructor may wait for a timer, which the manager fires, or for an item, whose worker the manager makes.
//! So the manager calls no such destructor. It [leaves](super::super::user_code::destroy) the values to the cleaner:
//! the last handle of an item whose timer came too late, an entry of a pool that runs nothing any more, the hooks of
//! an executor that no other thread holds.
//!
//! The thread is made when something was left, one thread at a time, and ends when nothing is left. If it cannot be
//! made, the manager tries again, as for every thread. It counts as a thread of the executor, so a shutdown waits for
//! it.
//!
//! The hook `before_spawn` is not called for it: the error of a hook that refuses a thread is left to the cleaner,
//! too. So a hook that refuses every thread would cause ever more leftovers.

use std::io;
use std::sync::Arc;

use crate::sys::sync::Mutex;

use crate::engine::executor::core::Core;
use crate::engine::executor::threads::{ExecutorThreads, Place};

use super::super::user_code::{Leftover, contain, destroy, report};
use super::inbox::Point;

/// The values that an executor's manager has left.
#[derive(Default)]
pub(crate) struct Cleaner(Mutex<State>);

#[derive(Default)]
struct State {
    left: Vec<Leftover>,
    /// A thread exists or is being made, and has not yet found the list empty.
    is_there: bool,
}

impl Cleaner {
    /// Adds what the manager leaves. Returns whether a thread must be made for it.
    pub(super) fn leave(&self, mut left: Vec<Leftover>) -> bool {
        if left.is_empty() {
            return false;
        }
        let mut state = self.0.lock();
        state.left.append(&mut left);
        !state.is_there
    }

    /// Takes everything that was left so far. If that is nothing, the calling thread no longer counts as the cleaner.
    fn take(&self) -> Vec<Leftover> {
        let mut state = self.0.lock();
        state.is_there = !state.left.is_empty();
        std::mem::take(&mut state.left)
    }

    /// Notes that a thread is about to be made. Returns false if none is needed.
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
    /// The executor ends, and no thread was made for these values. They are destroyed here or, on a manager's thread,
    /// left to another thread.
    fn drop(&mut self) {
        for left in std::mem::take(&mut *self.0.lock()).left {
            destroy(move || contain(left));
        }
    }
}

/// Makes the thread, if one is needed.
pub(super) fn make(cleaner: &Arc<Cleaner>, core: &Core) -> io::Result<()> {
    if !cleaner.begin() {
        return Ok(());
    }
    let begun = Begun(Some(Arc::clone(cleaner)));
    core.manager.strike(Point::Cleaner);
    if core.manager.meets(Point::NoCleaner) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    Place::of_cleaner(&core.threads).start(name(core), core.settings.stack_size, move || begun.clean())
}

/// The cleaner's thread, from before it is made. If it is dropped before it cleans, another thread can be made.
struct Begun(Option<Arc<Cleaner>>);

impl Begun {
    fn clean(mut self) {
        if let Some(cleaner) = self.0.take() {
            cleaner.clean();
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(cleaner) = self.0.take() {
            cleaner.0.lock().is_there = false;
        }
    }
}

/// What a manager needs to make the last cleaner when it ends. By then its executor may be gone.
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

    /// Destroys what the manager has left at its end, on a thread of its own. If that cannot be made, destroys it
    /// here: no other thread depends on this one any more.
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

/// The name of the cleaner's thread.
fn name(core: &Core) -> String {
    format!("{}/cleaner", core.settings.name_prefix)
}

impl std::fmt::Debug for Cleaner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Cleaner").field("left", &state.left.len()).field("is_there", &state.is_there).finish()
    }
}
