//! Passes the counters and gauges of an executor's queues and pools to the crate `metrics`.
//!
//! This module counts nothing itself. Each call of `publish` reads the counts that the executor keeps anyway. The
//! recorder has one series for each counter and each queue name, and a series must not shrink. But several queues can
//! share a name, and any of these queues can end. So for each name, the module adds up the increments of all queues
//! with this name since the last call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::metrics::{Label, Unit, counter, gauge, histogram};

use crate::engine::executor::inner::ExecutorInner;
use crate::policy::counters::Counters;
use crate::policy::histogram::{Histogram, Latency};

use super::snapshot::{PoolSnapshot, QueueSnapshot, Snapshot};

/// A call of `publish` records at most about this many values for one histogram, because a recorder keeps each value
/// for a while.
const MOST_VALUES: u64 = 10_000;

/// A metric, and the function that reads its value `V` from a `T`.
struct Metric<T, V> {
    name: &'static str,
    unit: Unit,
    what: &'static str,
    read: fn(&T) -> V,
}

const COUNTERS: [Metric<Counters, u64>; 15] = [
    count("cmwq_items_started_total", "Runs that have begun", |counters| counters.started),
    count("cmwq_items_completed_total", "Runs that have ended, including those that panicked", |counters| {
        counters.completed
    }),
    count("cmwq_items_panicked_total", "Runs that have panicked", |counters| counters.panicked),
    count("cmwq_items_cancelled_total", "Submissions that were cancelled before they began", |counters| {
        counters.cancelled
    }),
    count("cmwq_items_expired_total", "Of these, submissions whose deadline had passed", |counters| {
        counters.expired
    }),
    count(
        "cmwq_items_refused_total",
        "Items and permits that were refused because there was no room",
        |counters| counters.refused,
    ),
    count(
        "cmwq_items_away_total",
        "Runs that workers of the item's own pod have begun on a CPU of another pod",
        |counters| counters.away,
    ),
    count("cmwq_items_stolen_total", "Runs that another pod's workers have begun", |counters| {
        counters.stolen
    }),
    count("cmwq_items_rescued_total", "Items that the queue's rescuer took", |counters| counters.rescued),
    Metric {
        unit: Unit::Microseconds,
        ..count(
            "cmwq_items_cpu_microseconds_total",
            "CPU time of all runs, and of the workers' own work between them",
            |counters| counters.cpu_time.as_micros() as u64,
        )
    },
    count("cmwq_cpu_hogs_total", "Runs that kept the CPU for too long", |counters| counters.cpu_hogs),
    count("cmwq_undeclared_blocks_total", "Times that a run blocked outside of any guard", |counters| {
        counters.undeclared_blocks
    }),
    count("cmwq_concurrency_wakeups_total", "Workers that were woken because an item blocked", |counters| {
        counters.concurrency_wakeups
    }),
    count("cmwq_brought_back_total", "Workers that were moved back to their pod", |counters| {
        counters.brought_back
    }),
    count("cmwq_rescuer_calls_total", "Calls for the queue's rescuer", |counters| counters.rescuer_calls),
];

const QUEUE_GAUGES: [Metric<QueueSnapshot, f64>; 6] = [
    level("cmwq_queue_items", "Items that wait or run", |queue| queue.len as f64),
    level("cmwq_queue_active_items", "Items that have a slot: they run, or are about to", |queue| {
        queue.active as f64
    }),
    level("cmwq_queue_inactive_items", "Items that wait for a slot", |queue| queue.inactive as f64),
    level(
        "cmwq_queue_max_active",
        "The limit of active items, per CPU or as a whole; 0 if there is no limit",
        |queue| queue.max_active.unwrap_or(0) as f64,
    ),
    level("cmwq_queue_max_pending", "The limit of pending items; 0 if there is no limit", |queue| {
        queue.max_pending.unwrap_or(0) as f64
    }),
    level("cmwq_queue_turn_waiting_items", "Active items that wait for a turn of their queue", |queue| {
        queue.share.map_or(0, |share| share.waiting) as f64
    }),
];

const POOL_GAUGES: [Metric<PoolSnapshot, f64>; 5] = [
    level("cmwq_pool_workers", "Workers that exist", |pool| pool.workers as f64),
    level("cmwq_pool_idle_workers", "Workers that are parked", |pool| pool.idle as f64),
    level("cmwq_pool_running_workers", "Workers that count as running", |pool| pool.running as f64),
    level("cmwq_pool_pending_items", "Entries on the worklist", |pool| pool.pending as f64),
    Metric {
        unit: Unit::Seconds,
        ..level(
            "cmwq_pool_stalled_seconds",
            "The time for which a stalled pool has had work but has started no item; otherwise 0",
            |pool| pool.stalled_for.unwrap_or_default().as_secs_f64(),
        )
    },
];

/// The gauges of the backlog of all queues. An executor counts pending items only if it limits them, and counts pending
/// bytes only if it limits these bytes.
const BACKLOG_GAUGES: [Metric<Snapshot, Option<f64>>; 4] = [
    backlog("cmwq_pending_items", "Pending items of all queues, and permits", |all| {
        all.pending.map(|items| items as f64)
    }),
    backlog("cmwq_pending_items_max", "The limit of pending items of all queues", |all| {
        all.max_pending.map(|items| items as f64)
    }),
    Metric {
        unit: Unit::Bytes,
        ..backlog("cmwq_pending_bytes", "Bytes of the pending items of all queues", |all| {
            all.pending_bytes.map(|bytes| bytes as f64)
        })
    },
    Metric {
        unit: Unit::Bytes,
        ..backlog("cmwq_pending_bytes_max", "The limit of bytes of pending items of all queues", |all| {
            all.max_pending_bytes.map(|bytes| bytes as f64)
        })
    },
];

const THREADS: &str = "cmwq_threads";
const MAX_THREADS: &str = "cmwq_threads_max";
const THREAD_LIMIT_REACHED: &str = "cmwq_thread_limit_reached";
const STALLS: &str = "cmwq_stalls_total";
const WAIT: &str = "cmwq_item_wait_seconds";
const RUN: &str = "cmwq_item_run_seconds";

const fn count<T>(name: &'static str, what: &'static str, read: fn(&T) -> u64) -> Metric<T, u64> {
    Metric { name, unit: Unit::Count, what, read }
}

const fn level<T>(name: &'static str, what: &'static str, read: fn(&T) -> f64) -> Metric<T, f64> {
    Metric { name, unit: Unit::Count, what, read }
}

const fn backlog<T>(
    name: &'static str,
    what: &'static str,
    read: fn(&T) -> Option<f64>,
) -> Metric<T, Option<f64>> {
    Metric { name, unit: Unit::Count, what, read }
}

/// Passes the metrics of one executor to the recorder. See the module.
pub(crate) struct Publisher {
    executor: Weak<ExecutorInner>,
    labels: Labels,
    described: bool,
    /// The counts of each queue at the last call of `publish`, keyed by the queue's number.
    seen: HashMap<u64, Seen>,
    /// The totals of the counters so far, keyed by queue name.
    totals: HashMap<String, [u64; COUNTERS.len()]>,
    /// The names of the queues whose gauges the last call of `publish` recorded.
    queues: BTreeSet<String>,
    /// The names of the pools whose gauges the last call of `publish` recorded.
    pools: BTreeSet<String>,
    /// The names of those gauges of the backlog that any call of `publish` has recorded.
    backlog: BTreeSet<&'static str>,
}

/// The counts of a queue at the last call of `publish`.
#[derive(Default)]
struct Seen {
    counts: [u64; COUNTERS.len()],
    wait: Buckets,
    run: Buckets,
}

/// The number of durations in each bucket, keyed by the lower bound of the bucket.
type Buckets = BTreeMap<Duration, u64>;

/// The gauges of queues, added up by queue name.
type Levels<'q> = BTreeMap<&'q str, [f64; QUEUE_GAUGES.len()]>;

/// The name of a histogram, the name of a queue, and the queue's new durations since the last call of `publish`. Each
/// duration is in seconds, and comes with the number of times that it occurred.
type Durations<'q> = (&'static str, &'q str, Vec<(f64, u64)>);

impl Publisher {
    pub(crate) fn new(executor: &Arc<ExecutorInner>) -> Self {
        Self {
            executor: Arc::downgrade(executor),
            labels: Labels { executor: executor.core.settings.name_prefix.clone() },
            described: false,
            seen: HashMap::new(),
            totals: HashMap::new(),
            queues: BTreeSet::new(),
            pools: BTreeSet::new(),
            backlog: BTreeSet::new(),
        }
    }

    /// Passes the present values to the recorder. If the executor has ended, sets the gauges of threads, queues, pools
    /// and the backlog to 0.
    pub(crate) fn publish(&mut self) {
        if !self.described {
            describe();
            self.described = true;
        }
        let executor = self.executor.upgrade();
        let (threads, queues, pools) = match &executor {
            None => {
                self.backlog.iter().for_each(|name| gauge!(*name, self.labels.of_executor()).set(0.0));
                (0, Vec::new(), Vec::new())
            }
            Some(executor) if executor.origin.is_forked() => return,
            Some(executor) => {
                let snapshot = Snapshot::take(executor);
                self.publish_limit(&snapshot);
                self.publish_backlog(&snapshot);
                counter!(STALLS, self.labels.of_executor()).absolute(snapshot.stalls);
                (snapshot.threads, snapshot.queues, snapshot.pools)
            }
        };
        gauge!(THREADS, self.labels.of_executor()).set(threads as f64);
        self.publish_queues(&queues);
        self.publish_pools(&pools);
    }

    fn publish_limit(&self, snapshot: &Snapshot) {
        let most = snapshot.max_threads.map_or(f64::INFINITY, |most| most as f64);
        gauge!(MAX_THREADS, self.labels.of_executor()).set(most);
        let reached = u8::from(snapshot.thread_limit_reached);
        gauge!(THREAD_LIMIT_REACHED, self.labels.of_executor()).set(f64::from(reached));
    }

    fn publish_backlog(&mut self, snapshot: &Snapshot) {
        for metric in &BACKLOG_GAUGES {
            if let Some(level) = (metric.read)(snapshot) {
                self.backlog.insert(metric.name);
                gauge!(metric.name, self.labels.of_executor()).set(level);
            }
        }
    }

    fn publish_queues(&mut self, queues: &[QueueSnapshot]) {
        let (levels, latencies) = self.account(queues);
        let names = levels.keys().map(|name| (*name).to_owned()).collect();
        let gone = begin(&mut self.queues, &names);
        let labels = &self.labels;
        for (name, queue, durations) in latencies {
            record(name, labels.of_queue(queue), durations);
        }
        for (name, levels) in &levels {
            for (metric, total) in COUNTERS.iter().zip(self.totals[*name]) {
                counter!(metric.name, labels.of_queue(name)).absolute(total);
            }
            for (metric, level) in QUEUE_GAUGES.iter().zip(levels) {
                gauge!(metric.name, labels.of_queue(name)).set(*level);
            }
        }
        for gone in gone {
            QUEUE_GAUGES.iter().for_each(|metric| gauge!(metric.name, labels.of_queue(&gone)).set(0.0));
        }
        self.queues = names;
    }

    /// Returns the gauges of queues by name, and the new durations of the queues. Stores the queues' present counts
    /// before the counts are recorded, because the recorder may panic.
    fn account<'q>(&mut self, queues: &'q [QueueSnapshot]) -> (Levels<'q>, Vec<Durations<'q>>) {
        let mut before = std::mem::take(&mut self.seen);
        let (mut levels, mut latencies) = (Levels::new(), Vec::new());
        for queue in queues {
            let before = before.remove(&queue.number).unwrap_or_default();
            let counts = COUNTERS.map(|metric| (metric.read)(&queue.counters));
            let totals = self.totals.entry(queue.name.clone()).or_default();
            for ((total, count), known) in totals.iter_mut().zip(counts).zip(before.counts) {
                *total += count.saturating_sub(known);
            }
            let of_name = levels.entry(&queue.name).or_default();
            for (level, metric) in of_name.iter_mut().zip(&QUEUE_GAUGES) {
                *level += (metric.read)(queue);
            }
            let seen = match &queue.latency {
                Some(Latency { queue_to_start, run, .. }) => {
                    latencies.push((WAIT, queue.name.as_str(), new_durations(queue_to_start, &before.wait)));
                    latencies.push((RUN, queue.name.as_str(), new_durations(run, &before.run)));
                    Seen { counts, wait: buckets_of(queue_to_start), run: buckets_of(run) }
                }
                // The queue's histograms are off. The queue's old durations reappear if its histograms are switched on
                // again, so the publisher keeps the durations that it knows.
                None => Seen { counts, ..before },
            };
            self.seen.insert(queue.number, seen);
        }
        (levels, latencies)
    }

    fn publish_pools(&mut self, pools: &[PoolSnapshot]) {
        let names = pools.iter().map(|pool| pool.name.clone()).collect();
        let gone = begin(&mut self.pools, &names);
        let labels = &self.labels;
        for pool in pools {
            for metric in &POOL_GAUGES {
                gauge!(metric.name, labels.of_pool(&pool.name)).set((metric.read)(pool));
            }
        }
        for gone in gone {
            POOL_GAUGES.iter().for_each(|metric| gauge!(metric.name, labels.of_pool(&gone)).set(0.0));
        }
        self.pools = names;
    }
}

/// Adds `names`, whose gauges are about to be recorded, to the known names. Returns the known names that are not among
/// `names`. The returned names stay known until all gauges are recorded, because the recorder may panic before then.
fn begin(known: &mut BTreeSet<String>, names: &BTreeSet<String>) -> Vec<String> {
    let gone = known.difference(names).cloned().collect();
    known.extend(names.iter().cloned());
    gone
}

/// Passes the descriptions of the metrics to the recorder.
fn describe() {
    for Metric { name, unit, what, .. } in COUNTERS {
        ::metrics::describe_counter!(name, unit, what);
    }
    for Metric { name, unit, what, .. } in QUEUE_GAUGES {
        ::metrics::describe_gauge!(name, unit, what);
    }
    for Metric { name, unit, what, .. } in POOL_GAUGES {
        ::metrics::describe_gauge!(name, unit, what);
    }
    for Metric { name, unit, what, .. } in BACKLOG_GAUGES {
        ::metrics::describe_gauge!(name, unit, what);
    }
    ::metrics::describe_gauge!(THREADS, Unit::Count, "Worker threads that exist or are being made");
    ::metrics::describe_gauge!(MAX_THREADS, Unit::Count, "The maximum number of worker threads");
    ::metrics::describe_gauge!(
        THREAD_LIMIT_REACHED,
        Unit::Count,
        "1 if work has had to wait because the maximum number of threads was reached"
    );
    ::metrics::describe_counter!(STALLS, Unit::Count, "Stalled pools that the watchdog has reported");
    ::metrics::describe_histogram!(WAIT, Unit::Seconds, "From queueing to the beginning of a run, sampled");
    ::metrics::describe_histogram!(RUN, Unit::Seconds, "From the beginning of a run to its end, sampled");
}

/// The labels of one executor's metrics.
struct Labels {
    executor: String,
}

impl Labels {
    fn of_executor(&self) -> Vec<Label> {
        vec![Label::new("executor", self.executor.clone())]
    }

    fn of_queue(&self, name: &str) -> Vec<Label> {
        vec![Label::new("executor", self.executor.clone()), Label::new("queue", name.to_owned())]
    }

    fn of_pool(&self, name: &str) -> Vec<Label> {
        vec![Label::new("executor", self.executor.clone()), Label::new("pool", name.to_owned())]
    }
}

fn buckets_of(histogram: &Histogram) -> Buckets {
    histogram.buckets().map(|(range, count)| (range.start, count)).collect()
}

/// Returns the durations that the histogram has counted since the last call of `publish`, in seconds, each with its
/// count. The middle of a bucket stands for all durations in the bucket.
fn new_durations(now: &Histogram, before: &Buckets) -> Vec<(f64, u64)> {
    let known = |start| before.get(&start).copied().unwrap_or(0);
    let durations = now.buckets().map(|(range, count)| {
        let middle = (range.start + range.end) / 2;
        (middle.as_secs_f64(), count.saturating_sub(known(range.start)))
    });
    durations.collect()
}

fn record(name: &'static str, labels: Vec<Label>, durations: Vec<(f64, u64)>) {
    let histogram = histogram!(name, labels);
    for (value, count) in thinned(durations, MOST_VALUES).filter(|(_, count)| *count > 0) {
        histogram.record_many(value, count);
    }
}

/// If there are more than `most` values in total, keeps about `most` of them, in the same proportions. Each different
/// value is kept at least once.
fn thinned(counts: Vec<(f64, u64)>, most: u64) -> impl Iterator<Item = (f64, usize)> {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    counts.into_iter().map(move |(value, count)| {
        let share = u128::from(count) * u128::from(most) / u128::from(all.max(1));
        let share = if all <= most { count } else { (share as u64).max(u64::from(count > 0)) };
        (value, share as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_are_thinned_in_proportion() {
        let few = vec![(0.1, 3), (0.2, 0), (0.3, 7)];
        assert_eq!(thinned(few, 10).collect::<Vec<_>>(), [(0.1, 3), (0.2, 0), (0.3, 7)]);
        let many = vec![(0.1, 3_000_000_000), (0.2, 0), (0.3, 1_000_000_000), (0.4, 1)];
        assert_eq!(thinned(many, 100).collect::<Vec<_>>(), [(0.1, 74), (0.2, 0), (0.3, 24), (0.4, 1)]);
        assert_eq!(thinned(Vec::new(), 100).count(), 0);
    }

    #[test]
    fn names_are_of_one_form_and_none_comes_twice() {
        let names =
            COUNTERS.iter().map(|metric| metric.name).chain(QUEUE_GAUGES.iter().map(|metric| metric.name));
        let mut names: Vec<_> = names
            .chain(POOL_GAUGES.iter().map(|metric| metric.name))
            .chain(BACKLOG_GAUGES.iter().map(|metric| metric.name))
            .chain([THREADS, MAX_THREADS, THREAD_LIMIT_REACHED, STALLS, WAIT, RUN])
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| name.starts_with("cmwq_")));
        assert!(COUNTERS.iter().all(|metric| metric.name.ends_with("_total")));
    }
}
