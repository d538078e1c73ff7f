//! The count of the bytes that an executor's pending items keep in memory, and the line of issuers that wait for room.
//!
//! One lock orders all changes of the count and of the line. While an issuer holds the lock, it takes room for its item
//! or joins the line. A thread that makes room takes the same lock, and hands the room to the issuers in line. So each
//! queue's first issuer in the line waits only while there is no room for its item.
//!
//! To shut a queue, a thread first shuts the queue's intakes, which then admit no more items. Next, the thread refuses
//! the queue's issuers that wait in the line. An issuer first joins the line, and then checks that its queue is open.
//! If the issuer did these two steps in the opposite order, this could happen:
//!
//! * issuer: sees that the queue is open;
//! * other thread: shuts the queue; finds no issuer in line;
//! * issuer: joins the line, and no thread refuses it. So the issuer waits for room in a queue whose items may all have
//!   ended.

use std::collections::VecDeque;

use crate::policy::backlog;
use crate::sys::sync::{Arc, AtomicU64, Mutex, Ordering};

use super::signal::Signal;

/// See the module.
#[derive(Debug)]
pub(crate) struct ByteCell {
    /// The bound on the number of bytes of the pending items of all queues.
    bound: u64, // I
    state: Mutex<State>, // K
}

#[derive(Debug)]
struct State {
    /// The bytes of the pending items of all queues.
    pending: u64,
    line: VecDeque<Arc<ByteTurn>>,
}

/// The bytes of the pending items of one queue. The number changes under the lock of the cell.
#[derive(Debug)]
pub(crate) struct QueueBytes(AtomicU64);

/// The turn of an issuer that waits in the line for room for its item.
#[derive(Debug)]
pub(crate) struct ByteTurn {
    queue: Arc<QueueBytes>,
    bytes: u64,
    /// Whether the issuer has got room for its bytes. A thread writes this field under the lock of the cell, before it
    /// sets the signal.
    has_room: AtomicU64,
    /// The signal that is set when the issuer gets room for its bytes or is refused.
    over: Signal,
}

impl ByteCell {
    pub(crate) fn new(bound: u64) -> Self {
        Self { bound, state: Mutex::new(State { pending: 0, line: VecDeque::new() }) }
    }

    /// Returns the number of bytes of all pending items.
    pub(crate) fn pending(&self) -> u64 {
        self.state.lock().pending
    }

    /// Takes room for an item of this queue. Returns false if there is no room, or if issuers of this queue already
    /// wait in the line.
    pub(crate) fn take(&self, queue: &Arc<QueueBytes>, bytes: u64) -> bool {
        self.state.lock().take(self.bound, queue, bytes)
    }

    /// Takes room for an item of this queue, or joins the line. Returns the issuer's turn if the issuer has joined the
    /// line. `check` returns an error if the queue is shut. `reserve` then returns this error, and also whether the
    /// issuer has got room in the meantime. An issuer that has got room gives it back after the call.
    #[cold]
    pub(crate) fn reserve<E>(
        &self,
        queue: &Arc<QueueBytes>,
        bytes: u64,
        check: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<Arc<ByteTurn>>, (E, bool)> {
        let mut state = self.state.lock();
        if state.take(self.bound, queue, bytes) {
            return Ok(None);
        }
        let (queue, has_room) = (Arc::clone(queue), AtomicU64::new(0));
        let turn = Arc::new(ByteTurn { queue, bytes, has_room, over: Signal::new() });
        state.line.push_back(Arc::clone(&turn));
        drop(state);
        match check() {
            Ok(()) => Ok(Some(turn)),
            Err(error) => Err((error, self.end_turn(&turn))),
        }
    }

    /// Gives the bytes of an item back, and hands the room to issuers that wait in the line. While issuers wait, the
    /// call takes time proportional to the number of issuers in line, times the number of their queues.
    pub(crate) fn give_back(&self, queue: &QueueBytes, bytes: u64) {
        let mut state = self.state.lock();
        state.pending -= bytes;
        queue.change(|own| own - bytes);
        let handed = state.hand(self.bound);
        drop(state);
        wake(&handed);
    }

    /// Ends an issuer's turn. Returns true if the issuer has got room for its bytes. The issuer then owns this room.
    #[cold]
    pub(crate) fn end_turn(&self, turn: &Arc<ByteTurn>) -> bool {
        let mut state = self.state.lock();
        let place = state.line.iter().position(|other| is_same(other, turn));
        let Some(place) = place else { return turn.has_room.load(Ordering::Relaxed) == 1 };
        state.line.remove(place);
        // A later issuer in the line may need less room than the issuer that leaves the line.
        let handed = state.hand(self.bound);
        drop(state);
        wake(&handed);
        false
    }

    /// Ends the turns of all issuers of this queue without giving them room, because the queue is shut.
    #[cold]
    pub(crate) fn refuse_line(&self, queue: &Arc<QueueBytes>) {
        let mut state = self.state.lock();
        let is_refused = |turn: &Arc<ByteTurn>| is_same(&turn.queue, queue);
        let (refused, line) = state.line.drain(..).partition::<Vec<_>, _>(is_refused);
        state.line = line.into();
        drop(state);
        wake(&refused);
    }
}

fn is_same<T>(one: &Arc<T>, other: &Arc<T>) -> bool {
    std::ptr::eq(&**one, &**other)
}

/// Wakes the issuers that own these turns, because the turns are over. The caller has released the lock of the cell.
fn wake(turns: &[Arc<ByteTurn>]) {
    turns.iter().for_each(|turn| turn.over.set());
}

impl State {
    fn take(&mut self, bound: u64, queue: &Arc<QueueBytes>, bytes: u64) -> bool {
        let waits = self.line.iter().any(|turn| is_same(&turn.queue, queue));
        !waits && self.add(bound, queue, bytes)
    }

    /// Counts the bytes of an item if there is room for them.
    fn add(&mut self, bound: u64, queue: &QueueBytes, bytes: u64) -> bool {
        let admitted = backlog::with_item(bound, self.pending, queue.pending(), bytes);
        if let Some((pending, own)) = admitted {
            self.pending = pending;
            queue.change(|_| own);
        }
        admitted.is_some()
    }

    /// Hands room to the issuers in line. If there is no room for an issuer's item, skips this issuer and the later
    /// issuers of the same queue.
    fn hand(&mut self, bound: u64) -> Vec<Arc<ByteTurn>> {
        let (mut handed, mut closed, mut at) = (Vec::new(), Vec::<Arc<QueueBytes>>::new(), 0);
        while let Some(turn) = self.line.get(at).cloned() {
            let is_first = !closed.iter().any(|queue| is_same(queue, &turn.queue));
            if is_first && self.add(bound, &turn.queue, turn.bytes) {
                turn.has_room.store(1, Ordering::Relaxed);
                handed.extend(self.line.remove(at));
            } else {
                if is_first {
                    closed.push(Arc::clone(&turn.queue));
                }
                at += 1;
            }
        }
        handed
    }
}

impl QueueBytes {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn pending(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the number of the queue's bytes. The caller holds the lock of the cell.
    fn change(&self, change: impl FnOnce(u64) -> u64) {
        self.0.store(change(self.pending()), Ordering::Relaxed);
    }
}

impl ByteTurn {
    #[cfg(not(cmwq_loom))]
    pub(crate) fn queue(&self) -> &QueueBytes {
        &self.queue
    }

    #[cfg(not(cmwq_loom))]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the signal that is set when the turn is over.
    pub(crate) fn signal(&self) -> &Signal {
        &self.over
    }
}
