//! An issuer's window, which consists of the blocks in flight and the item of each block.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use cmwq::{Work, WorkQueue};

use super::block::{Block, Digests};
use super::placement::{Placed, Pods, Ticket};

/// The blocks of an issuer, and the desk at which items report finished blocks.
pub(crate) struct Window {
    slots: Vec<Slot>,
    desk: Arc<Desk>,
    /// The number of blocks that the issuer waits for at a time.
    batch: usize,
    /// The number of the content of the next block.
    next: usize,
}

struct Slot {
    state: Arc<Mutex<State>>,
    work: Work,
}

/// A block and its placement. The issuer takes the lock to fill and to compare the block, and the item takes it to hash
/// the block. They never need the lock at the same time.
struct State {
    block: Block,
    /// The ticket of the present submission, and the pods of the queue's row.
    way: Option<(Arc<Pods>, Ticket)>,
    placed: Placed,
}

/// The desk to which items report when they are done.
struct Desk {
    done: Mutex<Done>,
    enough: Condvar,
}

struct Done {
    slots: Vec<usize>,
    /// The number of done blocks at which the sleeping issuer wakes up.
    wanted: usize,
}

/// The results of an issuer, or of a thread of the static partition.
pub(crate) struct Issued {
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
    pub(crate) blocks: u64,
    pub(crate) placed: Placed,
}

/// The blocks that a thread of the static partition hashes by itself.
pub(crate) struct Share<'a>(Vec<&'a Slot>);

impl Window {
    pub(crate) fn new(blocks: usize, batch: usize) -> Self {
        let done = Mutex::new(Done { slots: Vec::with_capacity(blocks), wanted: 0 });
        let desk = Arc::new(Desk { done, enough: Condvar::new() });
        let slots = (0..blocks).map(|slot| Slot::new(slot, &desk)).collect();
        Self { slots, desk, batch, next: 0 }
    }

    /// Keeps the blocks of the window in flight until it is time to stop, and then waits until all blocks are done.
    pub(crate) fn issue(
        &mut self,
        queue: &WorkQueue,
        pods: &Arc<Pods>,
        digests: &Digests,
        stop: impl Fn(Instant) -> bool,
    ) -> Issued {
        let home = pods.here();
        let begin = Instant::now();
        let (mut blocks, mut placed) = (0, Placed::default());
        let mut done = Vec::with_capacity(self.slots.len());
        pods.wakes(home);
        (0..self.slots.len()).for_each(|slot| self.queue(slot, queue, pods, home));
        let mut in_flight = self.slots.len();
        while in_flight > 0 {
            pods.sleeps(home);
            self.desk.wait(self.batch.min(in_flight), &mut done);
            pods.wakes(home);
            let stop = stop(begin);
            for slot in done.drain(..) {
                placed += self.slots[slot].compare(digests);
                blocks += 1;
                if stop {
                    in_flight -= 1;
                } else {
                    self.queue(slot, queue, pods, home);
                }
            }
        }
        pods.sleeps(home);
        Issued { begin, end: Instant::now(), blocks, placed }
    }

    fn queue(&mut self, slot: usize, queue: &WorkQueue, pods: &Arc<Pods>, home: usize) {
        let slot = &self.slots[slot];
        let mut state = slot.state();
        state.block.fill(self.next);
        state.way = Some((Arc::clone(pods), pods.queued(home)));
        drop(state);
        self.next += 1;
        assert!(queue.enqueue(&slot.work).expect("the queue has no limit"), "a block is in flight already");
    }

    /// Divides the blocks of several windows among threads. Threads get whole windows if the number of windows is a
    /// multiple of the number of threads.
    pub(crate) fn divide(windows: &[Self], threads: usize) -> Vec<Share<'_>> {
        let slots: Vec<&Slot> = windows.iter().flat_map(|window| &window.slots).collect();
        let from = |thread: usize| slots.len() * thread / threads;
        (0..threads).map(|thread| Share(slots[from(thread)..from(thread + 1)].to_vec())).collect()
    }
}

impl Slot {
    fn new(number: usize, desk: &Arc<Desk>) -> Self {
        let state = State { block: Block::new(), way: None, placed: Placed::default() };
        let state = Arc::new(Mutex::new(state));
        let (its, desk) = (Arc::clone(&state), Arc::clone(desk));
        let hash = move || {
            its.lock().expect("items do not panic").hash();
            desk.report(number);
        };
        Self { state, work: Work::new(hash) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("items do not panic")
    }

    fn compare(&self, digests: &Digests) -> Placed {
        let state = self.state();
        state.block.compare(digests);
        state.placed
    }
}

impl State {
    fn hash(&mut self) {
        let (pods, ticket) = self.way.take().expect("a block is hashed once for each submission");
        let started = pods.started(ticket);
        self.block.hash();
        pods.ended(&started);
        self.placed = started.placed;
    }
}

impl Desk {
    fn report(&self, slot: usize) {
        let mut done = self.done.lock().expect("items do not panic");
        done.slots.push(slot);
        if done.slots.len() == done.wanted {
            drop(done);
            self.enough.notify_one();
        }
    }

    /// Sleeps until this many blocks are done, and takes all done blocks.
    fn wait(&self, wanted: usize, into: &mut Vec<usize>) {
        let mut done = self.done.lock().expect("items do not panic");
        done.wanted = wanted;
        while done.slots.len() < wanted {
            done = self.enough.wait(done).expect("items do not panic");
        }
        done.wanted = 0;
        into.append(&mut done.slots);
    }
}

impl Share<'_> {
    /// Fills, hashes and compares in the same order as an issuer and a worker, but without waiting.
    pub(crate) fn hash(&self, batch: usize, digests: &Digests, stop: impl Fn(Instant) -> bool) -> Issued {
        let mut states: Vec<_> = self.0.iter().map(|slot| slot.state()).collect();
        let begin = Instant::now();
        let (count, mut blocks, mut next) = (states.len(), 0, 0);
        let mut fill = |state: &mut State| {
            state.block.fill(next);
            next += 1;
        };
        states.iter_mut().for_each(|state| fill(state));
        let (mut first, mut in_flight) = (0, count);
        while in_flight > 0 {
            let batch = (first..first + batch.min(in_flight)).map(|slot| slot % count);
            batch.clone().for_each(|slot| states[slot].block.hash());
            first += batch.len();
            blocks += batch.len() as u64;
            let stop = stop(begin);
            if stop {
                in_flight -= batch.len();
            }
            for slot in batch {
                states[slot].block.compare(digests);
                if !stop {
                    fill(&mut states[slot]);
                }
            }
        }
        Issued { begin, end: Instant::now(), blocks, placed: Placed::default() }
    }
}
