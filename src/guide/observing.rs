//! Observing in production.
//!
//! | to answer | use | cost |
//! |---|---|---|
//! | how much runs, waits and fails | [`counters`](crate::WorkQueue::counters), always on; the feature `metrics` passes them to Prometheus and others | a few plain stores for each item |
//! | how long items wait and run | [`histograms`](crate::WorkQueueBuilder::histograms), off by default | short items are sampled |
//! | what runs now | [`Executor::dump`](crate::Executor::dump) | a few microseconds for each queue, at each call; no thread stops |
//! | which queue uses the CPU | [`Executor::monitor`](crate::Executor::monitor), or `cmwqctl top`: the CPU time of each queue, at each interval | the same as for the counters |
//! | which item keeps a CPU | [`Snapshot::busy`](crate::observe::Snapshot::busy): running items with their age and state; for per-CPU queues also [`Executor::hogs`](crate::Executor::hogs) | the same as for a dump |
//! | which items block without a guard | [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) | no further cost |
//! | what happened to one item | the feature `tracing`: events, and a span around each run | none without the feature; with the feature but without a subscriber, a few comparisons for each item |
//! | the same from outside, and to change a queue | the feature `control`, and `cmwqctl` | one thread, which sleeps while no client is active |
//!
//! `WorkQueue::new` makes queues of the executor `Executor::global()`.
//!
//! # Numbers for alerts
//!
//! An operator can set alerts on these gauges and counters of the module `metrics`:
//!
//! | metric | an alert if | because |
//! |---|---|---|
//! | `cmwq_pool_stalled_seconds` | above 0 | the watchdog has found a pool that starts nothing |
//! | `cmwq_thread_limit_reached` | becomes 1, and stays 1 | work has waited for a thread, because the executor had `max_threads` threads; `cmwq_threads` and `cmwq_threads_max` show the present state |
//! | `cmwq_queue_items` | grows without end | items come faster than they run; set `max_pending` |
//! | `cmwq_item_wait_seconds` | its p99 exceeds what clients accept | the queue needs less load, or a higher priority |
//! | `cmwq_items_refused_total` | grows | a queue has reached `max_pending`, and issuers get `Full` |
//! | `cmwq_items_expired_total` | grows | items did not begin before their deadlines |
//! | `cmwq_items_panicked_total` | grows | an item has panicked |
//! | `cmwq_undeclared_blocks_total` | grows fast | items block without a guard |
//! | `cmwq_rescuer_calls_total` | grows | a pool can get no thread, and calls rescuers |
//!
//! ```
//! # #[cfg(feature = "metrics")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::metrics::Collector;
//! use cmwq::{Executor, WorkQueue};
//! use metrics_exporter_prometheus::PrometheusBuilder;
//!
//! let exporter = PrometheusBuilder::new().install_recorder()?;
//! let executor = Executor::builder().thread_name_prefix("app").histograms(true).build()?;
//! let mut collector = Collector::new(&executor);
//! let mail = WorkQueue::builder("mail").build_on(&executor)?;
//! mail.spawn(|| ())?.join()?;
//! mail.flush()?;
//!
//! // At each request for the metrics:
//! collector.collect();
//! let text = exporter.render();
//! assert!(text.contains("cmwq_items_completed_total{executor=\"app\",queue=\"mail\"} 1"));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "metrics"))]
//! # fn main() {}
//! ```
//!
//! # Latencies without metrics
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = cmwq::WorkQueue::builder("thumbnails").histograms(true).build()?;
//! queue.for_each(0..100, |n| println!("thumbnail {n}"))?;
//! let latency = queue.latency().expect("histograms are on");
//! println!("99 of 100 items began within {:?}", latency.queue_to_start.quantile(0.99));
//! queue.set_histograms(false); // At any time, also while items run.
//! # Ok(())
//! # }
//! ```
//!
//! # Changes from outside
//!
//! With the feature `control`, one call opens a Unix socket for an executor. Only the process's user and root can use
//! the socket. A client can read everything, and change the queues that were built with
//! [`control(true)`](crate::WorkQueueBuilder::control):
//!
//! ```
//! # #[cfg(all(unix, feature = "control"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::control::Server;
//! use cmwq::{Executor, WorkQueue};
//! # let folder = std::env::temp_dir().join(format!("cmwq-doc-guide-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("control");
//!
//! let executor = Executor::builder().build()?;
//! let mail = WorkQueue::builder("mail").control(true).build_on(&executor)?;
//! let server = Server::start_at(&executor, &path)?; // `Server::start(&executor)` chooses the path.
//! println!("try: cmwqctl -s {} top", server.path().display());
//! # drop((mail, server));
//! # std::fs::remove_dir(&folder)?;
//! # Ok(())
//! # }
//! # #[cfg(not(all(unix, feature = "control")))]
//! # fn main() {}
//! ```
//!
//! ```text
//! cmwqctl top                       # live: queues, pools, histograms
//! cmwqctl set mail max_active 8     # until the program ends
//! cmwqctl watchdog                  # status 1 if a pool is stalled: a health check
//! ```
//!
//! # Logs
//!
//! The crate logs a few kinds of events through `log`: a denied nice level or affinity, a refused thread, work that
//! waits at `max_threads`, a change of the CPUs or of the quota, item types that keep the CPU, item types that block
//! without a guard, and stalls. Item types that block without a guard are logged at level `debug`. The log names an
//! item type at its 4th, 5th, 7th and 11th offence, and then ever more rarely. The lists
//! [`hogs`](crate::Executor::hogs) and [`undeclared_blockers`](crate::Executor::undeclared_blockers) contain an item
//! type from its first offence on.
//!
//! Panics of items go to the [`panic_handler`](crate::ExecutorBuilder::panic_handler), which gets a
//! [`PanicReport`](crate::PanicReport) with the queue, the type of the item and the payload:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let executor = cmwq::Executor::builder()
//!     .panic_handler(|report| eprintln!("{} panicked in {}", report.item_type, report.queue))
//!     .build_global()?;
//! # drop(executor);
//! # Ok(())
//! # }
//! ```
