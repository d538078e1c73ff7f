//! The cleaner: the thread that destroys the values that the manager must not destroy.
//!
//! A user's destructor may wait for a timer or for an item. But the manager itself fires timers, and makes the workers
//! that run items. So the manager calls no user's destructor, and [leaves](super::super::user_code::destroy) the values
//! of users to the cleaner. Examples of values that the cleaner destroys are the last handle to an item whose timer
//! fires too late, an entry of a pool that no longer runs items, and the hooks of an executor that no other thread
//! holds.
//!
//! The manager makes the cleaner's thread when there are values to destroy and the thread does not exist. The cleaner's
//! thread ends when it has destroyed all values. If the thread cannot be made, the manager tries again later, as it
//! does for every thread. The cleaner counts as a thread of the executor, so a shutdown waits for it.
//!
//! The wakers of tasks whose deadline has come are on a second list of the same kind, which has a thread of its own. A
//! waker is user code, like a destructor. The call of a waker must not wait for a destructor, because the destructor
//! may wait for the waker's task.
//!
//! The hook `before_spawn` is not called for the cleaner. If the hook refuses a thread, the manager leaves the hook's
//! error to the cleaner. So if the hook could also refuse the cleaner's thread, the manager would leave more and more
//! errors.

use std::io;
use std::sync::Arc;

use crate::sys::sync::Mutex;

use crate::engine::executor::core::Core;
use crate::engine::executor::threads::{ExecutorThreads, ThreadPlace};

use super::super::user_code::{Leftover, contain, destroy, report};
use super::inbox::Point;

/// The values that an executor's manager has left to the cleaner.
#[derive(Default)]
pub(crate) struct Cleaner(Mutex<State>);

#[derive(Default)]
struct State {
    left: Vec<Leftover>,
    /// Whether a cleaner's thread exists or is being made, and has not yet found the list empty.
    is_there: bool,
}

impl Cleaner {
    /// Adds the values that the manager leaves. Returns whether a thread must be made to destroy them.
    pub(super) fn leave(&self, mut left: Vec<Leftover>) -> bool {
        if left.is_empty() {
            return false;
        }
        let mut state = self.0.lock();
        state.left.append(&mut left);
        !state.is_there
    }

    /// Takes all values that were left so far. If no value was left, the calling thread no longer counts as the
    /// cleaner.
    fn take(&self) -> Vec<Leftover> {
        let mut state = self.0.lock();
        state.is_there = !state.left.is_empty();
        std::mem::take(&mut state.left)
    }

    /// If the cleaner's thread must be made, notes that the thread is about to be made, and returns true.
    fn begin(&self) -> bool {
        let mut state = self.0.lock();
        let begins = !state.is_there && !state.left.is_empty();
        state.is_there |= begins;
        begins
    }

    /// Destroys all values that were left, including values that the manager leaves during this call.
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
    /// Destroys the values for which no thread was made before the executor ended. On a manager's thread, leaves these
    /// values to another cleaner.
    fn drop(&mut self) {
        for left in std::mem::take(&mut *self.0.lock()).left {
            destroy(move || contain(left));
        }
    }
}

/// Makes the cleaner's thread if a thread is needed.
pub(super) fn make(cleaner: &Arc<Cleaner>, core: &Core) -> io::Result<()> {
    if !cleaner.begin() {
        return Ok(());
    }
    let begun = Begun(Some(Arc::clone(cleaner)));
    core.manager.strike(Point::Cleaner);
    if core.manager.meets(Point::NoCleaner) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    ThreadPlace::of_cleaner(&core.threads).start(name(core), core.settings.stack_size, move || begun.clean())
}

/// Represents the cleaner's thread until that thread begins to clean. If this value is dropped earlier, another thread
/// can be made.
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

/// The data that a manager needs to make the last cleaner when the manager ends. By then the manager's executor may be
/// gone.
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

    /// Makes a thread that destroys the values that the ending manager has left. If that thread cannot be made,
    /// destroys the values on the calling thread. This is safe, because no other thread depends on the calling thread
    /// any more.
    pub(super) fn clean(self, left: Vec<Leftover>) {
        let cleaner = Arc::new(Cleaner::default());
        if !cleaner.leave(left) {
            return;
        }
        let elsewhere = Arc::clone(&cleaner);
        let place = ThreadPlace::of_cleaner(&self.threads);
        if let Err(error) = place.start(self.name, self.stack_size, move || elsewhere.clean()) {
            report!(warn, "the cleaner cannot be made: {error}; the manager's thread cleans up instead");
            cleaner.clean();
        }
    }
}

/// Returns the name of the cleaner's thread.
fn name(core: &Core) -> String {
    format!("{}/cleaner", core.settings.name_prefix)
}

impl std::fmt::Debug for Cleaner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Cleaner").field("left", &state.left.len()).field("is_there", &state.is_there).finish()
    }
}
