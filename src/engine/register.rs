//! The queues of one executor, for what is asked of all of them.
//!
//! Entering and leaving take O(log n). Nobody is woken, and no user code runs, under the register's lock: who wants to
//! act on queues takes *pins* on them, which keep them in place as a handle or an entry would, and lets go of the lock.
#![allow(
    unsafe_code,
    reason = "the register knows queues by their addresses, and they leave it before they are freed"
)]

use std::collections::BTreeMap;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::policy::standing::Stage;
use crate::sys::sync::Mutex;

use super::queue::Queue;

/// See the module.
#[derive(Debug)]
pub(crate) struct Register(Mutex<State>);

#[derive(Debug)]
struct State {
    /// By the order in which they entered.
    queues: BTreeMap<u64, Known>,
    entered: u64,
    frozen: bool,
    stage: Stage,
}

/// A queue that has not left.
#[derive(Debug)]
struct Known(NonNull<Queue>);

// SAFETY: leads to a `Queue`, which threads share.
unsafe impl Send for Known {}

/// Keeps a queue in place, of which the caller has neither a handle nor an entry.
#[derive(Debug)]
pub(crate) struct Pin(NonNull<Queue>);

impl Register {
    pub(crate) fn new() -> Self {
        let state = State { queues: BTreeMap::new(), entered: 0, frozen: false, stage: Stage::Open };
        Self(Mutex::new(state))
    }

    /// A queue was made: it may be pinned from now on. `note` is called before that, with its number. One that comes
    /// when nothing runs any more does not enter, and has none. Is the executor still open?
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

    /// A queue is about to be freed.
    pub(crate) fn leave(&self, number: u64) {
        self.0.lock().queues.remove(&number);
    }

    /// Are the freezable queues frozen, and what is the executor's stage?
    pub(crate) fn condition(&self) -> (bool, Stage) {
        let state = self.0.lock();
        (state.frozen, state.stage)
    }

    /// The executor comes to this stage, and thaws. False if it was there before.
    pub(crate) fn advance(&self, stage: Stage) -> bool {
        let mut state = self.0.lock();
        let advances = state.stage < stage;
        if advances {
            state.stage = stage;
            state.frozen = false;
        }
        advances
    }

    /// False if that is so already, or will never be so again.
    pub(crate) fn freeze(&self, frozen: bool) -> bool {
        let mut state = self.0.lock();
        let changes = state.frozen != frozen && state.stage == Stage::Open;
        if changes {
            state.frozen = frozen;
        }
        changes
    }

    /// The queues that there are, in the order in which they entered.
    pub(crate) fn pins(&self) -> Vec<Pin> {
        self.pins_after(0).0
    }

    /// Those whose numbers are higher than this one, and the highest number so far.
    pub(crate) fn pins_after(&self, number: u64) -> (Vec<Pin>, u64) {
        let state = self.0.lock();
        let later = state.queues.range(number + 1..).map(|(_, known)| known.0);
        // SAFETY: a queue leaves under this lock before it is freed.
        let pins = later.filter_map(|queue| unsafe { Pin::new(queue) }).collect();
        (pins, state.entered)
    }

    /// Those of which it holds, with their numbers. `look` only looks.
    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "asked for over the control socket")
    )]
    pub(crate) fn find(&self, mut look: impl FnMut(u64, &Queue) -> bool) -> Vec<(u64, Pin)> {
        let state = self.0.lock();
        // SAFETY: a queue leaves under this lock before it is freed.
        let found = state.queues.iter().filter(|(number, known)| look(**number, unsafe { known.0.as_ref() }));
        // SAFETY: as above.
        found.filter_map(|(number, known)| Some((*number, unsafe { Pin::new(known.0) }?))).collect()
    }

    /// Does it hold of one of the queues? `look` only looks.
    pub(crate) fn any(&self, mut look: impl FnMut(&Queue) -> bool) -> bool {
        let state = self.0.lock();
        // SAFETY: as above.
        state.queues.values().any(|known| look(unsafe { known.0.as_ref() }))
    }
}

impl Pin {
    /// `None` if the queue is about to be freed.
    ///
    /// # Safety
    ///
    /// The queue is not freed while this runs.
    unsafe fn new(queue: NonNull<Queue>) -> Option<Self> {
        // SAFETY: the caller promises it.
        unsafe { queue.as_ref() }.try_pin()
    }

    /// A pin that was forgotten.
    ///
    /// # Safety
    ///
    /// It was, once for each of these calls.
    pub(super) unsafe fn remembered(queue: &Queue) -> Self {
        Self(queue.this())
    }
}

impl Queue {
    /// For who keeps the queue in place already, by a handle, an entry or a pin.
    pub(super) fn pin(&self) -> Pin {
        Pin(self.held())
    }

    /// `None` if the queue is about to be freed. It is not while this runs.
    pub(super) fn try_pin(&self) -> Option<Pin> {
        self.hold().map(Pin)
    }
}

impl Deref for Pin {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: this holds the queue.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: this hold was counted by `new`, and is given up here.
        unsafe { Queue::let_go(self.0) };
    }
}
