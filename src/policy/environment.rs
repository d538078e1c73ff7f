//! Decides which part of the machine each pool may use, and when the manager checks whether that part has changed.
//!
//! Cpusets, `sched_setaffinity` and hotplug can change a process's CPUs at any time and without notice. The quota of a
//! cgroup can change at any time, too. So the manager checks the process's CPUs and the quota periodically while
//! workers work, immediately when a worker begins after a break, and never while all workers rest.
//!
//! A worker that blocks under a guard counts as resting if its pool counts running workers. The manager cannot
//! distinguish other blocked workers from working ones. So the periodic checks (2.5 per second) continue in three
//! cases: an item blocks without a guard, in a plain unbound pool, or on a rescuer's thread.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::cpu_set::CpuSet;
use super::quota::Quota;
use super::time::Time;

/// The time between two checks. This period is short enough for the manager to notice a change within a second.
pub(crate) const LOOK_PERIOD: Duration = Duration::from_millis(400);

/// A CPU of the executor, and the real CPU that serves it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedCpu {
    /// The CPU's number in the topology.
    pub(crate) cpu: usize,
    /// The real CPU that serves this CPU of the topology.
    pub(crate) real: usize,
}

/// The part of the machine that an executor may use, as of the last check.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    mapped: Arc<[MappedCpu]>,
    /// The CPUs that the user gave to the executor although the process may not use them. The executor never loses
    /// these CPUs.
    exempt: CpuSet,
    /// The real CPUs that the process may use. The set is never empty.
    allowed: CpuSet,
    quota: Option<Quota>,
}

/// A pool's share of the environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// The real CPUs that the pool's workers are bound to.
    pub(crate) binding: CpuSet,
    /// The number of workers that the pool keeps runnable, if it is managed.
    pub(crate) target: usize,
}

impl Environment {
    /// Returns the environment of a new executor on the CPUs `mapped`, of which there is at least one. `allowed` is
    /// `None` if the system does not tell which CPUs the process may use.
    pub(crate) fn new(mapped: &[MappedCpu], allowed: Option<CpuSet>, quota: Option<Quota>) -> Self {
        let real: CpuSet = mapped.iter().map(|cpu| cpu.real).collect();
        let allowed = allowed.filter(|allowed| !allowed.is_empty()).unwrap_or_else(|| real.clone());
        let exempt = real.iter().filter(|cpu| !allowed.contains(*cpu)).collect();
        Self { mapped: mapped.into(), exempt, allowed, quota }
    }

    /// Returns the environment after another check, or `None` if the environment has not changed.
    pub(crate) fn seen(&self, allowed: Option<CpuSet>, quota: Option<Quota>) -> Option<Self> {
        let allowed = allowed.filter(|allowed| !allowed.is_empty()).unwrap_or_else(|| self.allowed.clone());
        let same = allowed == self.allowed && quota == self.quota;
        (!same).then(|| Self { allowed, quota, ..self.clone() })
    }

    /// Returns the share of a pool that serves the CPUs `cpus` of the topology. `of_queue` has the CPUs that the pool's
    /// queue may use.
    ///
    /// The share consists of the pool's own CPUs, as far as the executor still has them. If the executor has lost all
    /// CPUs of the pool, the pool runs on the queue's CPUs that the executor still has. If the executor has also lost
    /// all CPUs of the queue, the pool runs on all CPUs that the executor still has. If the executor has no CPU left,
    /// the whole executor has been moved, and all pools run on the CPUs that the process may use now.
    pub(crate) fn share(&self, cpus: &CpuSet, of_queue: &CpuSet) -> Share {
        let left = self.left().count();
        if left == 0 {
            let at_most = self.allowed.len();
            let target = self.limited(cpus.len().min(at_most), self.mapped.len().min(at_most));
            return Share { binding: self.allowed.clone(), target };
        }
        let own = self.left().filter(|cpu| cpus.contains(cpu.cpu)).count();
        if own > 0 {
            return Share { binding: self.left_of(cpus), target: self.limited(own, left) };
        }
        let of_queue = self.left_of(of_queue);
        Share { binding: if of_queue.is_empty() { self.home() } else { of_queue }, target: 1 }
    }

    /// Returns the real CPUs that the executor as a whole may use.
    pub(crate) fn home(&self) -> CpuSet {
        let left: CpuSet = self.left().map(|cpu| cpu.real).collect();
        if left.is_empty() { self.allowed.clone() } else { left }
    }

    /// Returns the executor's CPUs that the process may no longer use, numbered as in the topology.
    pub(crate) fn lost(&self) -> CpuSet {
        self.mapped.iter().filter(|cpu| !self.is_left(**cpu)).map(|cpu| cpu.cpu).collect()
    }

    pub(crate) fn quota(&self) -> Option<Quota> {
        self.quota
    }

    pub(crate) fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Returns the real CPUs that serve the CPUs `cpus` of the topology. Leaves out the CPUs that the executor has
    /// lost.
    fn left_of(&self, cpus: &CpuSet) -> CpuSet {
        self.left().filter(|cpu| cpus.contains(cpu.cpu)).map(|cpu| cpu.real).collect()
    }

    fn left(&self) -> impl Iterator<Item = &MappedCpu> {
        self.mapped.iter().filter(|cpu| self.is_left(**cpu))
    }

    fn is_left(&self, cpu: MappedCpu) -> bool {
        self.allowed.contains(cpu.real) || self.exempt.contains(cpu.real)
    }

    fn limited(&self, own: usize, all: usize) -> usize {
        self.quota.map_or(own, |quota| quota.share(own, all))
    }
}

/// The times at which the manager checks the environment.
#[derive(Debug)]
pub(crate) struct Vigil {
    last: Time,
    next: Option<Time>,
    /// Whether the next check takes place even if no worker works at that time. This field is set when a worker begins
    /// after a break, because workers that work in short bursts would otherwise never trigger a check.
    owed: bool,
}

impl Vigil {
    /// Returns the state of a new executor, which has just checked its environment.
    pub(crate) fn new(now: Time) -> Self {
        Self { last: now, next: None, owed: false }
    }

    /// Notes that a worker works. If no check is scheduled, schedules one for the end of the period that began with the
    /// last check, or for now if that period is over.
    pub(crate) fn active(&mut self, now: Time) {
        self.next.get_or_insert((self.last + LOOK_PERIOD).max(now));
        self.owed = true;
    }

    /// Returns the time of the manager's next check, or `None` while no worker works.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|at| at <= now)
    }

    /// Returns whether the manager checks at the next deadline even if no worker works then.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// Notes that the manager checks now, and sets the next deadline.
    pub(crate) fn looked(&mut self, now: Time) {
        self.owed = false;
        self.last = now;
        self.next = Some(now + LOOK_PERIOD);
    }

    /// Ends the checks, because the deadline has passed, no check is owed, and no worker works. When the next worker
    /// begins, the manager calls [`active`](Self::active).
    pub(crate) fn rest(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn mapped(cpus: usize, real: usize) -> Vec<MappedCpu> {
        (0..cpus).map(|cpu| MappedCpu { cpu, real: cpu % real }).collect()
    }

    fn quota(micros: u64) -> Option<Quota> {
        Quota::new(micros, 100_000)
    }

    fn narrowed(mapped: &[MappedCpu], allowed: &str, quota: Option<Quota>) -> Environment {
        let before = Environment::new(mapped, Some(cpus("0-7")), None);
        before.seen(Some(cpus(allowed)), quota).unwrap_or(before)
    }

    /// spec: A5.3, C5.3: a pod keeps those of its CPUs that the process may still use. If a pod has lost all its CPUs,
    /// the other CPUs of its queue serve it. If the queue has lost all its CPUs, the other CPUs of the executor serve
    /// the pod.
    #[test]
    fn each_pool_gets_its_remaining_cpus() {
        let table = [
            // allowed, quota in hundredths of a CPU, pool, its queue, binding, target
            ("0-7", None, "0-3", "0-7", "0-3", 4),
            ("0-7", None, "2", "0-7", "2", 1),
            ("0-7", None, "2", "2-3", "2", 1),
            ("0-2,4-7", None, "0-3", "0-7", "0-2", 3),
            ("0-2,4-7", None, "3", "0-7", "0-2,4-7", 1),
            ("0-2,4-7", None, "3", "2-5", "2,4-5", 1),
            ("0-2,4-7", None, "3", "3", "0-2,4-7", 1),
            ("0-3", None, "4-7", "0-7", "0-3", 1),
            ("0-3", None, "4-7", "2-7", "2-3", 1),
            ("0-3", None, "4-5", "4-7", "0-3", 1),
            ("0-3", None, "0-3", "0-7", "0-3", 4),
            ("0-7", Some(400), "0-3", "0-7", "0-3", 2),
            ("0-3", Some(400), "0-3", "0-7", "0-3", 4),
            ("0-3", Some(200), "0-3", "0-7", "0-3", 2),
            ("0-3", Some(200), "4-7", "0-7", "0-3", 1),
            ("0-3", Some(200), "4-7", "1-7", "1-3", 1),
            // The whole executor was moved to other CPUs.
            ("8-11", None, "0-3", "0-7", "8-11", 4),
            ("8-9", None, "0-3", "0-7", "8-9", 2),
            ("8-31", None, "0-3", "0-7", "8-31", 4),
            ("8-31", None, "5", "4-5", "8-31", 1),
            ("8-11", Some(200), "0-3", "0-7", "8-11", 2),
        ];
        for (allowed, hundredths, pool, of_queue, binding, target) in table {
            let quota = hundredths.and_then(|hundredths| quota(1000 * hundredths));
            let share = narrowed(&mapped(8, 8), allowed, quota).share(&cpus(pool), &cpus(of_queue));
            let expected = Share { binding: cpus(binding), target };
            assert_eq!(share, expected, "{pool} of {of_queue}, {allowed} under {hundredths:?}");
        }
    }

    /// spec: A5.3, A1.3: if an executor with a made-up topology loses a real CPU, it loses all CPUs of the topology
    /// that this real CPU serves.
    #[test]
    fn a_made_up_pod_is_served_by_the_real_cpus_behind_it() {
        let whole = Environment::new(&mapped(8, 2), Some(cpus("0-1")), None);
        assert_eq!(whole.share(&cpus("0,2,4"), &cpus("0-7")), Share { binding: cpus("0"), target: 3 });
        assert_eq!(whole.share(&cpus("4-5"), &cpus("0-7")), Share { binding: cpus("0-1"), target: 2 });
        assert_eq!((whole.lost(), whole.home()), (cpus(""), cpus("0-1")));
        let half = whole.seen(Some(cpus("1")), None).unwrap();
        assert_eq!(half.lost(), cpus("0,2,4,6"));
        assert_eq!(half.home(), cpus("1"));
        assert_eq!(half.share(&cpus("0-3"), &cpus("0-7")), Share { binding: cpus("1"), target: 2 });
        assert_eq!(half.share(&cpus("4"), &cpus("0-7")), Share { binding: cpus("1"), target: 1 });
        let again = half.seen(Some(cpus("0-1")), None).unwrap();
        assert_eq!(again.share(&cpus("0-3"), &cpus("0-7")), Share { binding: cpus("0-1"), target: 4 });
    }

    /// The executor keeps a CPU that the user gave to it, even if the process was not allowed to use that CPU.
    #[test]
    fn cpus_that_the_process_never_had_are_not_lost() {
        let environment = Environment::new(&mapped(2, 2), Some(cpus("0")), None);
        assert_eq!(environment.lost(), cpus(""));
        assert_eq!(environment.share(&cpus("0-1"), &cpus("0-7")).binding, cpus("0-1"));
        assert!(environment.seen(Some(cpus("0")), None).is_none());
        assert_eq!(environment.seen(Some(cpus("1")), None).unwrap().lost(), cpus("0"));
    }

    #[test]
    fn a_look_that_fails_changes_nothing() {
        let environment = Environment::new(&mapped(2, 2), None, quota(100_000));
        assert_eq!(environment.share(&cpus("0-1"), &cpus("0-7")), Share { binding: cpus("0-1"), target: 1 });
        assert!(environment.seen(None, quota(100_000)).is_none());
        assert!(environment.seen(Some(CpuSet::new()), quota(100_000)).is_none());
        assert_eq!(environment.seen(None, None).unwrap().share(&cpus("0-1"), &cpus("0-7")).target, 2);
    }

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    /// spec: A5.1, E3: the manager checks the environment every 400 ms while workers work, and not while all workers
    /// rest.
    #[test]
    fn the_manager_looks_while_workers_work() {
        let mut vigil = Vigil::new(at(0));
        assert_eq!(vigil.next(), None, "no worker works");
        vigil.active(at(100));
        assert_eq!(vigil.next(), Some(at(400)), "the executor looked when it was made");
        assert!(!vigil.is_due(at(399)) && vigil.is_due(at(400)) && vigil.is_owed());
        vigil.looked(at(405));
        assert!(!vigil.is_owed());
        vigil.active(at(500));
        assert_eq!(vigil.next(), Some(at(805)), "one look, however many workers begin");
        vigil.rest();
        assert!(vigil.next().is_none() && !vigil.is_due(Time::NEVER), "no worker works");
        vigil.active(at(600));
        assert_eq!(vigil.next(), Some(at(805)), "the last look is not long ago");
        vigil.rest();
        vigil.active(at(9000));
        assert!(vigil.is_due(at(9000)), "after a long break, immediately");
    }

    /// spec: A5.1 (noticed within 1 s): the manager checks at least once per period, however short the workers' bursts
    /// of work are.
    #[test]
    fn no_change_is_older_than_a_period_while_workers_work() {
        for (work, pause) in [(1, 7), (5, 300), (100, 350), (399, 1), (3, 1000)] {
            let (mut vigil, mut watched) = (Vigil::new(at(0)), false);
            let mut last_look = 0;
            for now in 0..20_000 {
                let works = now % (work + pause) < work;
                if works && !watched {
                    vigil.active(at(now));
                    watched = true;
                }
                if vigil.is_due(at(now)) {
                    if works || vigil.is_owed() {
                        vigil.looked(at(now));
                        last_look = now;
                    } else {
                        vigil.rest();
                        watched = false;
                    }
                }
                assert!(!works || now - last_look <= 400 + pause.min(400), "{work} {pause} {now}");
            }
        }
    }
}
