//! Passes the counters and gauges of queues and pools to the crate [`metrics`](https://docs.rs/metrics), and through it
//! to Prometheus and other systems (feature `metrics`).
//!
//! Each call of [`Collector::collect`] reads the counts that the executor keeps anyway, and passes them to the
//! recorder. Call `collect` before each scrape, or at regular intervals. A collector adds no cost to queueing and
//! running items.
//!
//! The following counters have the labels `executor` and `queue`. The label `executor` is the executor's [prefix of
//! thread names](crate::ExecutorBuilder::thread_name_prefix). The counters of queues with the same name are added up,
//! and the sum does not shrink when one of these queues ends.
//!
//! | name | counted events |
//! |---|---|
//! | `cmwq_items_started_total` | runs that have begun |
//! | `cmwq_items_completed_total` | runs that have ended, including those that panicked |
//! | `cmwq_items_panicked_total` | runs that have panicked |
//! | `cmwq_items_cancelled_total` | submissions that were cancelled before they began |
//! | `cmwq_items_expired_total` | of the cancelled submissions, those whose deadline had passed |
//! | `cmwq_items_refused_total` | items and permits that were refused because there was no room |
//! | `cmwq_items_away_total`, `cmwq_items_stolen_total` | runs that a worker of the item's own pod has begun on a CPU of another pod; runs that a worker of another pod has begun |
//! | `cmwq_items_rescued_total`, `cmwq_rescuer_calls_total` | items that the queue's [rescuer](crate::WorkQueueBuilder::rescuer) took; calls for the rescuer |
//! | `cmwq_items_cpu_microseconds_total` | CPU time of all runs, and of the workers' own work between them, in µs |
//! | `cmwq_cpu_hogs_total` | runs that [kept the CPU](crate::ExecutorBuilder::hog_threshold) for too long |
//! | `cmwq_undeclared_blocks_total` | times that a run blocked outside of any guard |
//! | `cmwq_concurrency_wakeups_total` | workers that were woken because an item blocked |
//! | `cmwq_brought_back_total` | workers that were moved back to their pod |
//!
//! The following gauges of queues also have the labels `executor` and `queue`:
//!
//! | name | meaning |
//! |---|---|
//! | `cmwq_queue_items` | items that wait or run |
//! | `cmwq_queue_active_items`, `cmwq_queue_inactive_items` | items that have a slot; items that wait for a slot |
//! | `cmwq_queue_max_active` | the limit of active items, for each CPU or for the whole queue; 0 if there is no limit |
//! | `cmwq_queue_max_pending` | the [limit of pending items](crate::WorkQueueBuilder::max_pending); 0 if there is no limit |
//! | `cmwq_queue_turn_waiting_items` | active items that wait for a turn of their queue, because queues with [weights](crate::WorkQueueBuilder::weight) compete |
//!
//! The following histograms also have the labels `executor` and `queue`. Only queues that [measure
//! durations](crate::WorkQueueBuilder::histograms) have these histograms:
//!
//! | name | meaning |
//! |---|---|
//! | `cmwq_item_wait_seconds` | the time from queueing to the beginning of a run |
//! | `cmwq_item_run_seconds` | the time from the beginning of a run to its end |
//!
//! Each duration is recorded as the middle of its bucket. If a histogram has more than 10 000 new durations since the
//! last call of `collect`, the recorder receives only a sample of about 10 000 of them. So use the counters for numbers
//! of items, and the histograms for durations.
//!
//! The gauges of pools have the labels `executor` and `pool` (the pool's name, as in the names of its threads: `0`,
//! `0H`, `bh0`, `u4`):
//!
//! | name | meaning |
//! |---|---|
//! | `cmwq_pool_workers`, `cmwq_pool_idle_workers`, `cmwq_pool_running_workers` | workers that exist; workers that are parked; workers that count as running |
//! | `cmwq_pool_pending_items` | entries on the worklist |
//! | `cmwq_pool_stalled_seconds` | during a stall that the [watchdog](crate::ExecutorBuilder::watchdog_threshold) has reported, the time for which the pool has had work but has started no item; otherwise 0 |
//!
//! The following metrics have only the label `executor`. The gauge `cmwq_threads` is the number of workers that exist
//! or are being made, and the gauge `cmwq_threads_max` is the [maximum](crate::ExecutorBuilder::max_threads) of this
//! number. The gauge `cmwq_thread_limit_reached` is 1 if work has had to wait because the maximum was reached. The
//! counter `cmwq_stalls_total` counts the stalls of pools that the watchdog has reported.
//!
//! An executor that limits the backlog of all its queues also has the following gauges, with the label `executor`:
//!
//! | name | meaning |
//! |---|---|
//! | `cmwq_pending_items`, `cmwq_pending_items_max` | pending items and permits; the [limit](crate::ExecutorBuilder::max_pending) |
//! | `cmwq_pending_bytes`, `cmwq_pending_bytes_max` | bytes of pending items; the [limit](crate::ExecutorBuilder::max_pending_bytes) |
//!
//! When a queue or pool has ended, its gauges are 0, and its counters keep their values. The counters miss the events
//! that happen in a queue between the last call of `collect` and the queue's end. Each new queue name makes a new
//! series, which the recorder and the collector keep.

use std::fmt;

use crate::executor::Executor;
use crate::observe::metrics::Publisher;

/// Passes the metrics of one executor to the process's recorder.
///
/// A collector does not keep the executor alive. After the executor's end, the collector only sets the gauges of
/// threads, queues and pools to 0. Give each executor that has a collector its own
/// [prefix](crate::ExecutorBuilder::thread_name_prefix), and make only one collector for each executor.
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
/// let mail = cmwq::WorkQueue::builder("mail").build_on(&executor)?;
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
    /// Makes a collector for this executor. The collector reports nothing before the first call of
    /// [`collect`](Self::collect).
    pub fn new(executor: &Executor) -> Self {
        Self(Publisher::new(&executor.inner))
    }

    /// Passes the present counters and gauges to the recorder. The first call also passes the descriptions of the
    /// metrics. A call costs as much as a [`dump`](Executor::dump) and stops no thread. In a forked process, a call
    /// passes no values.
    ///
    /// If the calling thread has a recorder, the call uses that recorder, and otherwise the recorder of the process.
    /// Install the recorder before the first call of `collect`. Descriptions and durations are passed only once, and
    /// are lost if there is no recorder at that time.
    ///
    /// Only the thread that calls `collect` calls the recorder. If the recorder panics, the panic passes to the caller
    /// of `collect`. The next call of `collect` passes all counters and gauges as if the recorder had not panicked.
    pub fn collect(&mut self) {
        self.0.publish();
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}
