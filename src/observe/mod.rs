//! What can be seen of an executor from outside.

mod busy;
mod dump;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
mod monitor;
mod snapshot;
mod take;
mod text;

#[cfg(test)]
mod tests;

pub use crate::policy::counters::Counters;
pub use crate::policy::histogram::{Histogram, Latency};

pub use self::busy::{BusyQueue, BusyReport, InFlight};
pub use self::monitor::{Monitor, MonitorReport, MonitorRow};
pub use self::snapshot::{
    PodSnapshot, PoolSnapshot, QueueKind, QueueSnapshot, RescuerSnapshot, RunningItem, ScopeSnapshot,
    ShardSnapshot, Snapshot, WorkerSnapshot, WorkerState,
};
