//! Snapshots of an executor: dumps, busy reports and the monitor.
//!
//! | | made by | has the text of the kernel's |
//! |---|---|---|
//! | [`Snapshot`] | [`Executor::dump`](crate::Executor::dump) | `wq_dump` |
//! | [`BusyReport`] | [`Snapshot::busy`] | `show_all_workqueues` |
//! | [`MonitorReport`] | [`Monitor::sample`], of [`Executor::monitor`](crate::Executor::monitor) | `wq_monitor` |
//!
//! The text of a snapshot shows scopes and pods, pools, the pools to which each queue leads, rescuers, and limits. The
//! text of a busy report shows the items that run, with their age and description. The text of a monitor report is a
//! row of counters for each queue.
//!
//! Snapshots, busy reports and monitor reports are plain values, and making them stops no thread. The thread that takes
//! a snapshot reads pools and queues one after the other, and holds each lock only briefly.
//!
//! CPU sets are written as lists (`0-3,8`), whereas the kernel's tools write hexadecimal masks. Tables cut names to
//! their last 24 characters. All other texts contain the whole names.
//!
//! # JSON
//!
//! With the feature `serde`, [`Snapshot`] and [`MonitorReport`] serialise and deserialise in any format that serde
//! supports. In JSON:
//!
//! * Each struct is an object whose keys are the names of its fields.
//! * A duration is an integer in nanoseconds, and its key ends in `_ns`: `cpu_time_ns`, `age_ns`, `stalled_for_ns`. The
//!   time of a sample, `time_ns`, is the duration since the beginning of 1970.
//! * A [`CpuSet`](crate::CpuSet) is a string: `"0-3,8"`.
//! * An enum is the string that its `Display` writes. The kinds of queues are `managed`, `per_cpu`, `unbound`,
//!   `ordered` and `bh`. The values of a scope range from `cpu` to `system`, and the values of a worker's state from
//!   `idle` to `exiting`. Detection is `off`, `sampling` or `switches`.
//! * A [`Histogram`] is `{"total_ns": …, "max_ns": …, "buckets": [[from, to, count], …]}`. A bucket counts the
//!   durations of at least `from` and less than `to` nanoseconds. Empty buckets are left out. The buckets of the
//!   shortest durations come first.
//! * Counts are integers. The CPU quota is the only number with a fraction.
//! * A value that does not exist is `null`, but its key is present.
//!
//! ```json
//! {
//!   "format": 1, "pid": 4700, "time_ns": 1800000000000000000,
//!   "queues": [{
//!     "number": 1, "name": "mail", "kind": "per_cpu", "rescuer": false,
//!     "counters": {
//!       "started": 18545, "completed": 18544, "cpu_time_ns": 6100000000, "cpu_hogs": 2, "concurrency_wakeups": 5,
//!       "away": 0, "stolen": 0, "brought_back": 0, "rescuer_calls": 0, "rescued": 0, "panicked": 0, "cancelled": 0,
//!       "expired": 0, "refused": 0, "undeclared_blocks": 0
//!     }
//!   }]
//! }
//! ```
//!
//! The number `format` increases when a key or its meaning changes, but not when keys are added. So a reader should
//! ignore unknown keys, as [`Snapshot`] and [`MonitorReport`] do when they are deserialised.

mod busy;
mod dump;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
mod monitor;
mod share;
mod snapshot;
mod take;
mod text;

#[cfg(test)]
mod tests;

pub use crate::policy::counters::Counters;
pub use crate::policy::histogram::{Histogram, Latency};

pub use self::busy::{BusyQueue, BusyReport, InFlight};
pub use self::monitor::{Monitor, MonitorReport, MonitorRow};
pub use self::share::ShareSnapshot;
pub use self::snapshot::{
    PodSnapshot, PoolSnapshot, QueueKind, QueueSnapshot, RescuerSnapshot, RunningItem, ScopeSnapshot,
    ShardSnapshot, Snapshot, WorkerSnapshot, WorkerState,
};
