//! Concurrency-managed workqueues for Rust services, without async.
//!
//! The Linux kernel runs the background work of a whole system through *workqueues*: cheap named queues in front of
//! worker pools that all queues share, with just enough workers that a CPU never idles while work is pending, and no
//! more. This crate is that design for a process.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = cmwq::WorkQueue::new("thumbnails").build()?;
//! let handle = queue.spawn(|| {
//!     let bytes = cmwq::blocking(|| std::fs::read("Cargo.toml"))?; // another item may use the CPU meanwhile
//!     Ok::<_, std::io::Error>(bytes.len())
//! })?;
//! assert!(handle.join()?? > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does for you
//!
//! * **Items may block.** A fixed pool loses a thread to each item that waits for a disk, a lock or another item, and
//!   deadlocks when all of them do. Here an item that blocks under a guard ([`blocking`], [`BlockingGuard`]) stops
//!   counting, and another worker takes its place at once.
//! * **Threads do not multiply.** However many items there are, and however many queues of a class, CPU work runs on as
//!   many threads as there are CPUs (see [Classes](#classes) for what a class is). A thread more is made only when one
//!   blocks and work is pending, and leaves when it was idle for long.
//! * **Queues are cheap.** Each library, tenant or kind of work can have its own, with its own limit, order and flush;
//!   a queue costs no thread.
//! * **Items run near their issuer**: on its CPU, or on those that share its last-level cache, or its NUMA node.
//!
//! # Queues
//!
//! [`WorkQueue::new`] is the kind to begin with: it runs as many items at a time as there are CPUs near the issuer, not
//! counting blocked ones. [`WorkQueue::per_cpu`], [`WorkQueue::unbound`], [`WorkQueue::ordered`] and [`WorkQueue::bh`]
//! are the kernel's own kinds. All of them share the pools of an [`Executor`], by default the process-wide one. Each executor has some queues
//! from the start, for items that need none of their own: see [`system`].
//!
//! # Classes
//!
//! How many items run at once is decided for each class of pools by itself:
//!
//! * Per-CPU queues of normal priority are a class, those of [high priority](WorkQueueBuilder::high_priority) another:
//!   each lets one item per CPU run. [CPU-intensive](WorkQueueBuilder::cpu_intensive) items start by that rule and then
//!   do not count.
//! * Managed queues ([`WorkQueue::new`]) have a class for each nice level and each set of CPUs that makes a pod: as
//!   many items run in it as the set has CPUs. Queues whose pods are equal share it. Pods that only overlap, because of
//!   another affinity scope or other [`Attrs`], do not.
//! * Plain [`unbound`](WorkQueue::unbound) and [`ordered`](WorkQueue::ordered) queues have no such number: what is
//!   active, up to `max_active` for each queue, has a thread, whatever else runs.
//!
//! * [bh](WorkQueue::bh) queues run one item per CPU and priority, also while it blocks, which it should not.
//!
//! Classes do not see each other: a program that keeps three of them busy has three threads to run per CPU, between
//! which the system's scheduler divides it. An item that comes back from blocking while another took its place is one
//! more, until an item of its pool ends.
//!
//! # Items
//!
//! [`WorkQueue::spawn`] queues a closure that runs once, and returns a [`JoinHandle`]. A [`Work`] is queued again and
//! again: while it is pending, queueing it does nothing, and one worker executes it at a time, so any number of requests
//! lead to one run now and one run after, which sees all of them.
//!
//! [`WorkQueue::scope`] runs closures that borrow, and returns when all of them are over.
//!
//! # Promises
//!
//! * Accepted work runs, or its owner is told. A queue that refuses hands the closure back.
//! * What happens before a queueing is seen by the run; what happens in the run is seen after the join or flush that
//!   waited for it. Where [`queue`](WorkQueue::queue) answers false, the pending run sees it too.
//! * A panic in an item ends that item only; its joiner and the panic handler learn of it.
//! * Dropping a queue or an executor never blocks and loses nothing.
//! * Work that no thread can be made for waits, and making one is tried again, once a second at most. Queues with a
//!   [rescuer](WorkQueueBuilder::rescuer) go on meanwhile.
//! * An idle executor does not wake up.
//! * The end of the process ends what is pending or running, like any thread, and nothing needs to be shut down for it.
//!   Exit handlers and thread-local destructors may still use queues.
//! * Waiting for oneself is an error, not a hang; so is waiting in a forked process for the parent's threads. In debug
//!   builds so is the wait that closes a cycle of items which wait for each other; the log names them
//!   ([`WaitError::WouldDeadlock`]).
//!
//! # Guards
//!
//! A guard is a promise kept by hand: where one is missing, the pool takes the blocked worker for a running one, and
//! whatever is queued behind it waits. Put a guard around each call that may sleep: file and network I/O, locks that are
//! held for long, channels, joins of foreign threads. It costs about ten nanoseconds. [`JoinHandle::join`],
//! [`WorkQueue::flush`] and [`WorkQueue::scope`] bring their own.
//!
//! # Fork
//!
//! A forked process has none of its parent's threads. There, everything that the parent made answers at once instead of
//! waiting for them: queueing is [`QueueError::Forked`], a wait [`WaitError::Forked`] or [`JoinError::Forked`] (what had
//! ended at the fork can still be joined), handles are dropped without effect, and a [`Work`] counts as neither pending
//! nor running. The parent notices nothing.
//!
//! A child may make executors, queues and items of its own, and [`Executor::global`] is a new one there, if the parent
//! was quiet at the fork: all queues flushed, nothing being queued or waited for. Otherwise a thread that is not there
//! may hold one of the few locks that all executors of a process share (those on which threads wait, and the numbers of
//! shards), or one of another library, and making an executor may wait for it for ever. Programs that are
//! started by [`std::process::Command`] are not concerned.
//!
//! An item that forks is, in the child, no item any more. A child that comes back from it ends there, without exit
//! handlers, with status 0, or 101 after a panic; what is pending is the parent's.
//!
//! # Platform
//!
//! Linux on x86-64 and aarch64; hwloc is needed to build. Elsewhere workers are not bound to CPUs and have no nice
//! levels. The minimum supported Rust version is 1.85.

#![cfg_attr(cmwq_loom, allow(dead_code, unused_imports, reason = "the models use a part of the crate"))]

mod policy;
mod protocol;
mod sys;

#[cfg(not(cmwq_loom))]
mod blocking;
#[cfg(not(cmwq_loom))]
mod current;
#[cfg(not(cmwq_loom))]
mod engine;
#[cfg(not(cmwq_loom))]
mod error;
#[cfg(not(cmwq_loom))]
mod executor;
#[cfg(not(cmwq_loom))]
mod observe;
#[cfg(not(cmwq_loom))]
mod periodic;
#[cfg(not(cmwq_loom))]
mod queue;
#[cfg(all(test, not(cmwq_loom)))]
mod sim;
#[cfg(not(cmwq_loom))]
pub mod system;
#[cfg(not(cmwq_loom))]
mod work;

#[cfg(not(cmwq_loom))]
pub use self::{
    blocking::{BlockingGuard, blocking},
    current::{current_queue, current_queue_name, current_work, is_rescuer, set_description},
    engine::core::PanicReport,
    engine::refusal::{QueueError, WaitError},
    engine::scope::Scope,
    error::{
        BuildExecutorError, BuildQueueError, EnableError, JoinError, PanicPayload, QueueBatchError, Refused,
        RefusedBatch, RunOnCpuError, ScopeError, SetMaxActiveError,
    },
    executor::{Executor, ExecutorBuilder, QueueReport, ShutdownReport},
    observe::snapshot::{ExecutorSnapshot, PoolSnapshot},
    periodic::PeriodicHandle,
    queue::{Attrs, ScopedJoinHandle, WorkQueue, WorkQueueBuilder},
    work::{JoinHandle, Work},
};
pub use policy::cpu_set::{CpuSet, ParseCpuSetError};
pub use policy::pods::{AffinityScope, ParseAffinityScopeError};
#[cfg(not(cmwq_loom))]
pub use sys::topology::{TopologyError, TopologySource};
