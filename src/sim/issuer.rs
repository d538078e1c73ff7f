//! Issuers like those of the documents' tests. Each keeps a window of blocks in flight: it generates the content of a
//! block, queues the block, and verifies it when it comes back.
//!
//! An issuer needs a CPU for that. From time to time the system moves it to another one.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::machine::{Machine, Timer};
use super::pool::{Thread, ThreadId};
use super::script::{Item, ItemId, Op, Step};
use crate::policy::time::Time;

/// The CPU time that a block costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) worker: Duration,
    pub(super) issuer: Duration,
    /// Added to each of the two if the content was written under another cache.
    pub(super) crossing: Duration,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) thread: ThreadId,
    /// Blocks that came back, to be verified and sent again.
    done: VecDeque<ItemId>,
    parked: bool,
    pub(super) completed: usize,
}

/// The last-level caches of the machine, and where each block was written last.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) costs: Option<Costs>,
    /// By CPU: its cache.
    pub(super) cache: Vec<usize>,
    /// By CPU: the gate for items that are queued there.
    pub(super) gate: Vec<usize>,
    /// By block: the cache under which it was written last.
    written: Vec<usize>,
    /// By block: its issuer.
    issuer: Vec<usize>,
    pub(super) issuers: Vec<Issuer>,
    /// From this time on no block is sent.
    pub(super) until: Time,
    /// How often a block changed caches, on its way to the worker or back.
    pub(super) crossings: usize,
    pub(super) last_done: Time,
}

impl Machine {
    /// Adds an issuer with a window of this many blocks, on this CPU.
    pub(super) fn add_issuer(&mut self, cpu: usize, window: usize) {
        let thread = self.threads.len();
        let issuer = self.blocks.issuers.len();
        let first = self.items.len();
        self.items.extend((0..window).map(|_| Item { gate: 0, script: vec![Step::Hash] }));
        self.blocks.issuer.extend((0..window).map(|_| issuer));
        self.blocks.written.extend((0..window).map(|_| self.blocks.cache[cpu]));
        let done = (first..first + window).collect();
        self.blocks.issuers.push(Issuer { thread, done, parked: false, completed: 0 });
        let mask = 1 << cpu;
        self.threads.push(Thread { mask, claims: true, ..Thread::outsider(vec![Op::NextBlock(issuer)]) });
        self.make_runnable(thread);
    }

    /// Moves an issuer to this CPU at `at`.
    pub(super) fn move_issuer_at(&mut self, at: Time, issuer: usize, cpu: usize) {
        self.timers.set(at, Timer::Move { issuer, cpu });
    }

    /// Moves an issuer to this CPU. If it runs on another one, it moves when it next waits for a CPU.
    pub(super) fn move_issuer(&mut self, issuer: usize, cpu: usize) {
        let thread = self.blocks.issuers[issuer].thread;
        self.threads[thread].mask = 1 << cpu;
    }

    /// Lets the issuer verify its next block, generate it anew, and queue it.
    pub(super) fn next_block(&mut self, me: ThreadId, issuer: usize) {
        if self.now >= self.blocks.until {
            return;
        }
        let cpu = self.threads[me].cpu.expect("an issuer runs on a CPU");
        if self.threads[me].mask & 1 << cpu == 0 {
            self.then(me, [Op::Yield, Op::NextBlock(issuer)]);
            return;
        }
        let Some(block) = self.blocks.issuers[issuer].done.pop_front() else {
            self.then(me, [Op::NextBlock(issuer)]);
            self.blocks.issuers[issuer].parked = true;
            return self.give_up_cpu(me);
        };
        let costs = self.blocks.costs.expect("blocks have costs");
        let time = costs.issuer + self.crossing(block, cpu);
        self.items[block].gate = self.blocks.gate[cpu];
        self.then(me, [Op::Burn(time), Op::Admit(block), Op::NextBlock(issuer)]);
    }

    /// Lets the worker hash a block.
    pub(super) fn hash(&mut self, me: ThreadId, block: ItemId) {
        let cpu = self.threads[me].cpu.expect("a worker runs on a CPU");
        let costs = self.blocks.costs.expect("blocks have costs");
        let time = costs.worker + self.crossing(block, cpu);
        self.then(me, [Op::Burn(time)]);
    }

    /// Notes that the block is read and written under this CPU's cache. Returns the additional time if it was written
    /// under another one.
    fn crossing(&mut self, block: ItemId, cpu: usize) -> Duration {
        let cache = self.blocks.cache[cpu];
        let before = std::mem::replace(&mut self.blocks.written[block], cache);
        let costs = self.blocks.costs.expect("blocks have costs");
        self.blocks.crossings += usize::from(before != cache);
        if before == cache { Duration::ZERO } else { costs.crossing }
    }

    /// Gives a block back to its issuer, and wakes the issuer if it sleeps.
    pub(super) fn block_is_done(&mut self, block: ItemId) {
        let Some(issuer) = self.blocks.issuer.get(block).copied() else { return };
        let state = &mut self.blocks.issuers[issuer];
        state.completed += 1;
        self.blocks.last_done = self.now;
        state.done.push_back(block);
        if std::mem::take(&mut state.parked) {
            let thread = state.thread;
            let latency = self.up_to(self.config.wake_latency);
            self.timers.set(self.now + latency, Timer::Resume(thread));
        }
    }
}
