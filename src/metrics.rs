//! The counters and gauges of queues and pools for [`metrics`](https://docs.rs/metrics), and so for Prometheus and
//! others (feature `metrics`).
//!
//! A [`Collector`] reads what the executor counts anyway, and passes it to the recorder at each call: before a scrape,
//! or at intervals. Queueing and running items cost nothing more for that.
//!
//! Counters, with the labels `executor` (its [prefix of thread names](crate::ExecutorBuilder::thread_name_prefix)) and
//! `queue`. The counters of queues with the same name are added up, and do not shrink when one of them ends:
//!
//! | name | what it counts |
//! |---|---|
//! | `cmwq_items_started_total` | runs that have begun |
//! | `cmwq_items_completed_total` | runs that have ended, also by a panic |
//! | `cmwq_items_panicked_total` | runs that have panicked |
//! | `cmwq_items_cancelled_total` | submissions that were cancelled before they began |
//! | `cmwq_items_away_total`, `cmwq_items_stolen_total` | runs that have begun outside of their pod; by another pod's workers |
//! | `cmwq_items_rescued_total`, `cmwq_maydays_total` | runs on the queue's [rescuer](crate::WorkQueueBuilder::rescuer); calls for it |
//! | `cmwq_items_cpu_microseconds_total` | CPU time of all runs, and of what workers do between them, in µs |
//! | `cmwq_cpu_hogs_total` | runs that [kept the CPU](crate::ExecutorBuilder::hog_threshold) for too long |
//! | `cmwq_undeclared_blocks_total` | times that a run blocked outside of any guard |
//! | `cmwq_concurrency_wakeups_total` | workers that were woken because an item blocked |
//! | `cmwq_repatriations_total` | workers that were moved back to their pod |
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
//! | `cmwq_item_run_seconds` | from the beginning of a run to its end |
//!
//! The values are the middles of the buckets in which durations are counted. About 10 000 of them are recorded at a
//! time, as a sample of all durations since the last call. So use the counters for numbers of items, and the histograms
//! for durations.
//!
//! Gauges of pools, with the labels `executor` and `pool` (the pool's part of thread names: `0`, `0H`, `bh0`, `u4`):
//!
//! | name | what it is |
//! |---|---|
//! | `cmwq_pool_workers`, `cmwq_pool_idle_workers`, `cmwq_pool_running_workers` | workers that exist; that are parked; that count as running |
//! | `cmwq_pool_pending_items` | entries on the worklist |
//! | `cmwq_pool_stalled_seconds` | for how long the pool has had work and started none, as the [watchdog](crate::ExecutorBuilder::watchdog_threshold) found; else 0 |
//!
//! Metrics with the label `executor` only: the gauges `cmwq_threads` (workers that exist or are being made),
//! `cmwq_threads_max` (the [maximum](crate::ExecutorBuilder::max_threads)) and `cmwq_thread_limit_reached` (1 if work
//! has had to wait because the maximum was reached), and the counter `cmwq_stalls_total` (stalls of pools that the
//! watchdog has reported).
//!
//! The gauges of a queue or pool that is gone are 0; its counters keep their values. Counts of a queue between the last
//! call and its end are lost. Each new name of a queue is a new series, which the recorder keeps, and so does the
//! collector.

use std::fmt;

use crate::executor::Executor;
use crate::observe::metrics::Publisher;

/// Passes the metrics of one executor to the process's recorder.
///
/// It does not keep the executor alive; after the executor's end it reports nothing more. Executors with collectors
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
/// // At each request for the metrics:
/// collector.collect();
/// let text = exporter.render();
/// assert!(text.contains("cmwq_items_completed_total{executor=\"app\",queue=\"mail\"} 1"));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Collector(Publisher);

impl Collector {
    /// Makes a collector for this executor. It reports nothing before [`collect`](Self::collect).
    pub fn new(executor: &Executor) -> Self {
        Self(Publisher::new(&executor.inner))
    }

    /// Passes the present counters and gauges to the recorder, and at the first call also the descriptions of the
    /// metrics. Costs as much as a [`dump`](Executor::dump); no thread is stopped. In a forked process, it reports
    /// nothing.
    ///
    /// The recorder is that of the calling thread, if it has one of its own, and otherwise that of the process. Install
    /// it before the first call: descriptions and durations are passed once, and are lost if there is no recorder.
    ///
    /// No other thread calls the recorder. If the recorder panics, the panic passes to the caller of this function, and
    /// the next call passes all counters and gauges as if it had not.
    pub fn collect(&mut self) {
        self.0.publish();
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}
