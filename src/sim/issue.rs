//! The steps from queueing an item to waking a worker. Outsiders take them; so do workers whose item queues another
//! one, ends, or blocks.

#![forbid(unsafe_code)]

use super::class::Share;
use super::machine::Machine;
use super::pool::{GateId, Notice, PoolId, ThreadId};
use super::script::{ItemId, Op};
use crate::policy::admission::{Admit, Slot};
use crate::policy::concurrency::{Kick, Reserved};
use crate::policy::crew::Wake;
use crate::policy::worker::Phase;

impl Machine {
    /// Performs a step that any thread may take.
    pub(super) fn perform_issue(&mut self, me: ThreadId, op: Op) {
        match op {
            Op::Admit(item) => self.admit(me, item),
            Op::Pause(duration) if self.threads[me].needs_cpu() => self.then(me, [Op::Burn(duration)]),
            Op::Pause(duration) | Op::Sleep(duration) => self.sleep(me, duration),
            Op::Push(item) => {
                let pool = self.push(item);
                self.then(me, [Op::Kick(pool)]);
            }
            Op::Put(item) => self.put(item),
            Op::NextBlock(issuer) => self.next_block(me, issuer),
            Op::KickMany(pool, left) => self.kick_many(me, pool, left),
            Op::List(item) => {
                let gate = self.gate_of(item);
                self.gates[gate].waiting.push_back(item);
                self.then(me, [Op::Listed(item)]);
            }
            Op::Listed(item) => {
                let gate = self.gate_of(item);
                let (word, slot) = self.gates[gate].word.list();
                self.gates[gate].word = word;
                self.gates[gate].coming -= 1;
                self.queueing_ended(item);
                if slot == Slot::Handed {
                    self.seen.taken_slots += 1;
                    self.then(me, [Op::Hand(gate)]);
                }
            }
            Op::Hand(gate) => {
                let first = self.gates[gate].waiting.pop_front();
                let item = first.expect("a slot is handed over to an item on the list");
                self.then(me, [Op::Push(item)]);
            }
            Op::Complete(gate) => self.complete(me, gate),
            Op::SetMax(gate, max) => self.set_max(me, gate, max),
            Op::StartListed(gate) => {
                let (word, slot) = self.gates[gate].word.start_listed();
                self.gates[gate].word = word;
                if slot == Slot::Handed {
                    self.seen.raised += 1;
                    self.then(me, [Op::Hand(gate), Op::StartListed(gate)]);
                }
            }
            Op::Kick(pool) => self.kick(me, pool),
            Op::Look(pool) => {
                if self.pools[pool].seat.is_some() {
                    self.then(me, [Op::Share(Share::Seek(pool))]);
                }
                if self.pools[pool].has_work() {
                    self.kick(me, pool);
                }
            }
            Op::Share(step) => self.perform_share(me, step),
            Op::Wake(pool, reserved) => self.wake(pool, reserved),
            Op::Drop(pool, reserved) => self.drop_reservation(me, pool, reserved),
            other => unreachable!("{other:?} is a worker's step"),
        }
    }

    fn admit(&mut self, me: ThreadId, item: ItemId) {
        self.accepted += 1;
        let gate = self.gate_of(item);
        let (word, admit) = self.gates[gate].word.admit();
        self.gates[gate].word = word;
        self.queueing_began(item);
        match admit {
            Admit::Start => {
                self.queueing_ended(item);
                self.then(me, [Op::Push(item)]);
            }
            Admit::Wait => {
                self.gates[gate].coming += 1;
                self.then(me, [Op::List(item)]);
                let delay = self.up_to(self.config.listing_delay);
                if !delay.is_zero() {
                    self.then(me, [Op::Pause(delay)]);
                }
            }
            Admit::Full => unreachable!("no workload fills a gate"),
            Admit::Refused => unreachable!("all doors are open"),
            Admit::Flushing => unreachable!("no flush is in progress"),
        }
    }

    /// Puts an item that has a slot on its pool's worklist. Returns the pool.
    fn push(&mut self, item: ItemId) -> PoolId {
        let gate = self.gate_of(item);
        self.gates[gate].active += 1;
        self.check_slots(gate);
        let pool = self.gates[gate].pool;
        self.pools[pool].worklist.push_back(item);
        self.begins_to_wait(item);
        pool
    }

    /// Queues an item of a batch. Its gate has slots for the whole batch.
    fn put(&mut self, item: ItemId) {
        self.accepted += 1;
        let gate = self.gate_of(item);
        let (word, admit) = self.gates[gate].word.admit();
        assert!(matches!(admit, Admit::Start), "there are slots for the whole batch");
        self.gates[gate].word = word;
        self.queueing_began(item);
        self.queueing_ended(item);
        self.push(item);
    }

    /// Wakes a worker for each item of the batch, as long as the pool may have more, and offers the rest to siblings.
    fn kick_many(&mut self, me: ThreadId, pool: PoolId, left: usize) {
        if left > 1 && self.pools[pool].word.need_more_worker() {
            self.then(me, [Op::KickMany(pool, left - 1)]);
        } else {
            self.then(me, [Op::Share(Share::Offer(pool))]);
        }
        self.kick(me, pool);
    }

    fn complete(&mut self, me: ThreadId, gate: GateId) {
        self.completed += 1;
        self.gates[gate].active -= 1;
        let (word, slot) = self.gates[gate].word.complete();
        self.gates[gate].word = word;
        self.gates[gate].limit_holds();
        if slot == Slot::Handed {
            self.then(me, [Op::Hand(gate)]);
        }
    }

    fn set_max(&mut self, me: ThreadId, gate: GateId, max: usize) {
        self.gates[gate].word = self.gates[gate].word.with_max(max);
        if self.gates[gate].word.active() > max as u64 {
            self.seen.lowered += 1;
        }
        self.gates[gate].limit_holds();
        self.then(me, [Op::StartListed(gate)]);
    }

    /// Asks policy what to do about pending work, and does it.
    fn kick(&mut self, me: ThreadId, pool: PoolId) {
        let (word, kick) = self.pools[pool].word.kick();
        self.pools[pool].word = word;
        match kick {
            Kick::Enough => {}
            Kick::Wake(reserved) => {
                self.check_wake(pool);
                self.then(me, [Op::Wake(pool, reserved)]);
            }
            Kick::Starve => {
                self.manager.create(pool, self.now);
                self.then(me, [Op::Look(pool)]);
            }
            Kick::Offer => self.then(me, [Op::Share(Share::Offer(pool))]),
            Kick::Watch => {
                self.pools[pool].looked_at = true;
                self.manager.watch(pool, self.now);
                self.then(me, [Op::Share(Share::Offer(pool))]);
            }
        }
    }

    fn wake(&mut self, pool: PoolId, reserved: Reserved) {
        if let Some(pod) = reserved.errand() {
            let home = self.sibling(pool, pod);
            self.pools[pool].errands.push(home);
        }
        if self.pools[pool].seat.is_some() {
            self.wakes_in_stream(pool);
            if let Some(at) = self.pools[pool].stall.woke(self.now) {
                self.manager.stall(pool, at);
            }
        }
        match self.pools[pool].crew.kick(reserved, None) {
            Wake::Unpark(id) => {
                let thread = self.pools[pool].workers[&id];
                let now = self.now;
                self.worker_mut(thread).set_phase(Phase::Waking);
                self.worker_mut(thread).on_its_way = Some(now);
                self.unpark(pool, id, Notice::Begin);
            }
            Wake::Create => {
                self.pools[pool].owed.push(self.now);
                self.ask_to_create(pool);
            }
            Wake::Wait => self.pools[pool].owed.push(self.now),
            Wake::Call(call) => {
                self.pools[pool].owed.push(self.now);
                self.manager.call(pool, call, self.now);
            }
        }
    }
}
