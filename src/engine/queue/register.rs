//! The register of an executor's queues, for operations on all of them.
//!
//! Entering and leaving take O(log n) time. Under the register's lock, no thread is woken and no user code runs. A
//! thread that acts on queues takes *references* to them, which keep them in memory like a handle or an entry, and
//! releases the lock.
#![allow(
    unsafe_code,
    reason = "the register knows queues by their addresses, and they leave it before they are freed"
)]

use std::collections::BTreeMap;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::policy::effective_state::Stage;
use crate::sys::sync::Mutex;

use super::workqueue::Queue;

/// See the module.
#[derive(Debug)]
pub(crate) struct Register(Mutex<State>);

#[derive(Debug)]
struct State {
    /// By number, in the order in which they entered.
    queues: BTreeMap<u64, Known>,
    /// The highest number so far.
    entered: u64,
    frozen: bool,
    stage: Stage,
}

/// A queue that has not left.
#[derive(Debug)]
struct Known(NonNull<Queue>);

// SAFETY: it points at a `Queue`, which threads share.
unsafe impl Send for Known {}

/// Keeps a queue in memory, for a thread that has neither a handle nor an entry of it.
#[derive(Debug)]
pub(crate) struct QueueRef(NonNull<Queue>);

impl Register {
    pub(crate) fn new() -> Self {
        let state = State { queues: BTreeMap::new(), entered: 0, frozen: false, stage: Stage::Open };
        Self(Mutex::new(state))
    }

    /// Enters a new queue, which other threads may refer to from now on. Before that, calls `note` with the queue's
    /// number. Once the executor runs no item any more, queues do not enter, and get no number. Returns whether the
    /// executor is open.
    #[must_use]
    pub(crate) fn enter(&self, queue: NonNull<Queue>, note: impl FnOnce(u64)) -> bool {
        let mut state = self.0.lock();
        if state.stage != Stage::Shut {
            state.entered += 1;
            let number = state.entered;
            note(number);
            state.queues.insert(number, Known(queue));
        }
        state.stage == Stage::Open
    }

    /// Removes a queue that is about to be freed.
    pub(crate) fn leave(&self, number: u64) {
        self.0.lock().queues.remove(&number);
    }

    /// Returns whether the freezable queues are frozen, and the executor's stage.
    pub(crate) fn condition(&self) -> (bool, Stage) {
        let state = self.0.lock();
        (state.frozen, state.stage)
    }

    /// Brings the executor to this stage, and thaws it. Returns false if it had come there before.
    pub(crate) fn advance(&self, stage: Stage) -> bool {
        let mut state = self.0.lock();
        let advances = state.stage < stage;
        if advances {
            state.stage = stage;
            state.frozen = false;
        }
        advances
    }

    /// Freezes or thaws the freezable queues. Returns false if that changes nothing, or if the executor is not open.
    pub(crate) fn freeze(&self, frozen: bool) -> bool {
        let mut state = self.0.lock();
        let changes = state.frozen != frozen && state.stage == Stage::Open;
        if changes {
            state.frozen = frozen;
        }
        changes
    }

    /// Takes references to all queues, in the order in which they entered.
    pub(crate) fn refs(&self) -> Vec<QueueRef> {
        self.refs_after(0).0
    }

    /// Takes references to the queues whose numbers are higher than this one. Also returns the highest number so far.
    pub(crate) fn refs_after(&self, number: u64) -> (Vec<QueueRef>, u64) {
        let state = self.0.lock();
        let later = state.queues.range(number + 1..).map(|(_, known)| known.0);
        // SAFETY: a queue leaves under this lock before it is freed.
        let refs = later.filter_map(|queue| unsafe { QueueRef::new(queue) }).collect();
        (refs, state.entered)
    }

    /// Takes references to the queues for which `look` returns true. Returns them with their numbers. `look` runs under
    /// the lock, and changes nothing.
    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "asked for over the control socket")
    )]
    pub(crate) fn find(&self, mut look: impl FnMut(u64, &Queue) -> bool) -> Vec<(u64, QueueRef)> {
        let state = self.0.lock();
        // SAFETY: a queue leaves under this lock before it is freed.
        let found = state.queues.iter().filter(|(number, known)| look(**number, unsafe { known.0.as_ref() }));
        // SAFETY: as above.
        found.filter_map(|(number, known)| Some((*number, unsafe { QueueRef::new(known.0) }?))).collect()
    }

    /// Returns whether `look` returns true for one of the queues. `look` runs under the lock, and changes nothing.
    pub(crate) fn any(&self, mut look: impl FnMut(&Queue) -> bool) -> bool {
        let state = self.0.lock();
        // SAFETY: as above.
        state.queues.values().any(|known| look(unsafe { known.0.as_ref() }))
    }
}

impl QueueRef {
    /// Takes a reference to a queue. Returns `None` if the queue is about to be freed.
    ///
    /// # Safety
    ///
    /// The queue is not freed during the call.
    unsafe fn new(queue: NonNull<Queue>) -> Option<Self> {
        // SAFETY: the caller promises it.
        unsafe { queue.as_ref() }.try_reference()
    }

    /// Brings back a reference that was forgotten by `mem::forget`.
    ///
    /// # Safety
    ///
    /// For each of these calls, one reference to the queue was forgotten.
    pub(crate) unsafe fn remembered(queue: &Queue) -> Self {
        Self(queue.this())
    }
}

impl Queue {
    /// Takes a reference to the queue. The caller keeps it in memory already, by a handle, an entry or a reference.
    pub(crate) fn reference(&self) -> QueueRef {
        QueueRef(self.count_reference())
    }

    /// Takes a reference to the queue, which is not freed during the call. Returns `None` if it is about to be freed.
    pub(crate) fn try_reference(&self) -> Option<QueueRef> {
        self.try_count_reference().map(QueueRef)
    }
}

impl Deref for QueueRef {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: a `QueueRef` counts as one reference to the queue.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for QueueRef {
    fn drop(&mut self) {
        // SAFETY: a `QueueRef` counts as one reference, which ends here.
        unsafe { Queue::release(self.0) };
    }
}
