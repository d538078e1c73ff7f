//! The rows of the tables, which are computed from two samples.

use std::time::{Duration, Instant};

use cmwq::observe::{PoolSnapshot, QueueSnapshot, Snapshot};

use super::columns::{Column, Key};
use super::format;

/// A snapshot, and the time at which it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) snapshot: Snapshot,
}

impl Sample {
    pub(crate) fn queue(&self, number: u64) -> Option<&QueueSnapshot> {
        // A snapshot lists the queues in the order of their numbers.
        let queues = &self.snapshot.queues;
        let place = queues.binary_search_by_key(&number, |queue| queue.number).ok()?;
        Some(&queues[place])
    }
}

/// The row of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueRow {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The number of items that ended per second. `None` if there is no earlier sample.
    pub(crate) rate: Option<f64>,
    /// The CPU time, as a percentage of one CPU.
    pub(crate) cpu: Option<f64>,
    pub(crate) in_flight: u64,
    pub(crate) pending: u64,
    pub(crate) inactive: u64,
    pub(crate) hogs: u64,
    pub(crate) undeclared: u64,
    pub(crate) max_active: Option<usize>,
    pub(crate) scope: String,
    pub(crate) control: bool,
}

impl QueueRow {
    fn new(queue: &QueueSnapshot, before: Option<&QueueSnapshot>, elapsed: Duration) -> Self {
        let counters = &queue.counters;
        let seconds = elapsed.as_secs_f64();
        let before = before.filter(|_| seconds > 0.0).map(|queue| &queue.counters);
        let in_flight = counters.in_flight();
        Self {
            number: queue.number,
            name: queue.name.clone(),
            kind: kind_of(queue),
            rate: before.map(|before| counters.completed.saturating_sub(before.completed) as f64 / seconds),
            cpu: before.map(|before| {
                100.0 * counters.cpu_time.saturating_sub(before.cpu_time).as_secs_f64() / seconds
            }),
            in_flight,
            pending: (queue.active as u64).saturating_sub(in_flight),
            inactive: queue.inactive as u64,
            hogs: counters.cpu_hogs,
            undeclared: counters.undeclared_blocks,
            max_active: queue.max_active,
            scope: queue.attrs.as_ref().map_or("-".into(), |attrs| {
                let strict = if attrs.strict { "!" } else { "" };
                format!("{}{strict}", attrs.scope)
            }),
            control: queue.control,
        }
    }
}

/// Returns the queue's kind, with a `+` for high priority.
pub(crate) fn kind_of(queue: &QueueSnapshot) -> String {
    format!("{}{}", queue.kind, if queue.high_priority { "+" } else { "" })
}

/// Returns the rows of all queues, in the order of the snapshot.
pub(crate) fn queues(now: &Sample, before: Option<&Sample>) -> Vec<QueueRow> {
    let elapsed = before.map_or(Duration::ZERO, |before| now.at.saturating_duration_since(before.at));
    let queues = now.snapshot.queues.iter();
    queues
        .map(|queue| QueueRow::new(queue, before.and_then(|before| before.queue(queue.number)), elapsed))
        .collect()
}

/// The row of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolRow {
    pub(crate) name: String,
    pub(crate) cpus: String,
    pub(crate) nice: i32,
    pub(crate) running: usize,
    pub(crate) target: Option<usize>,
    pub(crate) idle: usize,
    pub(crate) workers: usize,
    pub(crate) pending: usize,
    pub(crate) users: usize,
    pub(crate) stalled: Option<Duration>,
}

impl PoolRow {
    fn new(pool: &PoolSnapshot) -> Self {
        Self {
            name: pool.name.clone(),
            cpus: pool.cpus.to_string(),
            nice: pool.nice,
            running: pool.running,
            target: pool.target,
            idle: pool.idle,
            workers: pool.workers,
            pending: pool.pending,
            users: pool.users,
            stalled: pool.stalled_for,
        }
    }
}

/// Returns the rows of all pools, in the order of the snapshot.
pub(crate) fn pools(now: &Sample) -> Vec<PoolRow> {
    now.snapshot.pools.iter().map(PoolRow::new).collect()
}

/// The row of an item type that has delayed other items.
#[derive(Clone, Debug)]
pub(crate) struct OffenderRow {
    pub(crate) item_type: String,
    pub(crate) offence: &'static str,
    pub(crate) count: u64,
    /// The increase of the count since the previous sample.
    pub(crate) more: u64,
}

/// Returns the hogs, followed by the types that block without a guard.
pub(crate) fn offenders(now: &Sample, before: Option<&Sample>) -> Vec<OffenderRow> {
    let lists = |sample: &Sample| [sample.snapshot.hogs.clone(), sample.snapshot.undeclared_blockers.clone()];
    let old = before.map(lists).unwrap_or_default();
    let offences = ["CPU hog", "undeclared"];
    let mut rows = Vec::new();
    for ((list, old), offence) in lists(now).into_iter().zip(old).zip(offences) {
        rows.extend(list.into_iter().map(|offender| {
            let was = old.iter().find(|old| old.item_type == offender.item_type);
            // A type that is new in this sample had a count of 0 before. If there is no earlier sample, the increase is
            // unknown and appears as 0.
            let was = was.map_or(if before.is_some() { 0 } else { offender.count }, |was| was.count);
            let more = offender.count.saturating_sub(was);
            OffenderRow { item_type: offender.item_type.to_string(), offence, count: offender.count, more }
        }));
    }
    rows
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or("-".into(), format::rate)
}

fn number(value: u64) -> Key {
    Key::Number(value as f64)
}

macro_rules! column {
    ($title:literal, $width:literal, $rank:literal, $cell:expr, text $key:expr) => {
        Column { numeric: false, ..column!($title, $width, $rank, $cell, $key) }
    };
    ($title:literal, $width:literal, $rank:literal, $cell:expr, $key:expr) => {
        Column {
            title: $title,
            width: $width,
            rank: $rank,
            cell: $cell,
            mark: |_| "",
            key: $key,
            numeric: true,
        }
    };
}

/// Columns of the queues. In the first column, a `*` marks each queue that can be changed.
pub(crate) const QUEUES: &[Column<QueueRow>] = &[
    Column {
        mark: |row| if row.control { " *" } else { "" },
        ..column!("QUEUE", 16, 0, |row| row.name.clone(), text | row | Key::Text(row.name.clone()))
    },
    column!("KIND", 9, 9, |row| row.kind.clone(), text | row | Key::Text(row.kind.clone())),
    column!("RATE/s", 6, 0, |row| rate(row.rate), |row| Key::Number(row.rate.unwrap_or(0.0))),
    column!("INFL", 5, 0, |row| format::count(row.in_flight), |row| number(row.in_flight)),
    column!("PEND", 6, 0, |row| format::count(row.pending), |row| number(row.pending)),
    column!("INACT", 6, 2, |row| format::count(row.inactive), |row| number(row.inactive)),
    column!("CPU%", 5, 0, |row| rate(row.cpu), |row| Key::Number(row.cpu.unwrap_or(0.0))),
    column!("HOGS", 5, 3, |row| format::count(row.hogs), |row| number(row.hogs)),
    column!("UNDECL", 6, 4, |row| format::count(row.undeclared), |row| number(row.undeclared)),
    column!("MAX", 5, 1, |row| limit(row.max_active), |row| Key::Number(
        row.max_active.map_or(f64::INFINITY, |limit| limit as f64)
    )),
    column!("SCOPE", 7, 5, |row| row.scope.clone(), text | row | Key::Text(row.scope.clone())),
];

fn limit(limit: Option<usize>) -> String {
    limit.map_or("-".into(), |limit| format::count(limit as u64))
}

/// Columns of the pools. Behind the columns, a bar shows the number of pending entries.
pub(crate) const POOLS: &[Column<PoolRow>] = &[
    column!("POOL", 6, 0, |row| row.name.clone(), text | row | Key::Text(row.name.clone())),
    column!("CPUS", 9, 0, |row| format::fit(&row.cpus, 9), text | row | Key::Text(row.cpus.clone())),
    column!("NICE", 4, 4, |row| row.nice.to_string(), |row| Key::Number(row.nice.into())),
    column!("RUN/TGT", 7, 0, |row| run_of(row), |row| number(row.running as u64)),
    column!("IDLE/ALL", 8, 0, |row| format!("{}/{}", row.idle, row.workers), |row| number(
        row.workers as u64
    )),
    column!("USERS", 5, 3, |row| row.users.to_string(), |row| number(row.users as u64)),
    column!("STALLED", 8, 2, |row| stalled(row), |row| Key::Number(
        row.stalled.map_or(0.0, |stalled| stalled.as_secs_f64())
    )),
    column!("PEND", 6, 0, |row| format::count(row.pending as u64), |row| number(row.pending as u64)),
];

fn run_of(row: &PoolRow) -> String {
    let target = row.target.map_or("-".into(), |target| target.to_string());
    format!("{}/{target}", row.running)
}

fn stalled(row: &PoolRow) -> String {
    row.stalled.map_or("-".into(), format::duration)
}

/// The columns for hogs and for types that block without a guard.
pub(crate) const OFFENDERS: &[Column<OffenderRow>] = &[
    column!("ITEM TYPE", 30, 0, |row| row.item_type.clone(), text | row | Key::Text(row.item_type.clone())),
    column!("WHAT", 13, 0, |row| row.offence.into(), text | row | Key::Text(row.offence.into())),
    column!("COUNT", 6, 0, |row| format::count(row.count), |row| number(row.count)),
    column!("NEW", 6, 1, |row| format::count(row.more), |row| number(row.more)),
];
