//! The register of an executor's queues, for operations on all of them.
//!
//! A queue enters or leaves a register of n queues in O(log n) time. A thread that holds the register's lock wakes no
//! thread and runs no user code. Before a thread acts on queues, it takes *references* to these queues and releases the
//! register's lock. A reference keeps its queue in memory, as a handle or an entry does.
#![allow(
    unsafe_code,
    reason = "the register knows queues by their addresses, and a queue leaves it before the queue is freed"
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
    /// The queues by number. Queues are numbered in the order in which they enter the register.
    queues: BTreeMap<u64, Known>,
    /// The highest number that a queue has received so far.
    entered: u64,
    frozen: bool,
    stage: Stage,
}

/// A queue that has not left the register.
#[derive(Debug)]
struct Known(NonNull<Queue>);

// SAFETY: a `Known` points at a `Queue`, which threads share.
unsafe impl Send for Known {}

/// A reference that keeps a queue in memory for a thread that holds neither a handle to the queue nor an entry of the
/// queue.
#[derive(Debug)]
pub(crate) struct QueueRef(NonNull<Queue>);

// SAFETY: a `QueueRef` points at a `Queue`, which threads share. Any thread may give the reference up.
unsafe impl Send for QueueRef {}

impl Register {
    pub(crate) fn new() -> Self {
        let state = State { queues: BTreeMap::new(), entered: 0, frozen: false, stage: Stage::Open };
        Self(Mutex::new(state))
    }

    /// Gives a new queue its number, calls `note` with the number, and adds the queue to the register. From then on,
    /// other threads can find the queue in the register. If the executor no longer runs items, the queue gets no number
    /// and is not added. Returns whether the executor is open.
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

    /// Removes the queue with this number, which is about to be freed.
    pub(crate) fn leave(&self, number: u64) {
        self.0.lock().queues.remove(&number);
    }

    /// Returns two values: whether the freezable queues are frozen, and the executor's stage.
    pub(crate) fn condition(&self) -> (bool, Stage) {
        let state = self.0.lock();
        (state.frozen, state.stage)
    }

    /// Advances the executor to this stage, and thaws it. Returns false, and changes nothing, if the executor has
    /// already reached this stage.
    pub(crate) fn advance(&self, stage: Stage) -> bool {
        let mut state = self.0.lock();
        let advances = state.stage < stage;
        if advances {
            state.stage = stage;
            state.frozen = false;
        }
        advances
    }

    /// Notes that the freezable queues are frozen or thawed. Returns false, and changes nothing, if the executor is not
    /// open.
    pub(crate) fn freeze(&self, frozen: bool) -> bool {
        let mut state = self.0.lock();
        let is_open = state.stage == Stage::Open;
        if is_open {
            state.frozen = frozen;
        }
        is_open
    }

    /// Takes references to all queues, in the order in which the queues entered the register.
    pub(crate) fn refs(&self) -> Vec<QueueRef> {
        self.refs_after(0).0
    }

    /// Takes references to the queues whose numbers are higher than `number`. Also returns the highest number that a
    /// queue has received so far.
    pub(crate) fn refs_after(&self, number: u64) -> (Vec<QueueRef>, u64) {
        let state = self.0.lock();
        let later = state.queues.range(number + 1..).map(|(_, known)| known.0);
        // SAFETY: before a queue is freed, a thread removes it from the register under the lock that is held here.
        let refs = later.filter_map(|queue| unsafe { QueueRef::new(queue) }).collect();
        (refs, state.entered)
    }

    /// Takes references to the queues for which `look` returns true, and returns them with the queues' numbers. `look`
    /// runs under the register's lock, and changes nothing.
    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "only the control socket uses it")
    )]
    pub(crate) fn find(&self, mut look: impl FnMut(u64, &Queue) -> bool) -> Vec<(u64, QueueRef)> {
        let state = self.0.lock();
        // SAFETY: before a queue is freed, a thread removes it from the register under the lock that is held here.
        let found = state.queues.iter().filter(|(number, known)| look(**number, unsafe { known.0.as_ref() }));
        // SAFETY: before a queue is freed, a thread removes it from the register under the lock that is held here.
        found.filter_map(|(number, known)| Some((*number, unsafe { QueueRef::new(known.0) }?))).collect()
    }

    /// Returns whether `look` returns true for at least one queue. `look` runs under the register's lock, and changes
    /// nothing.
    pub(crate) fn any(&self, mut look: impl FnMut(&Queue) -> bool) -> bool {
        let state = self.0.lock();
        // SAFETY: before a queue is freed, a thread removes it from the register under the lock that is held here.
        state.queues.values().any(|known| look(unsafe { known.0.as_ref() }))
    }
}

impl QueueRef {
    /// Takes a reference to a queue. Returns `None` if the queue is about to be freed.
    ///
    /// # Safety
    ///
    /// The caller ensures that the queue is not freed during the call.
    unsafe fn new(queue: NonNull<Queue>) -> Option<Self> {
        // SAFETY: the caller promises that the queue is not freed.
        unsafe { queue.as_ref() }.try_reference()
    }

    /// Recreates a reference that was forgotten with `mem::forget`.
    ///
    /// # Safety
    ///
    /// Each call of this function matches one forgotten reference to the queue.
    pub(crate) unsafe fn remembered(queue: &Queue) -> Self {
        Self(queue.this())
    }
}

impl Queue {
    /// Takes a reference to the queue. The caller already keeps the queue in memory through a handle, an entry or
    /// another reference.
    pub(crate) fn reference(&self) -> QueueRef {
        QueueRef(self.count_reference())
    }

    /// Takes a reference to the queue. Returns `None` if the queue has no reference left and is about to be freed. The
    /// caller ensures that the queue is not freed during the call.
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
        // SAFETY: a `QueueRef` counts as one reference to the queue, which is given up here.
        unsafe { Queue::release(self.0) };
    }
}
