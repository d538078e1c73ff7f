//! The limit on threads: pools that wait for a thread, and workers that give way between items.
//!
//! Red under: `room-for-who-comes`.

#![forbid(unsafe_code)]

use super::machine::{Machine, Timer};
use super::pool::{Pool, PoolId, ThreadId};
use super::script::Op;
use crate::policy::room::{Claim, Shortage};
use crate::policy::threads::Kind;
use crate::policy::worker::Phase;

impl Machine {
    /// Called when `pool` wants a thread and another pool gets the next one.
    pub(super) fn wait_its_turn(&mut self, pool: PoolId) {
        let Some(claim) = self.need_for_room(pool) else { return };
        self.seen.waited_its_turn += 1;
        self.manager.waits_its_turn(pool, |known| *known == pool, claim, self.now);
        self.withdraw_if_none_starves();
    }

    /// Called when there is no thread for `pool`. Returns how urgently its work needs one; `None` if it needs none.
    fn need_for_room(&mut self, pool: PoolId) -> Option<Claim> {
        let begun =
            self.workers(&self.pools[pool]).fold(0_u64, |sum, it| sum.wrapping_add(it.state.sequence()));
        let is_stuck = self.pools[pool].famine.refused(begun, self.now);
        let (word, is_idle) = self.pools[pool].word.short();
        let shortage = self.pools[pool].crew.no_room(is_idle, is_stuck);
        self.pools[pool].starves = shortage == Shortage::Starves;
        self.pools[pool].word = if shortage == Shortage::Waits { word } else { word.unshort() };
        if shortage == Shortage::None {
            self.pools[pool].asked_for -= 1;
            self.pools[pool].famine.ends();
            self.needs_no_room(pool);
            return None;
        }
        Some(Claim { starves: shortage == Shortage::Starves, nice: self.pools[pool].nice })
    }

    /// Called when the limit leaves no room for a worker of `pool`. Sends an idle worker of another pool away, or asks
    /// a worker to give way.
    pub(super) fn make_room(&mut self, pool: PoolId) {
        let Some(claim) = self.need_for_room(pool) else { return };
        self.seen.no_room += 1;
        self.manager.no_room(pool, |known| *known == pool, claim, self.now);
        let idle = (0..self.pools.len()).filter(|other| *other != pool).find_map(|other| {
            let id = self.pools[other].crew.give_up_one()?;
            Some((other, id))
        });
        match idle {
            Some((other, id)) => self.tell_to_leave(other, id),
            None if claim.starves => self.word = self.word.ask(),
            None => self.withdraw_if_none_starves(),
        }
    }

    pub(super) fn needs_no_room(&mut self, pool: PoolId) {
        self.manager.unwanted(|known| *known == pool, self.now);
        self.withdraw_if_none_starves();
    }

    pub(super) fn finds_room(&mut self, pool: PoolId) {
        self.pools[pool].famine.ends();
        self.manager.served(|known| *known == pool, self.now);
        self.withdraw_if_none_starves();
    }

    fn withdraw_if_none_starves(&mut self) {
        if !self.manager.starves() {
            self.word = self.word.withdraw();
        }
    }

    pub(super) fn hurry(&mut self) {
        self.seen.hurried += 1;
        self.word = self.word.hurry();
    }

    /// Called when a worker has left, or could not be made.
    pub(super) fn thread_left(&mut self) {
        let (word, is_told) = self.word.leaves(Kind::Worker);
        self.word = word.gone().0;
        if is_told {
            let latency = self.told_after + self.up_to(self.config.wake_latency);
            self.timers.set(self.now + latency, Timer::Room);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.word.workers() >= self.max_threads
    }

    /// Returns whether a worker of `pool` that is between two items gives way now.
    pub(super) fn gives_way(&mut self, pool: PoolId) -> bool {
        if !self.word.is_asked() || self.recovers(pool) {
            return false;
        }
        let (word, gives_way) = self.word.give_way(self.pools[pool].word.running() > 1);
        self.word = word;
        gives_way
    }

    /// Returns whether the request came from this very pool, which does not starve any more: a worker of it runs.
    fn recovers(&mut self, pool: PoolId) -> bool {
        let recovers = std::mem::take(&mut self.pools[pool].starves);
        if recovers {
            self.seen.recovered += 1;
            self.manager.create(pool, self.now);
        }
        recovers
    }

    pub(super) fn give_way(&mut self, me: ThreadId) {
        self.seen.gave_way += 1;
        let pool = self.worker(me).pool;
        self.leave(me);
        self.pools[pool].crew.give_way();
        self.worker_mut(me).set_phase(Phase::Exiting);
        self.then(me, [Op::Look(pool), Op::Exit]);
    }

    /// Called when a worker has become idle. If a worker is asked to give way, an idle one leaves.
    pub(super) fn rests(&mut self, me: ThreadId) {
        let pool = self.worker(me).pool;
        if !self.word.is_asked() || self.recovers(pool) {
            return;
        }
        if let Some(id) = self.pools[pool].crew.give_up_one() {
            self.seen.idle_gave_way += 1;
            self.tell_to_leave(pool, id);
            self.word = self.word.withdraw();
        }
    }

    /// Checks that each starving pool is helped: while a pool has work, and none of its workers runs or is on its way,
    /// a worker is asked to give way, or a thread is leaving or about to arrive.
    ///
    /// spec: E2.5 (work waits, never for ever)
    pub(super) fn check_no_pool_starves_unheard(&self) {
        let is_in_change = |pool: &Pool| pool.crew.alive() < pool.workers.len();
        let is_heard = self.word.is_asked() || self.manager_busy || self.now <= self.cooling_until;
        if !self.is_full() || is_heard || self.pools.iter().any(is_in_change) {
            return;
        }
        for (id, pool) in self.pools.iter().enumerate() {
            let starves =
                pool.has_work() && pool.word.running() == 0 && pool.owed.len() as u64 == pool.word.waking();
            assert!(!starves, "pool {id} starves, and no worker is asked to give way");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::machine::{Config, PATIENT};
    use super::super::pool::Gate;
    use super::super::random::micros;
    use super::super::script::{Item, ItemId, Step, What};
    use super::super::threads::Known;
    use super::*;
    use crate::policy::concurrency::Running;
    use crate::policy::crew::CrewLimits;
    use crate::policy::room::{FAMINE, TURN};
    use crate::policy::time::Time;

    const LIMITS: CrewLimits = CrewLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };
    /// The machine has no random number generator, so it makes threads at once. But because this is not zero, `checks`
    /// do not require that no CPU idles.
    const CREATION: Duration = Duration::from_micros(100);

    fn machine(cpus: usize, max_threads: u64, pools: Vec<Pool>, items: Vec<Item>) -> Machine {
        let config = Config {
            cpus,
            prng: None,
            wake_latency: Duration::ZERO,
            creation_latency: CREATION,
            listing_delay: Duration::ZERO,
            failing_creations: 0,
            slice: Some(Duration::from_millis(3)),
            racy: false,
            yield_before_burn: false,
            yield_after_item: false,
            rules: PATIENT,
            known: Known::States,
            held_up: 0,
            look_cost: Duration::ZERO,
            trace: false,
        };
        let gates = (0..pools.len()).map(|pool| Gate::new(256, pool)).collect();
        let mut machine = Machine::new(config, pools, gates, items);
        machine.max_threads = max_threads;
        machine
    }

    fn one_cpu(cpu: usize, nice: i32) -> Pool {
        Pool { nice, ..Pool::new(Running::managed(1), LIMITS, 1 << cpu) }
    }

    fn burns(pool: PoolId, time: Duration, count: usize) -> Vec<Item> {
        vec![Item { gate: pool, script: vec![Step::Burn(time)] }; count]
    }

    fn issue_all(machine: &mut Machine, items: impl IntoIterator<Item = ItemId>) {
        machine.issue(Time::default(), items.into_iter().collect());
    }

    /// Returns when the items of this pool began.
    fn starts(machine: &Machine, pool: PoolId) -> Vec<Duration> {
        let events = machine.log.iter();
        let starts = events.filter(|it| it.what == What::Starts && machine.gate_of(it.item) == pool);
        starts.map(|event| event.at.since(Time::default())).collect()
    }

    fn longest_wait(machine: &Machine, pool: PoolId) -> Duration {
        let starts = starts(machine, pool);
        let before = [Duration::ZERO].into_iter().chain(starts.iter().copied());
        before.zip(&starts).map(|(before, start)| *start - before).max().unwrap_or_default()
    }

    /// spec: E2.5 (work waits, never for ever): streams of items that share one thread take turns. None waits for
    /// longer than the bound, whatever its priority.
    #[test]
    fn streams_that_share_one_thread_take_turns() {
        for (length, count) in [(micros(10), 2000), (micros(700), 40), (micros(5000), 8)] {
            for levels in [vec![0, 0], vec![0, 0, 0, 0, 0], vec![0, -20, 0, -20, 0]] {
                let pools = levels.iter().enumerate().map(|(cpu, nice)| one_cpu(cpu, *nice)).collect();
                let items = (0..levels.len()).flat_map(|pool| burns(pool, length, count)).collect();
                let mut machine = machine(levels.len(), 1, pools, items);
                issue_all(&mut machine, 0..levels.len() * count);
                machine.run();
                let turn = TURN + length;
                for pool in 0..levels.len() {
                    let (longest, bound) = (longest_wait(&machine, pool), 2 * levels.len() as u32 * turn);
                    assert!(longest <= bound, "{pool} of {levels:?} waits for {longest:?}, {length:?} each");
                }
                // At most one switch per turn.
                let makespan = length * (levels.len() * count) as u32;
                let most = makespan.as_nanos() / TURN.max(length).as_nanos() + 2 * levels.len() as u128;
                let made = machine.threads.iter().filter(|thread| thread.worker.is_some()).count() as u128;
                assert!(made <= most, "{made} threads in {makespan:?}, {levels:?}, {length:?} each");
            }
        }
    }

    /// spec: E2.5 (high priority first): one item of high priority comes to many streams.
    #[test]
    fn an_item_of_high_priority_waits_for_two_turns_at_most() {
        let (streams, length) = (6, micros(200));
        let mut pools: Vec<_> = (0..streams).map(|cpu| one_cpu(cpu, 0)).collect();
        pools.push(one_cpu(0, -20));
        let mut items: Vec<_> = (0..streams).flat_map(|pool| burns(pool, length, 200)).collect();
        items.extend(burns(streams, length, 1));
        let high = items.len() - 1;
        let mut machine = machine(streams, 1, pools, items);
        issue_all(&mut machine, 0..high);
        let at = Duration::from_millis(20);
        machine.issue(Time::default() + at, vec![high]);
        machine.run();
        let waited = starts(&machine, streams)[0] - at;
        assert!(waited <= 2 * (TURN + length), "{waited:?}");
    }

    /// spec: E2.5: a pool that has several running workers gives one up at the end of the next item, without waiting
    /// for a turn.
    #[test]
    fn a_pool_with_many_workers_gives_one_up_without_a_turn() {
        let length = micros(300);
        let wide = Pool::new(Running::managed(4), LIMITS, 0b1111);
        let pools = vec![wide, one_cpu(4, 0), one_cpu(5, 0)];
        let items: Vec<_> = [burns(0, length, 400), burns(1, length, 100), burns(2, length, 100)].concat();
        let mut machine = machine(6, 4, pools, items);
        issue_all(&mut machine, 0..400);
        let at = Duration::from_millis(5);
        machine.issue(Time::default() + at, (400..600).collect());
        machine.run();
        for pool in [1, 2] {
            let waited = starts(&machine, pool)[0] - at;
            assert!(waited <= 2 * length, "{pool}: {waited:?}");
        }
        // Then each pool has a thread, so no other worker gives way.
        assert_eq!(machine.seen.gave_way, 2);
    }

    /// Returns the pool of each thread that was made, in the order of creation.
    fn made(machine: &Machine) -> Vec<PoolId> {
        machine.threads.iter().filter_map(|thread| Some(thread.worker.as_ref()?.pool)).collect()
    }

    /// spec: E2.5 (pools take turns): a thread has left, and the manager does not know it yet. Pools that ask for their
    /// first worker at that moment do not get the place that was given up for the starving pool.
    #[test]
    fn pools_that_ask_while_a_thread_leaves_wait_in_the_line() {
        for nice in [0, -20] {
            let (stream, starves, late) = (0, 1, 2..102);
            let length = micros(10);
            let mut pools = vec![one_cpu(0, 0), one_cpu(1, 0)];
            pools.extend(late.clone().map(|_| one_cpu(2, nice)));
            let mut items = burns(stream, length, 2000);
            items.extend(burns(starves, length, 1));
            items.extend(late.clone().flat_map(|pool| burns(pool, micros(100), 1)));
            let mut machine = machine(3, 1, pools, items);
            machine.told_after = micros(50);
            issue_all(&mut machine, 0..2000);
            let at = Time::default() + Duration::from_millis(2);
            machine.issue(at, vec![2000]);
            for n in 0..late.len() {
                machine.issue(at + TURN + micros(20) * n as u32, vec![2001 + n]);
            }
            machine.run();
            let made = made(&machine);
            let thread = made.iter().position(|pool| *pool == starves).expect("its item has run");
            assert!((1..=2).contains(&thread), "thread {thread} after it came: {:?}", &made[..=thread]);
        }
    }

    /// spec: E2.5: in an unmanaged pool, a blocked worker counts as running. An item there that waits for a later item
    /// of the same pool does not wait for ever.
    #[test]
    fn a_pool_whose_workers_only_seem_to_run_gets_a_thread() {
        let pools = vec![Pool::new(Running::unmanaged(), LIMITS, 1), one_cpu(1, 0)];
        let mut items = vec![
            Item { gate: 0, script: vec![Step::Await(0)] },
            Item { gate: 0, script: vec![Step::Set(0)] },
        ];
        items.extend(burns(1, micros(500), 6000));
        let mut machine = machine(2, 2, pools, items);
        issue_all(&mut machine, 2..6002);
        machine.issue(Time::default() + micros(100), vec![0, 1]);
        machine.run();
        let waited = starts(&machine, 0)[1];
        assert!(waited <= 2 * FAMINE + 2 * TURN, "{waited:?}");
    }
}
