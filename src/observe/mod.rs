//! What can be seen of an executor from outside.

mod dump;
mod snapshot;
mod take;

pub use crate::policy::counters::Counters;
pub use crate::policy::histogram::{Histogram, Latency};

pub use self::snapshot::{
    PodSnapshot, PoolSnapshot, QueueKind, QueueSnapshot, RescuerSnapshot, RunningItem, ScopeSnapshot,
    ShardSnapshot, Snapshot, WorkerSnapshot, WorkerState,
};
