//! Hand-made snapshots of a machine with two nodes of two CPUs each, and with queues of all kinds.

use std::time::Duration;

use crate::engine::manager::offenders::Offender;
use crate::observe::{
    Counters, MonitorReport, MonitorRow, PodSnapshot, PoolSnapshot, QueueKind, QueueSnapshot,
    RescuerSnapshot, RunningItem, ScopeSnapshot, ShardSnapshot, ShareSnapshot, Snapshot, WorkerSnapshot,
    WorkerState,
};
use crate::policy::attrs::EffectiveAttrs;
use crate::policy::cpu_set::CpuSet;
use crate::policy::detection::Detection;
use crate::policy::histogram::{Histogram, Latency};
use crate::policy::pods::AffinityScope;

pub(super) fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Returns the snapshot of an executor without queues and pools.
pub(super) fn idle() -> Snapshot {
    let scopes = [
        (AffinityScope::Cpu, "0 1 2 3"),
        (AffinityScope::Smt, "0 1 2 3"),
        (AffinityScope::Cache, "0-1 2-3"),
        (AffinityScope::CacheShard, "0-1 2-3"),
        (AffinityScope::Numa, "0-1 2-3"),
        (AffinityScope::System, "0-3"),
    ];
    let node =
        |cpus: &CpuSet| (cpus.len() < 3).then(|| usize::from(!cpus.is_subset(&"0-1".parse().unwrap())));
    let pod = |list: &str| PodSnapshot { node: node(&cpus(list)), cpus: cpus(list) };
    let scope = |(scope, pods): (AffinityScope, &str)| ScopeSnapshot {
        scope,
        is_default: scope == AffinityScope::Cache,
        pods: pods.split(' ').map(pod).collect(),
    };
    Snapshot {
        format: Snapshot::FORMAT,
        pid: 4700,
        prefix: "cmwq".into(),
        time: Duration::from_secs(1_800_000_000),
        forked: false,
        threads: 0,
        max_threads: None,
        thread_limit_reached: false,
        max_pending: None,
        pending: None,
        max_pending_bytes: Some(64 << 20),
        pending_bytes: Some(3 << 20),
        portable: false,
        nice_denied: false,
        affinity_denied: false,
        lost_cpus: CpuSet::new(),
        cpu_quota: None,
        detection: Detection::Sampling,
        detection_fallback: None,
        stalls: 0,
        cpus: cpus("0-3"),
        unbound_cpus: cpus("0-3"),
        scopes: scopes.into_iter().map(scope).collect(),
        pools: Vec::new(),
        queues: Vec::new(),
        hogs: Vec::new(),
        undeclared_blockers: Vec::new(),
    }
}

/// Returns the snapshot of a busy executor, with values in most fields.
pub(super) fn busy() -> Snapshot {
    let mut snapshot = Snapshot {
        threads: 8,
        max_threads: Some(512),
        thread_limit_reached: true,
        max_pending: Some(1000),
        pending: Some(412),
        nice_denied: true,
        lost_cpus: cpus("3"),
        cpu_quota: Some(1.5),
        detection_fallback: Some("the system permits no records of context switches".into()),
        stalls: 1,
        pools: pools(),
        queues: queues(),
        hogs: vec![Offender { item_type: "app::index".into(), count: 12 }],
        undeclared_blockers: vec![Offender { item_type: "app::fetch".into(), count: 3 }],
        ..idle()
    };
    let item = snapshot.pools[0].worker_details[0].item.as_mut().unwrap();
    item.description = Some("to \"postmaster\"".into());
    snapshot
}

fn worker(thread: &str, id: u32, state: WorkerState, item: Option<RunningItem>) -> WorkerSnapshot {
    let items = u64::from(id) * 3;
    WorkerSnapshot { thread: thread.into(), thread_id: Some(id), state, items, item, is_rescuer: false }
}

fn item(queue: &str, number: u64, item_type: &str, age: Option<Duration>) -> Option<RunningItem> {
    Some(RunningItem {
        queue: Some(queue.into()),
        queue_number: Some(number),
        item_type: item_type.into(),
        description: None,
        age,
    })
}

fn pool(id: usize, name: &str, list: &str, workers: Vec<WorkerSnapshot>) -> PoolSnapshot {
    let of_cpu = !name.starts_with('u');
    PoolSnapshot {
        id,
        name: name.into(),
        cpus: cpus(list),
        binding: cpus(list),
        per_cpu: of_cpu,
        bh: name.starts_with("bh"),
        strict: false,
        nice: if name.ends_with('H') { -20 } else { 0 },
        users: 1,
        running: workers.iter().filter(|worker| worker.state == WorkerState::Running).count(),
        waking: 0,
        target: of_cpu.then_some(1),
        workers: workers.iter().filter(|worker| !worker.is_rescuer).count(),
        idle: workers.iter().filter(|worker| worker.state == WorkerState::Idle).count(),
        pending: 0,
        creating: false,
        stalled_for: None,
        worker_details: workers,
    }
}

fn pools() -> Vec<PoolSnapshot> {
    use WorkerState::{Blocked, Idle, Running, Uncounted};
    let mail = item("mail", 1, "app::send", Some(Duration::from_millis(3_250)));
    let index = item("index", 2, "app::index", Some(Duration::from_micros(12)));
    let log = item("a_log_with_a_name_that_is_too_long", 3, "app::write", None);
    let gone = Some(RunningItem { queue: None, queue_number: None, ..log.clone().unwrap() });
    let rescuer = WorkerSnapshot {
        is_rescuer: true,
        ..worker("cmwq/R-a_log_with_a_name_that_is_too_long", 4709, Uncounted, log)
    };
    let first = vec![
        worker("cmwq/0:0", 4701, Blocked, mail),
        worker("cmwq/0:1", 4702, Idle, None),
        worker("cmwq/0:2", 4703, Idle, None),
    ];
    let unbound = vec![worker("cmwq/u8:0", 4705, Running, index), worker("cmwq/u8:1", 4706, Running, gone)];
    vec![
        PoolSnapshot { pending: 2, users: 2, ..pool(0, "0", "0", first) },
        PoolSnapshot { users: 0, ..pool(1, "0H", "0", Vec::new()) },
        pool(2, "bh0", "0", vec![worker("cmwq/bh0", 4704, Idle, None)]),
        PoolSnapshot { target: Some(2), users: 28, strict: true, ..pool(3, "u8", "0-1", unbound) },
        PoolSnapshot {
            pending: 1,
            binding: cpus("2"),
            creating: true,
            waking: 1,
            stalled_for: Some(Duration::from_secs(31)),
            ..pool(4, "u9", "2-3", vec![rescuer])
        },
    ]
}

fn queue(number: u64, name: &str, kind: QueueKind, shards: Vec<ShardSnapshot>) -> QueueSnapshot {
    let sum = |count: fn(&ShardSnapshot) -> Option<usize>| shards.iter().filter_map(count).sum();
    let (active, inactive) = (sum(|shard| shard.active), sum(|shard| shard.inactive));
    let attrs = EffectiveAttrs { nice: 0, cpus: cpus("0-3"), scope: AffinityScope::Cache, strict: false };
    QueueSnapshot {
        number,
        name: name.into(),
        kind,
        high_priority: false,
        cpu_intensive: false,
        freezable: false,
        control: false,
        frozen: false,
        draining: false,
        max_active: Some(256),
        limited_as_a_whole: false,
        max_pending: None,
        share: None,
        attrs: (!matches!(kind, QueueKind::PerCpu | QueueKind::Bh)).then_some(attrs),
        len: active + inactive,
        active,
        inactive,
        counters: shards.iter().map(|shard| shard.counters).sum(),
        latency: None,
        shards,
        rescuer: None,
        default_pool: None,
    }
}

fn shard(cpu: usize, pool: usize, (active, inactive): (usize, usize), counters: Counters) -> ShardSnapshot {
    ShardSnapshot { cpu, pool, active: Some(active), inactive: Some(inactive), counters }
}

pub(super) fn counted(started: u64, completed: u64, micros: u64) -> Counters {
    Counters { started, completed, cpu_time: Duration::from_micros(micros), ..Counters::default() }
}

fn queues() -> Vec<QueueSnapshot> {
    let of_mail = Counters { cpu_hogs: 2, concurrency_wakeups: 5, ..counted(18_545, 18_544, 6_100_000) };
    let mail = vec![shard(0, 0, (3, 4), of_mail)];
    let of_index = Counters { stolen: 7, concurrency_wakeups: 9, ..counted(38_306, 38_305, 149_999) };
    let index = vec![
        shard(0, 3, (1, 0), of_index),
        shard(1, 3, (0, 0), Counters::default()),
        shard(2, 4, (0, 0), Counters::default()),
    ];
    let of_log = Counters { brought_back: 1, rescuer_calls: 2, rescued: 3, ..counted(10, 9, 0) };
    let of_whole = ShardSnapshot { active: None, inactive: None, ..shard(3, 4, (0, 0), of_log) };
    let mut log = queue(3, "a_log_with_a_name_that_is_too_long", QueueKind::Ordered, vec![of_whole]);
    (log.active, log.inactive, log.len) = (1, 1, 2);
    (log.max_active, log.limited_as_a_whole, log.default_pool) = (Some(1), true, Some(4));
    log.rescuer = Some(RescuerSnapshot {
        thread: "cmwq/R-a_log_with_a_name_that_is_too_long".into(),
        thread_id: Some(4709),
        cpus: cpus("2-3"),
    });
    let mut index = queue(2, "index", QueueKind::Managed, index);
    index.attrs.as_mut().unwrap().strict = true;
    index.share =
        Some(ShareSnapshot { weight: 400, waiting: 1, turns: 1205, cpu_time: Duration::from_millis(2750) });
    let mut acks = queue(5, "acks", QueueKind::Bh, vec![shard(0, 2, (0, 0), counted(4, 4, 40))]);
    acks.max_active = None;
    let mut quiet = queue(7, "quiet", QueueKind::Unbound, Vec::new());
    (quiet.frozen, quiet.freezable, quiet.draining) = (true, true, true);
    let mut mail = queue(1, "mail", QueueKind::PerCpu, mail);
    mail.latency = Some(latency());
    vec![mail, index, log, acks, quiet]
}

fn latency() -> Latency {
    let histogram = |counts: [u64; 3], total, max| Histogram::new(counts.into_iter(), total, max);
    Latency { queue_to_start: histogram([1, 2, 0], 2, 1), run: histogram([0, 0, 3], 6, 2) }
}

pub(super) fn monitored() -> MonitorReport {
    let row = |queue: QueueSnapshot| MonitorRow {
        number: queue.number,
        name: queue.name,
        kind: queue.kind,
        rescuer: queue.rescuer.is_some(),
        counters: queue.counters,
    };
    MonitorReport {
        format: Snapshot::FORMAT,
        pid: 4700,
        time: Duration::new(1_800_000_000, 5),
        queues: queues().into_iter().map(row).collect(),
    }
}
