//! Work conservation, exactly: for how long an item may wait while a CPU of its class idles.
//!
//! An item *waits* while it lies on the list of a pool whose items may move. A pod of the class *idles* while it has an
//! unused CPU, fewer counted workers than its target, and a thread or the means to make one. The time for which both
//! hold without a break is at most
//!
//! > one wake-up latency × (1 + diversions) + patience × (1 + futile calls)
//!
//! *Patience* is how late a woken worker may be before siblings may take its item. It is [`AFTER_A_PAUSE`]; in a stream
//! of wake-ups it is the time for which the stream has lasted, up to [`IN_A_STREAM`]. A stream ends with a pause of
//! [`PAUSE`]. The documentation promises these numbers. The checks do not read policy's own numbers, so they fail if
//! policy becomes less exact.
//!
//! *Diversions* count the workers that were called for the item's pod meanwhile, and found work of their own pod when
//! they came. Their own work goes first, and then another worker is called. *Futile calls* count the pods that were
//! called for the item's pod meanwhile, and could not come for a time.
//!
//! So an item whose own pod has lost its CPUs is late by that patience. If the nearest sibling that seems to have room
//! has lost its CPUs unnoticed as well, the item is late by as much again, once for each such sibling.
//!
//! The bound also holds for a burst of any length: as many workers are woken at once as there is room for.
//!
//! The moments at which the manager makes a thread are not counted. It makes one thread at a time, so a thief that has
//! to be made waits for the threads that were asked for before it.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::Machine;
use super::pool::{Pool, PoolId, ThreadId};
use super::script::ItemId;
use crate::policy::time::Time;

/// How late the first worker that is woken after a pause may be before siblings may take its item.
pub(super) const AFTER_A_PAUSE: Duration = Duration::from_micros(200);

/// How late any worker may be before siblings may take its item.
pub(super) const IN_A_STREAM: Duration = Duration::from_micros(3200);

/// A pool that has woken no worker for this long is in no stream.
pub(super) const PAUSE: Duration = Duration::from_micros(6400);

/// The items that wait, and the pools that could take them.
#[derive(Default, Debug)]
pub(super) struct Ledger {
    /// Items on lists of pools with siblings.
    waiting: BTreeMap<ItemId, Waits>,
    /// By pool: since when it has had room at every moment at which time passed.
    roomy: BTreeMap<PoolId, Duration>,
    /// By pool: how often a worker that was called for its items found an item of its own pool instead.
    diverted: BTreeMap<PoolId, u32>,
    /// By pool: its last stream of wake-ups.
    streams: BTreeMap<PoolId, Stream>,
    /// How long the manager was making threads.
    making: Duration,
    /// By pool with items, and pool that was called for them: the last time at which the called pool could not come.
    futile: BTreeMap<(PoolId, PoolId), Duration>,
    /// The longest time that an item waited while a pod had room.
    pub(super) longest: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Waits {
    home: PoolId,
    since: Duration,
    diverted: u32,
    /// The longest patience that a pool of its class has had since then.
    patience: Duration,
}

/// Wake-ups of a pool without a pause in between.
#[derive(Clone, Copy, Debug)]
struct Stream {
    began: Time,
    /// The last wake-up, in counted time.
    last: Duration,
    /// How late the worker that was woken last may be.
    patience: Duration,
}

impl Machine {
    /// Called when a worker of this pool is woken or asked for.
    pub(super) fn wakes_in_stream(&mut self, pool: PoolId) {
        let (now, last) = (self.now, self.counted_time(self.now));
        let stream = self.ledger.streams.get(&pool).filter(|stream| last - stream.last <= PAUSE);
        let began = stream.map_or(now, |stream| stream.began);
        let patience = now.since(began).clamp(AFTER_A_PAUSE, IN_A_STREAM);
        self.ledger.streams.insert(pool, Stream { began, last, patience });
    }

    /// Called when an item was put on the list of its pool.
    pub(super) fn begins_to_wait(&mut self, item: ItemId) {
        let gate = &self.gates[self.gate_of(item)];
        if self.pools[gate.pool].seat.is_some() && !gate.bound {
            let diverted = self.diversions(gate.pool);
            let patience = self.patience_of(gate.pool);
            let waits = Waits { home: gate.pool, since: self.counted_time(self.now), diverted, patience };
            self.ledger.waiting.insert(item, waits);
        }
    }

    /// Called when a worker that was called for items of `home` takes an item of its own pool.
    pub(super) fn is_diverted(&mut self, home: PoolId) {
        self.seen.diverted += 1;
        *self.ledger.diverted.entry(home).or_default() += 1;
    }

    /// Called when an item was taken from its list.
    pub(super) fn ends_to_wait(&mut self, item: ItemId) {
        self.ledger.waiting.remove(&item);
    }

    /// Called when nothing happens until `until`.
    ///
    /// spec: A3 (no CPU idles while items wait in another pod for longer than the bound)
    pub(super) fn time_passes(&mut self, until: Time) {
        let (from, to) = (self.counted_time(self.now), self.counted_time(until));
        for (id, pool) in self.pools.iter().enumerate().filter(|(_, pool)| pool.seat.is_some()) {
            if self.has_room(pool) {
                self.ledger.roomy.entry(id).or_insert(from);
            } else {
                self.ledger.roomy.remove(&id);
            }
        }
        let calls = self.pools.iter().enumerate().filter(|(_, pool)| !pool.errands.is_empty());
        let futile = calls.filter(|(_, pool)| !self.serves(pool));
        let futile =
            futile.flat_map(|(other, pool)| pool.errands.iter().map(move |home| ((*home, other), from)));
        let futile: Vec<_> = futile.collect();
        self.ledger.futile.extend(futile);
        if self.manager_busy {
            self.ledger.making += until.since(self.now);
            return;
        }
        let mut waiting = std::mem::take(&mut self.ledger.waiting);
        for waits in waiting.values_mut() {
            waits.patience = waits.patience.max(self.patience_of(waits.home));
        }
        self.ledger.waiting = waiting;
        for (&other, &roomy_since) in &self.ledger.roomy {
            for (item, waits) in &self.ledger.waiting {
                if self.class_of(waits.home) != self.class_of(other) {
                    continue;
                }
                let waited = to.saturating_sub(waits.since.max(roomy_since));
                let futile = self.futile_calls(waits);
                let diverted = self.diversions(waits.home) - waits.diverted;
                let bound = self.config.wake_latency * (1 + diverted) + waits.patience * (1 + futile);
                assert!(
                    waited <= bound,
                    "item {item} waits in pool {} for {waited:?}, while {other} has room, until {until:?}",
                    waits.home
                );
                self.ledger.longest = self.ledger.longest.max(waited);
            }
        }
    }

    /// Returns how late the last woken workers of this pool's class may be, by the most patient of its pools.
    fn patience_of(&self, pool: PoolId) -> Duration {
        let class = self.class_of(pool);
        let now = self.counted_time(self.now);
        let streams = self
            .ledger
            .streams
            .iter()
            .filter(|(other, stream)| self.class_of(**other) == class && now - stream.last <= PAUSE);
        streams.map(|(_, stream)| stream.patience).max().unwrap_or(AFTER_A_PAUSE)
    }

    /// Called when a worker of another pool has taken `item` from `home`.
    ///
    /// spec: A3 (an item goes elsewhere only when its own pod cannot take it)
    pub(super) fn check_theft(&mut self, me: ThreadId, home: PoolId, item: ItemId) {
        let gate = &self.gates[self.gate_of(item)];
        let own = self.worker(me).pool;
        assert!(own != home && gate.pool == home && !gate.bound, "item {item} may not leave pool {home}");
        assert_eq!(self.class_of(own), self.class_of(home), "item {item} leaves its class");
        if self.config.racy {
            return; // The state that the thief saw may have changed.
        }
        let pool = &self.pools[home];
        let on_their_way = self.on_their_way(pool);
        let is_late = on_their_way.iter().any(|since| self.now.since(*since) >= AFTER_A_PAUSE);
        let counted = self.counted(pool);
        let target = pool.word.target().expect("only managed pools share");
        let full = counted + on_their_way.len() as u64 >= target;
        let too_much = pool.pending() as u64 + 1 > on_their_way.len() as u64;
        assert!(is_late || full && too_much, "item {item} is taken from {home}, which can take it");
    }

    /// Returns the time since the beginning of the run, without the times that are not counted.
    fn counted_time(&self, at: Time) -> Duration {
        at.since(Time::default()) - self.ledger.making
    }

    fn has_room(&self, pool: &Pool) -> bool {
        self.serves(pool) && pool.word.target().is_some_and(|target| self.counted(pool) < target)
    }

    /// Returns whether workers that are woken in this pool begin soon.
    fn serves(&self, pool: &Pool) -> bool {
        let idle = |cpu: usize| pool.cpus & 1 << cpu != 0 && self.cpus[cpu].thread.is_none();
        let has_no_thread = pool.crew.idle() == 0 && self.now <= self.cooling_until;
        (0..self.cpus.len()).any(idle) && !has_no_thread
    }

    fn diversions(&self, home: PoolId) -> u32 {
        self.ledger.diverted.get(&home).copied().unwrap_or(0)
    }

    /// Returns how many pods were called for this item's pod while it waited, and could not come for a time.
    fn futile_calls(&self, waits: &Waits) -> u32 {
        let of_home = self.ledger.futile.range((waits.home, 0)..(waits.home + 1, 0));
        of_home.filter(|(_, until)| **until >= waits.since).count() as u32
    }

    /// Returns, for each worker that was woken or is to be made, since when it is on its way.
    fn on_their_way(&self, pool: &Pool) -> Vec<Time> {
        let woken = self.workers(pool).filter_map(|worker| worker.on_its_way);
        woken.chain(pool.owed.iter().copied()).collect()
    }

    fn counted(&self, pool: &Pool) -> u64 {
        self.workers(pool).filter(|worker| worker.is_counted()).count() as u64
    }

    fn class_of(&self, pool: PoolId) -> Option<usize> {
        self.pools[pool].seat.as_ref().map(|seat| seat.class)
    }
}
