//! Debugging: which queue is too busy, what a worker is doing, and where in the code it is.
//!
//! The workers of all queues look alike to the system: `cmwq/0:1` is a worker of CPU 0, and `cmwq/u8:2` a worker of the
//! pool `u8`. `cmwq/R-mail` is the rescuer of the queue `mail`, and `cmwq/manager` the manager. While a worker runs an
//! item of a queue with [`name_threads`](crate::WorkQueueBuilder::name_threads), it has the name of this queue. If
//! workers use too much CPU or seem to hang, answer the questions below.
//!
//! # Which queue is too busy, and which code fills it?
//!
//! Compare the counters of the queues over time. [`Executor::monitor`](crate::Executor::monitor) has a row for each
//! queue: the runs that have begun, the runs that have not ended, and the CPU time. `cmwqctl monitor -i 1` prints the
//! same rows for a running process with a [control server](crate::guide::observing), and `cmwqctl top` shows the rates
//! of these numbers.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let executor = cmwq::Executor::builder().build()?;
//! let mail = cmwq::WorkQueue::builder("mail").build_on(&executor)?;
//! mail.for_each(0..10, |_| ())?;
//! mail.flush()?;
//! let report = executor.monitor().sample();
//! assert_eq!(report.queues[0].counters.started, 10);
//! print!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! The counters name queues, not the code that queues items. To find the code that queues items, subscribe to the event
//! `queue_work` with the feature `tracing`. The issuer's thread calls the subscriber. The subscriber sees the type of
//! the item's function and the spans of the issuer. In the kernel, the tracepoint `workqueue_queue_work` serves this
//! purpose.
//!
//! # What is a worker doing?
//!
//! [`Snapshot::busy`](crate::observe::Snapshot::busy) lists the items that run, with their queue, type, age and
//! description, and with the name and number of the worker's thread. `cmwqctl dump --busy` prints the same list from
//! outside the process. A description distinguishes items of the same type. To set an item's description, give the item
//! a [name](crate::Submission::named), or call [`set_description`](crate::set_description) in the item.
//!
//! To show the items of queues that `WorkQueue::new` made, use `println!("{}", Executor::global().dump().busy())`. An
//! executor that the program has built has the same functions:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::mpsc;
//!
//! let executor = cmwq::Executor::builder().build()?;
//! let queue = cmwq::WorkQueue::builder("thumbnails").build_on(&executor)?;
//! let ((begin, begun), (go, door)) = (mpsc::channel(), mpsc::channel::<()>());
//! let slow = move || {
//!     begin.send(()).unwrap();
//!     cmwq::blocking(|| door.recv())
//! };
//! let slow = queue.item(slow).named("resizing cat.jpg").spawn()?;
//! begun.recv()?;
//!
//! let snapshot = executor.dump();
//! let report = snapshot.busy();
//! for running in report.queues.iter().flat_map(|queue| &queue.in_flight) {
//!     println!("{} {:?}: {}", running.worker.thread, running.worker.thread_id, running.item.item_type);
//! }
//! assert!(report.to_string().contains("resizing cat.jpg"));
//! # go.send(())?;
//! # slow.join()??;
//! # Ok(())
//! # }
//! ```
//!
//! The state of a worker says whether its item computes (`running`), waits under a guard (`blocked`), was found asleep
//! without a guard (`asleep`), or was found to keep the CPU of a per-CPU queue (`hog`): see
//! [`WorkerState`](crate::observe::WorkerState).
//!
//! # Which items sometimes compute for too long?
//!
//! For per-CPU queues, [`Executor::hogs`](crate::Executor::hogs) lists the types of the items that computed for too
//! long. For all other queues, the executor keeps no such list. With
//! [histograms](crate::WorkQueueBuilder::histograms), the [run times](crate::WorkQueue::latency) of a queue show
//! whether the queue has long runs: `latency.run.max()` is the longest run. With the feature `tracing`, a subscriber
//! sees the type and the duration of each run, in the span `execute`. The busy report has the age of each item that
//! runs at present.
//!
//! # Where is it in the code?
//!
//! The snapshot gives the process id ([`Snapshot::pid`](crate::observe::Snapshot::pid)) and the number of the thread
//! ([`thread_id`](crate::observe::WorkerSnapshot::thread_id)). With these numbers, the tools of the system show where
//! the thread is:
//!
//! ```text
//! gdb -p PID -batch -ex 'thread apply all backtrace'   # all threads, by name; build with debug = "line-tables-only"
//! eu-stack -p PID                                      # the same, shorter, from elfutils
//! perf top -t TID                                      # where a thread that computes spends its time
//! cat /proc/PID/task/TID/wchan                         # the function of the kernel in which a thread sleeps
//! sudo cat /proc/PID/task/TID/stack                    # the kernel's stack of that thread; only for root
//! ```
//!
//! # Why does nothing start?
//!
//! If a pool has work and starts none of it for 30 s, the [watchdog](crate::ExecutorBuilder::watchdog_threshold) logs a
//! [report](crate::StallReport) or calls the [`stall_handler`](crate::ExecutorBuilder::stall_handler). For each worker,
//! the report names the item, its queue, the time for which the item has run, the state of the thread, and the function
//! of the kernel in which the thread waits. `cmwqctl watchdog` ends with status 1 while a pool is stalled. The usual
//! causes:
//!
//! | the report or the dump says | cause | cure |
//! |---|---|---|
//! | many workers asleep without a guard | calls that sleep | [guards](crate::guide::blocking) |
//! | the executor has as many threads as `max_threads` permits | items that block for long, or wait for each other | [limits](crate::guide::limits) |
//! | the pool waits for a worker that does not exist yet | the system refuses threads | [limits of tasks](crate::guide::containers) |
//! | the queue is frozen or draining | a `freeze_begin` without `thaw`; a `drain` that lasts because items of the queue submit further items | find that call |
//! | items of an ordered queue wait | the item that runs waits for something | find out what its worker is doing |
//! | the CPU quota is used up | the container | [quotas](crate::guide::containers) |
