//! Issuers as those of the documents' tests: each keeps a window of blocks in flight, generates the content of each block,
//! queues it, and verifies what comes back.
//!
//! An issuer needs a CPU for that. From time to time it is moved to another one.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::machine::{Machine, Timer};
use super::pool::{Thread, ThreadId};
use super::script::{Item, ItemId, Op, Step};
use crate::policy::time::Time;

/// What a block costs, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// The worker's part, and the issuer's.
    pub(super) worker: Duration,
    pub(super) issuer: Duration,
    /// Added to each of the two if the content was written under another cache.
    pub(super) crossing: Duration,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) thread: ThreadId,
    /// Blocks that came back: to be verified, and sent again.
    done: VecDeque<ItemId>,
    parked: bool,
    pub(super) completed: usize,
}

/// The last-level caches of the machine, and where each block was written last.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) costs: Option<Costs>,
    /// By CPU.
    pub(super) cache: Vec<usize>,
    /// By CPU: the gate for what is queued there.
    pub(super) gate: Vec<usize>,
    written: Vec<usize>,
    issuer: Vec<usize>,
    pub(super) issuers: Vec<Issuer>,
    /// Nothing is sent any more from here on.
    pub(super) until: Time,
    /// Blocks that changed caches on their way, there or back.
    pub(super) crossings: usize,
    pub(super) last_done: Time,
}

impl Machine {
    /// An issuer with a window of so many blocks, on this CPU.
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

    /// The same at `at`.
    pub(super) fn move_issuer_at(&mut self, at: Time, issuer: usize, cpu: usize) {
        self.timers.set(at, Timer::Move { issuer, cpu });
    }

    /// The system moves an issuer to this CPU. If it is on another one, it gets there when it next waits for one.
    pub(super) fn move_issuer(&mut self, issuer: usize, cpu: usize) {
        let thread = self.blocks.issuers[issuer].thread;
        self.threads[thread].mask = 1 << cpu;
    }

    /// The issuer's next block: it is verified, generated anew, and queued.
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

    /// What the worker does with a block.
    pub(super) fn hash(&mut self, me: ThreadId, block: ItemId) {
        let cpu = self.threads[me].cpu.expect("a worker runs on a CPU");
        let costs = self.blocks.costs.expect("blocks have costs");
        let time = costs.worker + self.crossing(block, cpu);
        self.then(me, [Op::Burn(time)]);
    }

    /// The content is read, and written, under this CPU's cache.
    fn crossing(&mut self, block: ItemId, cpu: usize) -> Duration {
        let cache = self.blocks.cache[cpu];
        let before = std::mem::replace(&mut self.blocks.written[block], cache);
        let costs = self.blocks.costs.expect("blocks have costs");
        self.blocks.crossings += usize::from(before != cache);
        if before == cache { Duration::ZERO } else { costs.crossing }
    }

    /// A block comes back. Its issuer is woken, if it sleeps.
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
