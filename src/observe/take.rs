//! Takes a snapshot. The calling thread reads the pools and queues one after the other, and holds each lock only
//! briefly.

use std::collections::{BTreeMap, HashMap};
use std::process;
use std::sync::Arc;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::executor::upkeep::Upkeep;
use crate::engine::pool::calls::Rescuer;
use crate::engine::pool::spec::PoolKind;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::backlog::Backlog;
use crate::engine::queue::shard::Shard;
use crate::engine::queue::view::{QueueView, ThreadView};
use crate::engine::queue::workqueue::{Limit, Queue, Unbound};
use crate::engine::worker::shared::Worker;
use crate::policy::attrs::EffectiveAttrs;
use crate::policy::concurrency::Running;
use crate::policy::counters::Counters;
use crate::policy::cpu_set::CpuSet;
use crate::policy::detection::Detection;
use crate::policy::pods::{AffinityScope, Pods};
use crate::policy::time::Time;
use crate::policy::topology::Topology;
use crate::policy::worker::{Phase, WorkerState as Word};
use crate::sys::sync::Ordering;
use crate::sys::{self, clock};

use super::monitor::MonitorRow;
use super::share::ShareSnapshot;
use super::snapshot::{
    PodSnapshot, PoolSnapshot, QueueKind, QueueSnapshot, RescuerSnapshot, RunningItem, ScopeSnapshot,
    ShardSnapshot, Snapshot, WorkerSnapshot, WorkerState,
};

impl Snapshot {
    pub(crate) fn take(executor: &ExecutorInner) -> Self {
        let mut snapshot = Self::without_pools(&executor.upkeep);
        snapshot.cpus = executor.cpus.clone();
        snapshot.pending = executor.backlog.as_ref().map(Backlog::pending);
        let Some(defaults) = executor.defaults() else { return snapshot };
        snapshot.pending_bytes = executor.bytes.as_ref().map(|cell| cell.pending());
        snapshot.scopes = scopes(&executor.topology, &executor.cpus, defaults.scope);
        snapshot.unbound_cpus = defaults.cpus;
        let refs = executor.queues.refs();
        let queues: Vec<_> = refs.iter().map(|queue| Seen::of(queue)).collect();
        let pools = Pools::of(&executor.upkeep, &queues);
        let ids = pools.ids();
        snapshot.pools = pools.snapshots();
        // This process is not a forked child of the executor's process, because `defaults` returned a value.
        snapshot.queues = queues.iter().map(|seen| queue_snapshot(seen, &ids)).collect();
        snapshot
    }

    /// Takes a snapshot without queues.
    pub(crate) fn of_pools(upkeep: &Upkeep) -> Self {
        let mut snapshot = Self::without_pools(upkeep);
        if !snapshot.forked {
            snapshot.pools = Pools::of(upkeep, &[]).snapshots();
        }
        snapshot
    }

    fn without_pools(upkeep: &Upkeep) -> Self {
        let core = &*upkeep.core;
        let forked = core.origin.is_forked();
        // In a forked process, locks may stay held for ever, so the snapshot contains nothing that is read under a
        // lock.
        let here = (!forked).then_some(upkeep);
        let environment = here.map(|upkeep| upkeep.core.environment.present().cpus);
        Self {
            format: Self::FORMAT,
            pid: process::id(),
            prefix: core.settings.name_prefix.clone(),
            time: clock::since_epoch(),
            forked,
            threads: here.map_or(0, |_| core.threads()),
            max_threads: Some(core.settings.max_threads).filter(|most| *most != usize::MAX),
            thread_limit_reached: upkeep.was_thread_limit_reached(),
            max_pending: core.settings.max_pending,
            pending: None,
            max_pending_bytes: core.settings.max_pending_bytes,
            pending_bytes: None,
            portable: sys::PORTABLE,
            nice_denied: core.denials.nice_denied(),
            affinity_denied: core.denials.affinity_denied(),
            lost_cpus: environment.as_ref().map_or_else(CpuSet::new, |environment| environment.lost()),
            cpu_quota: environment.and_then(|environment| Some(environment.quota()?.cpus())),
            detection: here.map_or(Detection::Off, |_| core.settings.detection),
            detection_fallback: here.and_then(|upkeep| upkeep.shortfall.reason()),
            stalls: upkeep.stalls.load(Ordering::Relaxed),
            cpus: CpuSet::new(),
            unbound_cpus: CpuSet::new(),
            scopes: Vec::new(),
            pools: Vec::new(),
            queues: Vec::new(),
            hogs: here.map_or_else(Vec::new, |upkeep| upkeep.offenders.hogs()),
            undeclared_blockers: here.map_or_else(Vec::new, |upkeep| upkeep.offenders.blockers()),
        }
    }
}

// Pods. -----------------------------------------------------------------------------------------------------------

fn scopes(topology: &Topology, cpus: &CpuSet, default: AffinityScope) -> Vec<ScopeSnapshot> {
    let of = |scope| ScopeSnapshot {
        scope,
        is_default: scope == default,
        pods: Pods::derive(topology, scope, cpus)
            .pods()
            .iter()
            .map(|pod| PodSnapshot { cpus: pod.clone(), node: node_of(topology, pod) })
            .collect(),
    };
    AffinityScope::ALL.into_iter().map(of).collect()
}

/// Returns the node to which all CPUs of the pod belong. Returns `None` if the CPUs belong to several nodes.
fn node_of(topology: &Topology, pod: &CpuSet) -> Option<usize> {
    let mut nodes = topology.cpus().iter().filter(|cpu| pod.contains(cpu.id)).map(|cpu| cpu.node);
    let first = nodes.next()?;
    nodes.all(|node| node == first).then_some(first)
}

// Pools. ----------------------------------------------------------------------------------------------------------

/// The pools of a snapshot, in the order of their ids.
struct Pools {
    pools: BTreeMap<PoolKey, (Arc<Pool>, Uses)>,
}

/// A key that sorts pools in the order in which the kernel numbers them: first the pools of CPUs, then the bh contexts,
/// and last the pools of pods.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PoolKey {
    PerCpu { index: usize, high: bool },
    Bh { index: usize, high: bool },
    Unbound { id: usize },
}

/// The number of shards that use a pool, and how many of these shards belong to strict queues.
#[derive(Clone, Copy, Default)]
struct Uses {
    shards: usize,
    strict: usize,
}

impl Pools {
    /// Returns the pools that are in use, and the pools of the shards of `queues`.
    fn of(upkeep: &Upkeep, queues: &[Seen<'_>]) -> Self {
        let mut pools = BTreeMap::new();
        for pool in upkeep.pools.all().into_iter().filter(|pool| pool.is_in_use()) {
            pools.insert(PoolKey::of(&pool), (pool, Uses::default()));
        }
        for queue in queues {
            let strict = queue.view.attrs.as_ref().is_some_and(|attrs| attrs.strict);
            for (_, _, pool) in &queue.parts {
                let known = pools.entry(PoolKey::of(pool));
                let (_, uses) = known.or_insert_with(|| (Arc::clone(pool), Uses::default()));
                uses.shards += 1;
                uses.strict += usize::from(strict);
            }
        }
        Self { pools }
    }

    fn ids(&self) -> HashMap<PoolKey, usize> {
        self.pools.keys().copied().zip(0..).collect()
    }

    fn snapshots(&self) -> Vec<PoolSnapshot> {
        let now = clock::now();
        let pools = self.pools.values().enumerate();
        pools.map(|(id, (pool, uses))| pool_snapshot(id, pool, *uses, now)).collect()
    }
}

impl PoolKey {
    fn of(pool: &Pool) -> Self {
        match pool.spec.kind {
            PoolKind::PerCpu { index, high, .. } => Self::PerCpu { index, high },
            PoolKind::Bh { index, high, .. } => Self::Bh { index, high },
            PoolKind::Unbound { id } => Self::Unbound { id },
        }
    }
}

/// Returns how many workers a pool with this many CPUs tries to keep runnable.
fn runnable(word: Running, cpus: usize) -> Option<usize> {
    let target = word.target()?.min(cpus as u64) as usize;
    Some(if word.is_covered() { 2 * target } else { target })
}

fn pool_snapshot(id: usize, pool: &Pool, uses: Uses, now: Time) -> PoolSnapshot {
    let (counts, workers) = pool.counts();
    let own = workers.iter().map(|(worker, word)| worker_snapshot(worker, *word, false));
    let guests = pool.binding.guests();
    let guests = guests.iter().map(|guest| worker_snapshot(guest, guest.cell.load(), true));
    PoolSnapshot {
        id,
        name: pool.spec.kind.name(),
        cpus: pool.spec.cpus.clone(),
        binding: pool.binding.cpus(),
        per_cpu: matches!(pool.spec.kind, PoolKind::PerCpu { .. } | PoolKind::Bh { .. }),
        bh: pool.spec.is_bh(),
        strict: uses.strict > 0 && uses.strict == uses.shards,
        nice: pool.spec.nice,
        users: uses.shards,
        running: counts.running.running() as usize,
        waking: counts.running.waking() as usize,
        target: runnable(counts.running, pool.spec.cpus.len()),
        workers: counts.workers,
        idle: counts.idle,
        pending: counts.pending,
        creating: counts.creating,
        // A stall ends when a worker takes the last entry of the worklist. The manager may notice the end of the stall
        // later, so `stalled_since` may still be set.
        stalled_for: counts.stalled_since.filter(|_| counts.pending > 0).map(|since| now.since(since)),
        worker_details: own.chain(guests).collect(),
    }
}

fn worker_snapshot(worker: &Worker, word: Word, is_rescuer: bool) -> WorkerSnapshot {
    let item = worker.item_type(word).map(|item_type| {
        let queue = worker.with_queue(word, |queue| (queue.name().to_owned(), queue.number));
        let (queue, queue_number) = queue.unzip();
        RunningItem {
            queue,
            queue_number,
            item_type: item_type.to_owned(),
            description: worker.description_of(word),
            age: worker.age(word),
        }
    });
    WorkerSnapshot {
        thread: worker.name().to_owned(),
        thread_id: worker.with_thread(|thread| thread.shown()).flatten(),
        state: word.phase().into(),
        items: word.sequence(),
        item,
        is_rescuer,
    }
}

impl From<Phase> for WorkerState {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Idle => Self::Idle,
            Phase::Waking => Self::Waking,
            Phase::Between => Self::Between,
            Phase::Running => Self::Running,
            Phase::MayBlock => Self::MayBlock,
            Phase::Blocked => Self::Blocked,
            Phase::Asleep => Self::Asleep,
            Phase::Uncounted => Self::Uncounted,
            Phase::Hog => Self::Hog,
            Phase::Exiting => Self::Exiting,
        }
    }
}

// Queues. ---------------------------------------------------------------------------------------------------------

/// Returns the counters of a queue. A forked process must not call this function.
pub(super) fn row(queue: &Queue) -> MonitorRow {
    MonitorRow {
        number: queue.number,
        name: queue.name().to_owned(),
        kind: kind_of(queue),
        rescuer: queue.rescuer().is_some(),
        counters: queue.shards_by_index().map(|(_, shard)| shard.counters()).sum(),
    }
}

/// A queue, and the pools of its shards at the time of the snapshot.
struct Seen<'q> {
    queue: &'q Queue,
    view: QueueView,
    /// The shards of the queue, each with its CPU index and its pool.
    parts: Vec<(usize, &'q Shard, Arc<Pool>)>,
}

impl<'q> Seen<'q> {
    fn of(queue: &'q Queue) -> Self {
        let parts =
            queue.shards_by_index().map(|(index, shard)| (index, shard, shard.pool().shared())).collect();
        Self { queue, view: queue.view(), parts }
    }
}

fn queue_snapshot(seen: &Seen<'_>, ids: &HashMap<PoolKey, usize>) -> QueueSnapshot {
    let Seen { queue, view, parts } = seen;
    let spec = &queue.spec;
    let cpu = |index| queue.executor.placement.cpu(index).cpu;
    let id = |pool: &Pool| ids.get(&PoolKey::of(pool)).copied();
    let shard = |(index, shard, pool): &(usize, &Shard, Arc<Pool>)| {
        Some(shard_snapshot(cpu(*index), id(pool)?, shard, shard.counters()))
    };
    let shards: Vec<ShardSnapshot> = parts.iter().filter_map(shard).collect();
    // Each limiter's word is read only once, so that the sums of the queue agree with the counts of its shards.
    let (active, inactive) = match queue.shared_limiter().map(|limiter| limiter.cell.load()) {
        Some(word) => (word.with_slot() as usize, word.waiting() as usize),
        None => (
            shards.iter().filter_map(|shard| shard.active).sum(),
            shards.iter().filter_map(|shard| shard.inactive).sum(),
        ),
    };
    QueueSnapshot {
        number: queue.number,
        name: queue.name().to_owned(),
        kind: kind_of(queue),
        high_priority: spec.high_priority,
        cpu_intensive: spec.cpu_intensive,
        freezable: spec.freezable,
        control: queue.spec.control,
        frozen: view.frozen,
        draining: view.draining,
        max_active: (!spec.is_bh).then_some(view.max_active),
        limited_as_a_whole: matches!(spec.limit, Limit::Total(_)),
        max_pending: spec.max_pending,
        share: spec.share.as_deref().map(ShareSnapshot::of),
        attrs: view.attrs.clone().map(EffectiveAttrs::of),
        len: active + inactive,
        active,
        inactive,
        counters: shards.iter().map(|shard| shard.counters).sum(),
        latency: queue.latency(),
        shards,
        rescuer: queue.rescuer().map(|rescuer| rescuer_snapshot(rescuer)),
        default_pool: view.default_pool.as_deref().and_then(id),
    }
}

fn shard_snapshot(cpu: usize, pool: usize, shard: &Shard, counters: Counters) -> ShardSnapshot {
    let word = shard.own_limiter().map(|limiter| limiter.cell.load());
    ShardSnapshot {
        cpu,
        pool,
        active: word.map(|word| word.with_slot() as usize),
        inactive: word.map(|word| word.waiting() as usize),
        counters,
    }
}

fn kind_of(queue: &Queue) -> QueueKind {
    match queue.spec.unbound {
        _ if queue.spec.is_bh => QueueKind::Bh,
        _ if queue.spec.ordered => QueueKind::Ordered,
        Some(Unbound { managed: true, .. }) => QueueKind::Managed,
        Some(Unbound { managed: false, .. }) => QueueKind::Unbound,
        None => QueueKind::PerCpu,
    }
}

fn rescuer_snapshot(rescuer: &Rescuer) -> RescuerSnapshot {
    let thread = rescuer.with_thread(ThreadView::of);
    RescuerSnapshot {
        thread: rescuer.name().to_owned(),
        thread_id: thread.as_ref().and_then(|thread| thread.id),
        cpus: thread.and_then(|thread| thread.cpus).unwrap_or_default(),
    }
}
