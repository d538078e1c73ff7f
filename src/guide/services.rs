//! Services on an async runtime, and work for more than one machine.
//!
//! | example | shows |
//! |---|---|
//! | `examples/service` | HTTP on plain threads: requests with deadlines, background tasks that can be stopped, periodic work, metrics, a control socket |
//! | `examples/axum` | HTTP on tokio: a queue for each kind of work, shedding, metrics, clients that go away |
//! | `examples/tonic` | gRPC on tokio: shedding, and streams that wait for room |
//! | `examples/fleet` | jobs that Redis distributes to many machines |
//!
//! The examples `axum`, `tonic` and `fleet` are separate packages, so no build of this crate compiles tokio.
//!
//! # Without async
//!
//! In `examples/service`, one thread accepts requests, and items do the rest of the work:
//!
//! * An item **owns its client**. If the item is refused, misses its deadline, or is dropped by the shutdown, the
//!   client's destructor queues the answer 503. So every client gets an answer, unless slow clients hold up the last
//!   answers of a service that ends. The queues of the answers belong to a second executor, because the first executor
//!   refuses new items during its shutdown.
//! * Each request has a **[deadline](crate::Submission::within)**. An item that no client waits for any more does not
//!   run, or stops early.
//! * A **background task** is a [`JoinHandle`](crate::JoinHandle) in a table: `GET` asks whether it
//!   [is finished](crate::JoinHandle::is_finished), and `DELETE` asks it to [stop](crate::JoinHandle::stop).
//! * **Answers that must not wait** (health, metrics) have a queue on the second executor, so no job is before them.
//!   The queue has [high priority](crate::WorkQueueBuilder::high_priority). So the system prefers the worker of this
//!   queue to the workers of the jobs, if the process may have a negative nice level.
//! * **Answers that may wait for a body** have another queue, which is [unbound](crate::WorkQueue::unbound). The HTTP
//!   library of the example has no timeouts. So a client that withholds its body occupies a place in a queue until the
//!   client goes away. A proxy with a timeout for reads belongs in front of such a service.
//! * The tokens of all jobs are children of one **[token](crate::CancelToken)**. A second signal cancels this token,
//!   and so ends the grace period.
//!
//! # On an async runtime
//!
//! The runtime's threads handle the network. Code that computes or blocks is an item. The request awaits the item's
//! [`JoinHandle`](crate::JoinHandle), a future that works with any runtime. The runtime's threads never compute, so a
//! health check answers even while all workers compute.
//!
//! ```
//! use cmwq::{Cancelled, JoinError, QueueError, WorkQueue};
//!
//! async fn hash(queue: &WorkQueue, body: Vec<u8>) -> Result<u64, &'static str> {
//!     // Before the body is read, in a real service.
//!     let permit = queue.try_reserve().map_err(|error| match error {
//!         QueueError::Full => "503, with Retry-After",
//!         _ => "503: the service is ending",
//!     })?;
//!     let sum = move || {
//!         let token = cmwq::cancel_token();
//!         let mut sum = 0;
//!         for page in body.chunks(1 << 16) {
//!             token.check()?; // The client may go away, and the service may end.
//!             sum += page.iter().map(|byte| u64::from(*byte)).sum::<u64>();
//!         }
//!         Ok::<_, Cancelled>(sum)
//!     };
//!     let item = permit.spawn(sum).map_err(|_| "503: the service is ending")?;
//!     match item.stop_on_drop().await {
//!         Ok(Ok(sum)) => Ok(sum),
//!         Err(JoinError::Panicked(_)) => Err("500: it has panicked"),
//!         _ => Err("503: the service is ending"),
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = WorkQueue::builder("hashes").max_pending(64).build()?;
//! # assert_eq!(cmwq::blocking::block_on(hash(&queue, vec![1, 2, 3])), Ok(6));
//! # Ok(())
//! # }
//! ```
//!
//! * **A queue for each kind of work.** A queue costs no thread, and each queue has its own limit. So requests that
//!   only compute are accepted even if many slow reads of files fill another queue. A call that sleeps needs [a
//!   guard](crate::guide::blocking). All queues of `WorkQueue::new` share the CPUs. If items compute for longer than
//!   a request may wait, give them a queue such as `WorkQueue::builder(name).attrs(Attrs::new().nice(10))`.
//! * **Precedence.** Give the queues whose items compute a nice level above 0 ([`Attrs::nice`](crate::Attrs::nice)),
//!   and leave the queues whose items mostly sleep at 0. With these nice levels, the system prefers the runtime's
//!   threads, which accept, shed and answer, to the workers that compute. Items of different nice levels also have
//!   separate workers. A worker for both kinds of items would sleep in one item and compute in the next, and Linux
//!   prefers a thread that has slept for some milliseconds. `make lab-service` in the repository measures a service at
//!   four times its capacity: on this crate, on tokio's blocking pool and on rayon, each with nice levels and without.
//! * **Reserve first.** A [permit](crate::Permit) is a place for one item. A request that gets no permit is refused
//!   before its body is read.
//! * **Shed or wait.** [`try_reserve`](crate::WorkQueue::try_reserve) fails at once if there is no room.
//!   [`reserve_async`](crate::WorkQueue::reserve_async) waits, and its callers are served in the order in which they
//!   came. Put the runtime's timeout around this wait: a caller whose future is dropped leaves the line. In a stream of
//!   requests, wait without a timeout. While it waits, the service reads no further requests, so the connection slows
//!   the client down.
//! * **Clients that go away.** If a client goes away, the runtime drops the future of its request. A dropped handle
//!   detaches its item, which still runs. If the result is useless without the client, await
//!   [`handle.stop_on_drop()`](crate::JoinHandle::stop_on_drop) instead, as the examples do. When such a handle is
//!   dropped, an item that has not begun is cancelled, and an item that runs stops early if it
//!   [asks](crate::guide::cancellation). If a request has several items, give them one [token](crate::CancelToken).
//! * **In an item**, never call the runtime's `Handle::block_on` outside of a guard. Write
//!   `cmwq::blocking(|| handle.block_on(future))`, which has [two conditions](crate::guide::from_tokio).
//!   [`blocking::block_on`](crate::blocking::block_on) has a guard inside, but it polls the future outside of the
//!   runtime, where tokio's timers and sockets panic. So use it only for futures that need no runtime, such as join
//!   handles.
//!
//! On SIGTERM, do this in order: report to the health check that the service ends, stop accepting, finish the requests,
//! and await [`shutdown_async`](crate::GlobalExecutor::shutdown_async) with the rest of the time. The shutdown runs the
//! items that no request awaits any more. [`guide::shutdown`](crate::guide::shutdown) says what happens to items that
//! take longer.
//!
//! # On more than one machine
//!
//! cmwq distributes nothing between machines, and keeps nothing on disk. To store and distribute jobs, use an existing
//! engine. On each machine, cmwq runs as many jobs as the machine can bear. `examples/fleet` does this with Redis
//! streams. A program with another engine has the same steps as `examples/fleet`:
//!
//! 1. **Reserve, then fetch.** The consumer asks the engine for as many jobs as it has permits. Jobs for which it has
//!    no room stay in the engine, where other consumers find them.
//! 2. **Run.** Each job is an item, which uses the place of its permit.
//! 3. **Keep the claim.** A heartbeat tells the engine that the jobs are still in hand, so that no consumer mistakes a
//!    slow job for a lost one. The heartbeat is a periodic item of an [unbound](crate::WorkQueue::unbound) queue, which
//!    starts its items even while other items compute.
//! 4. **Store, then acknowledge**, in one step if the engine is also the store. The item ends only after the
//!    acknowledgement. So [`max_active_total`](crate::WorkQueueBuilder::max_active_total) bounds the number of jobs
//!    that have begun and are not acknowledged.
//! 5. **Take over** the jobs of consumers that have been silent for the claim timeout. Set a job aside if it was tried
//!    too often.
//! 6. **End.** On SIGTERM, the consumer fetches nothing more, [drains](crate::WorkQueue::drain_timeout) its queue, and
//!    gives back the jobs that take too long.
//!
//! # What is promised
//!
//! Each job runs **at least once**, as long as the engine keeps its data. A job runs again if its consumer dies before
//! the acknowledgement, if the acknowledgement is lost, or if the consumer is cut off for longer than the claim
//! timeout. So a job must be idempotent. In the example, the result of a job is stored under the job's name, unless
//! that name already has a result. So the store has each result exactly once, even if the job ran twice, and even if
//! the producer added the job twice. An effect outside of the store, such as a mail, may still happen twice.
//!
//! The engine may lose jobs that it has accepted but not written to its disk. Redis needs `appendonly yes` and
//! `appendfsync always` to promise that it keeps each accepted job.
//!
//! # Other engines
//!
//! | | Redis streams | NATS JetStream | PostgreSQL | Kafka |
//! |---|---|---|---|---|
//! | fetch as many as there are permits | `XREADGROUP COUNT n` | a pull consumer's fetch of `n` messages | `SELECT … LIMIT n FOR UPDATE SKIP LOCKED`, then set an owner and a deadline | `poll`, with `max.poll.records`; `pause` without permits |
//! | keep the claim to a slow job | `XCLAIM … JUSTID` | an *in progress* acknowledgement | move the deadline | keep polling, with all partitions paused |
//! | acknowledge | `XACK`, in one script with the result | an acknowledgement, after the result is stored | delete the row, in the transaction that stores the result | commit the offset below which all jobs are done |
//! | take over | `XPENDING IDLE` and `XCLAIM` | redelivery after `AckWait` | rows whose deadline has passed | the group's rebalance, from the committed offset |
//! | give back at the end | `XCLAIM … IDLE` | a negative acknowledgement | clear the owner | commit, and leave the group |
//! | too many attempts | the count in `XPENDING`; a stream of its own | `MaxDeliver`, and its advisory | a column; another table | count them; another topic |
//!
//! In PostgreSQL, commit the transaction of the fetch at once, so that the stored deadline protects the job from other
//! consumers. A transaction that stays open during the job would hold a connection for each job. Kafka acknowledges by
//! position, so one slow job holds back the commit of its partition, and all later jobs of the partition run again
//! after a crash. Kafka suits ordered streams better than jobs. If the jobs of each key must run in order, give each
//! key or partition an [ordered](crate::WorkQueue::ordered) queue.
