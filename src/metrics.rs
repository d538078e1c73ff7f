//! The numbers of queues and pools for [`metrics`](https://docs.rs/metrics), and so for Prometheus and others (feature
//! `metrics`).
//!
//! A [`Collector`] reads what the executor counts anyway, and tells the recorder, each time that it is asked to: before a
//! scrape, or once in a while. Queueing and running items cost nothing more for that.
//!
//! Counters, with the labels `executor` (its [prefix of thread names](crate::ExecutorBuilder::thread_name_prefix)) and
//! `queue`; numbers of queues that share a name are added up, and go on when one of them has ended:
//!
//! | name | what it counts |
//! |---|---|
//! | `cmwq_items_started_total` | runs that have begun |
//! | `cmwq_items_completed_total` | runs that have ended, by a panic too |
//! | `cmwq_items_panicked_total` | runs that have panicked |
//! | `cmwq_items_cancelled_total` | queueings that were taken back before they began |
//! | `cmwq_items_away_total`, `cmwq_items_stolen_total` | runs that have begun outside of their pod; by another pod's workers |
//! | `cmwq_items_rescued_total`, `cmwq_maydays_total` | runs on the queue's [rescuer](crate::WorkQueueBuilder::rescuer); calls for it |
//! | `cmwq_items_cpu_microseconds_total` | CPU time of all runs, and of what workers do between them, in µs |
//! | `cmwq_cpu_hogs_total` | runs that [kept the CPU](crate::ExecutorBuilder::hog_threshold) for too long |
//! | `cmwq_undeclared_blocks_total` | times that a run blocked outside of any guard |
//! | `cmwq_concurrency_wakeups_total` | workers that were woken since an item blocked |
//! | `cmwq_repatriations_total` | workers that were brought home to their pod |
//!
//! Gauges with the same labels:
//!
//! | name | what it is |
//! |---|---|
//! | `cmwq_queue_items` | items that wait or run |
//! | `cmwq_queue_active_items`, `cmwq_queue_inactive_items` | items that have a slot; that wait for one |
//! | `cmwq_queue_max_active` | the limit, per CPU or as a whole; 0 if there is none |
//!
//! Histograms with the same labels, of queues that [measure](crate::WorkQueueBuilder::histograms) these:
//!
//! | name | what it is |
//! |---|---|
//! | `cmwq_item_wait_seconds` | from queueing to the beginning of a run |
//! | `cmwq_item_run_seconds` | from there to its end |
//!
//! Their values are the middles of the classes in which durations are counted. About 10 000 of them are recorded at a time,
//! which stand for all that there were since the last time; so the counters tell how many, and the histograms how long.
//!
//! Of pools, with the labels `executor` and `pool` (as threads are named: `0`, `0H`, `bh0`, `u4`), gauges:
//!
//! | name | what it is |
//! |---|---|
//! | `cmwq_pool_workers`, `cmwq_pool_idle_workers`, `cmwq_pool_running_workers` | workers that exist; that are parked; that count as running |
//! | `cmwq_pool_pending_items` | entries on the worklist |
//! | `cmwq_pool_stalled_seconds` | for how long it has had work and started none, as the [watchdog](crate::ExecutorBuilder::watchdog_threshold) found; else 0 |
//!
//! And with the label `executor`: the gauges `cmwq_threads` (workers that exist or are being made), `cmwq_threads_max` (how many
//! there [may be](crate::ExecutorBuilder::max_threads)) and `cmwq_thread_limit_reached` (1 if work has had to wait because
//! there were as many), and the counter `cmwq_stalls_total` (pools that the watchdog has reported).
//!
//! Gauges of a queue or pool that is gone are 0; its counters stay where they are. What a queue has done between the last
//! time and its end is not told. A name that is new each time is a new series each time: recorders keep them, and so does
//! the collector.

use std::fmt;

use crate::executor::Executor;
use crate::observe::metrics::Publisher;

/// Tells the process's recorder the numbers of one executor.
///
/// It does not keep the executor: once that is gone, there is nothing more to tell. Executors whose numbers are collected
/// should differ in their [prefixes](crate::ExecutorBuilder::thread_name_prefix), and each should have one collector.
///
/// # Examples
///
/// ```
/// use cmwq::metrics::Collector;
/// use metrics_exporter_prometheus::PrometheusBuilder;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let exporter = PrometheusBuilder::new().install_recorder()?;
/// let executor = cmwq::Executor::builder().thread_name_prefix("app").build()?;
/// let mut collector = Collector::new(&executor);
/// let mail = cmwq::WorkQueue::new("mail").build_on(&executor)?;
/// mail.spawn(|| ())?.join()?;
/// mail.flush()?;
///
/// // Whenever somebody asks for the metrics:
/// collector.collect();
/// let text = exporter.render();
/// assert!(text.contains("cmwq_items_completed_total{executor=\"app\",queue=\"mail\"} 1"));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Collector(Publisher);

impl Collector {
    /// Of this executor. Nothing is told before [`collect`](Self::collect).
    pub fn new(executor: &Executor) -> Self {
        Self(Publisher::new(&executor.inner))
    }

    /// Tells the recorder how things are now, and, the first time, what the names mean. Costs as much as a
    /// [`dump`](Executor::dump); nothing is stopped. In a forked process, nothing is told.
    ///
    /// The recorder is the calling thread's, if that has one of its own, and else the process's. Install it before: the
    /// meanings, and durations, are told once, and if nobody is there, to nobody.
    ///
    /// No other thread calls the recorder. If it panics, the panic passes to the caller of this function, and the next call
    /// tells all counters and levels as if it had not.
    pub fn collect(&mut self) {
        self.0.publish();
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}
