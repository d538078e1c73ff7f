//! The exact bound of work conservation: how long an item may wait while a CPU of its class idles.
//!
//! An item that may leave its pod *waits* from its submission until it begins. A pod *idles* while three conditions
//! hold: it has an unused CPU, it has fewer counted workers than CPUs, and none of its workers waits for a CPU. (A
//! worker that waits was placed on a CPU that its waker was about to leave but did not leave. The worker gets this CPU
//! after a time slice.) The unbroken time for which an item waits while a pod idles is at most
//!
//! > one wake-up latency × (1 + diversions) + the patience of the item's pod + the patience of each futile pod + the
//! > time in which the item's pod is brisk + the time for which the item stays with the worker that queued it
//!
//! *Patience* is the time by which a pod's woken worker may be late before siblings may take the pod's items. After a
//! pause, the patience is [`AFTER_A_PAUSE`]. In a stream of the pod's wake-ups, the patience is the time for which the
//! stream has lasted, up to [`IN_A_STREAM`]. A stream ends with a pause of [`PAUSE`]. A *brisk* pod leaves short items
//! to its running workers. So an item of such a pod may wait, for [`BRISK`] at most. A pod can be brisk only if, in the
//! last [`PAUSE`], one of its workers has begun [`MANY`] items within [`SOON`]. Once a worker of the pod has begun so
//! many items, an item that was queued by another item may stay with that item's worker, for [`LOCAL`] at most. The
//! documentation promises these numbers. The checks do not read policy's own numbers, so they fail if policy becomes
//! less exact.
//!
//! While the item waits, a worker of another pod may be called for the item's pod, but may find work of its own pod
//! when it arrives. Then another worker is called. *Diversions* count such workers: they are the workers of other pods
//! that had slept and then began an item of their own pod. A *futile pod* is another pod that has called workers while
//! the item waited, but had no CPU for them.
//!
//! So an item whose own pod has lost its CPUs is late by this pod's patience. The nearest sibling seems to have room,
//! but may also have lost its CPUs unnoticed. Each such sibling makes the item later by the sibling's patience.
//!
//! A moment at which a thread waits for a CPU in the middle of a step is not counted, because this thread may have
//! reserved a worker that it has not woken yet.
//!
//! The bound also holds for a burst of any length, because all workers for which there is room are woken at the same
//! time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Log, Pod, Setup};
use crate::Executor;
use crate::engine::executor::upkeep::Upkeep;
use crate::engine::pool::worker_pool::Pool;
use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;
use crate::policy::worker::Phase;
use crate::sys::clock;
use crate::sys::machine::Mutex;
use crate::sys::machine::{self, Config, Moment};

/// Siblings may take an item if the first worker that the item's pod woke after a pause is late by more than this time.
pub(super) const AFTER_A_PAUSE: Duration = Duration::from_micros(200);

/// Siblings may take an item if any worker of the item's pod is late by more than this time.
pub(super) const IN_A_STREAM: Duration = Duration::from_micros(3200);

/// If a pool has woken no worker for this time, its last stream of wake-ups has ended.
pub(super) const PAUSE: Duration = Duration::from_micros(6400);

/// The longest time for which an item may wait because the items before it were short.
pub(super) const BRISK: Duration = Duration::from_micros(3200);

/// The longest time for which an item stays with the worker whose item queued it.
const LOCAL: Duration = Duration::from_millis(3);

/// A worker has begun many items if it has begun this number of them within [`SOON`].
pub(super) const MANY: usize = 16;

/// The time within which a worker must begin [`MANY`] items.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// The nice level of high-priority queues.
const HIGH: i32 = -20;

/// An item that waits and may leave its pod.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    home: Pod,
    since: Time,
    /// The number of diversions before the item began to wait.
    diverted: u32,
    /// For the item's own pod and for each futile pod, the longest patience since the item began to wait.
    patience: BTreeMap<Pod, Duration>,
    /// Whether the item's own pod has been brisk at any time since the item began to wait.
    brisk: bool,
    /// Whether another item has queued this item.
    by_item: bool,
    /// Whether this item may have stayed with the worker of the item that queued it.
    local: bool,
}

impl Waits {
    pub(super) fn new(home: Pod, since: Time, diverted: u32, by_item: bool) -> Self {
        Self { home, since, diverted, patience: BTreeMap::new(), brisk: false, by_item, local: false }
    }
}

/// A series of wake-ups of a pool without a pause in between.
#[derive(Clone, Copy, Debug)]
struct Stream {
    began: Time,
    last: Time,
    /// The time by which the worker that was woken last may be late.
    patience: Duration,
}

/// The facts that the checks have observed about the pods.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The longest time from a wake-up until the thread is ready.
    latency: Duration,
    pod_size: usize,
    /// For each pod that has room, the time since which it has had room without a break.
    roomy: BTreeMap<Pod, Time>,
    /// The pods that have called workers but have no CPU for them.
    futile: BTreeSet<Pod>,
    streams: BTreeMap<Pod, Stream>,
}

/// The existing pools of the setup, by pod.
type Pools = BTreeMap<Pod, Arc<Pool>>;

/// Checks conservation whenever time is about to pass.
///
/// spec: A3 (no CPU idles while items wait in another pod for longer than the bound)
pub(super) fn watch(executor: &Executor, log: &Arc<Mutex<Log>>, mut ledger: Ledger) {
    let (upkeep, log) = (Arc::downgrade(&executor.inner.upkeep), Arc::clone(log));
    machine::check(Box::new(move |moment| {
        let pools = upkeep.upgrade().map_or(Pools::new(), |upkeep| pools(&upkeep, ledger.pod_size));
        ledger.time_passes(moment, &pools, &mut log.lock());
    }));
}

/// Returns the pools of the setup's queue. The pools of the other class have a higher priority.
fn pools(upkeep: &Upkeep, pod_size: usize) -> Pools {
    let of_queue = |pool: &Arc<Pool>| pool.is_sibling_of(pool) && pool.spec.nice != HIGH;
    let pod_of = |pool: &Pool| pool.spec.cpus.iter().next().map_or(0, |first| first / pod_size);
    upkeep.pools.all().into_iter().filter(of_queue).map(|pool| (pod_of(&pool), pool)).collect()
}

/// Returns whether the setup's pool of this pod is brisk.
pub(super) fn is_brisk(setup: &Setup, pod: Pod) -> bool {
    pools(&setup.executor.inner.upkeep, setup.pod_size)[&pod].running.load().is_brisk()
}

/// Returns a text that occurs in the names of the pool's workers, and in no other names.
fn worker_of(pool: &Pool) -> String {
    format!("/{}:", pool.spec.kind.name())
}

/// Checks that an item of the pod `home` was permitted to begin in another pod.
///
/// spec: A3 (an item goes elsewhere only when its own pod cannot take it)
pub(super) fn check_theft(setup: &Setup, home: Pod) {
    if !setup.is_calm {
        return; // The state that the thief saw may have changed.
    }
    let pool = &pools(&setup.executor.inner.upkeep, setup.pod_size)[&home];
    let (word, pending) = (pool.running.load(), pool.pending() as u64);
    let is_full = word.target().is_some_and(|target| word.running() + word.waking() >= target);
    let has_too_much = pending + 1 > word.waking();
    assert!(
        is_full && has_too_much || is_late(setup, pool),
        "an item leaves a pod that can take it: {word:?}"
    );
}

/// Returns whether a worker of this pool was woken at least [`AFTER_A_PAUSE`] ago and has not begun. A worker whose
/// thread was made but has not begun counts as late, because it is not known how long ago the pool asked for it.
fn is_late(setup: &Setup, pool: &Pool) -> bool {
    let (name, (counts, workers)) = (worker_of(pool), pool.counts());
    let state_of = |thread: &str| workers.iter().find(|(worker, _)| worker.name() == thread);
    let log = setup.log.lock();
    let (mut woken, mut is_late) = (0, false);
    for (thread, since) in log.woken.iter().filter(|(thread, _)| thread.contains(&name)) {
        match state_of(thread) {
            Some((_, state)) if state.phase() != Phase::Waking => {}
            Some(_) => {
                woken += 1;
                is_late |= clock::now().since(*since) >= AFTER_A_PAUSE;
            }
            None => is_late = true,
        }
    }
    is_late || woken < counts.running.waking()
}

impl Ledger {
    pub(super) fn new(config: &Config, pod_size: usize) -> Self {
        let (roomy, futile, streams) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { latency: config.latency, pod_size, roomy, futile, streams }
    }

    fn time_passes(&mut self, moment: &Moment<'_>, pools: &Pools, log: &mut Log) {
        if moment.is_in_a_step() {
            log.in_steps += moment.until.since(moment.now);
        }
        self.wake_ups(moment, pools, log);
        self.look_for_room(moment, pools, log.began_at_home.len());
        let many: BTreeSet<Pod> =
            pools.keys().copied().filter(|pod| log.begins_many(*pod, moment.now)).collect();
        for (pod, pool) in pools {
            assert!(many.contains(pod) || !pool.running.load().is_brisk(), "pod {pod} has begun few items");
        }
        for waits in log.waiting.values_mut() {
            for pod in self.futile.iter().copied().chain([waits.home]) {
                let longest = waits.patience.entry(pod).or_default();
                *longest = self.patience(pod, moment.now).max(*longest);
            }
            waits.local |= waits.by_item && log.many.contains_key(&waits.home);
            waits.brisk |= pools.get(&waits.home).is_some_and(|pool| pool.running.load().is_brisk());
        }
        let mut longest = log.longest;
        for (other, roomy_since) in &self.roomy {
            for (item, waits) in &log.waiting {
                let waited = moment.until.since(waits.since.max(*roomy_since));
                let diverted = log.diversions(waits.home) - waits.diverted;
                let patience: Duration = waits.patience.values().sum();
                let brisk = if waits.brisk { BRISK } else { Duration::ZERO };
                let local = if waits.local { LOCAL } else { Duration::ZERO };
                let bound = self.latency * (1 + diverted) + patience + brisk + local;
                assert!(
                    waited <= bound,
                    "item {item} waits for {waited:?} > {bound:?}, while pod {other} has room, until {:?}: {waits:?}, \
                     {diverted} diverted, {:?} {moment:?}",
                    moment.until,
                    pools.iter().map(|(pod, pool)| (pod, pool.running.load())).collect::<Vec<_>>(),
                );
                longest = longest.max(waited);
            }
        }
        log.longest = longest;
    }

    /// Notes the wake-ups since the last moment.
    fn wake_ups(&mut self, moment: &Moment<'_>, pools: &Pools, log: &mut Log) {
        let woken = moment.woken();
        for (pod, pool) in pools {
            let name = worker_of(pool);
            let of_pool: Vec<_> = woken.iter().filter(|thread| thread.contains(&name)).collect();
            if of_pool.is_empty() {
                continue;
            }
            *log.wakes.entry(*pod).or_default() += of_pool.len();
            log.woken.extend(of_pool.into_iter().map(|thread| (thread.clone(), moment.now)));
            let stream = self.streams.get(pod).filter(|stream| moment.now.since(stream.last) <= PAUSE);
            let began = stream.map_or(moment.now, |stream| stream.began);
            // The manager may make a thread up to one wake-up latency after the pool has asked for it.
            let lasts = moment.now.since(began) + self.latency;
            let patience = lasts.clamp(AFTER_A_PAUSE, IN_A_STREAM);
            self.streams.insert(*pod, Stream { began, last: moment.now, patience });
        }
    }

    fn look_for_room(&mut self, moment: &Moment<'_>, pools: &Pools, pods: usize) {
        self.futile.clear();
        if moment.is_in_a_step() {
            return self.roomy.clear();
        }
        let (idle, ready) = (moment.idle_cpus(), moment.ready());
        for pod in 0..pods {
            let cpus: CpuSet = (pod * self.pod_size..(pod + 1) * self.pod_size).collect();
            let serves = !idle.intersection(&cpus).is_empty();
            let pool = pools.get(&pod);
            let word = pool.map(|pool| pool.running.load());
            let is_of = |thread: &String, pool: &Arc<Pool>| thread.contains(&worker_of(pool));
            let waits = pool.is_some_and(|pool| ready.iter().any(|thread| is_of(thread, pool)));
            let is_below = |target| word.is_none_or(|word| word.running() < target);
            if serves && !waits && is_below(cpus.len() as u64) {
                self.roomy.entry(pod).or_insert(moment.now);
            } else {
                self.roomy.remove(&pod);
            }
            if !serves && word.is_some_and(|word| word.waking() > 0) {
                self.futile.insert(pod);
            }
        }
    }

    /// Returns the patience of a pod with the workers that it woke last.
    fn patience(&self, pod: Pod, now: Time) -> Duration {
        let stream = self.streams.get(&pod).filter(|stream| now.since(stream.last) <= PAUSE);
        stream.map_or(AFTER_A_PAUSE, |stream| stream.patience)
    }
}
