//! Concurrency-managed workqueues for Rust services, without async.

mod policy;
mod protocol;
mod sys;

#[cfg(not(cmwq_loom))]
mod blocking;
#[cfg(not(cmwq_loom))]
mod engine;
#[cfg(not(cmwq_loom))]
mod error;
#[cfg(not(cmwq_loom))]
mod executor;
#[cfg(not(cmwq_loom))]
mod observe;
#[cfg(not(cmwq_loom))]
mod queue;
#[cfg(all(test, not(cmwq_loom)))]
mod sim;
#[cfg(not(cmwq_loom))]
mod work;

#[cfg(not(cmwq_loom))]
pub use self::{
    blocking::{BlockingGuard, blocking},
    engine::core::PanicReport,
    error::{BuildExecutorError, BuildQueueError, FlushError, JoinError, QueueError, Refused},
    executor::{Executor, ExecutorBuilder},
    observe::snapshot::{ExecutorSnapshot, PoolSnapshot},
    queue::{Attrs, WorkQueue, WorkQueueBuilder},
    work::{JoinHandle, Work},
};
pub use policy::cpu_set::{CpuSet, ParseCpuSetError};
pub use policy::pods::{AffinityScope, ParseAffinityScopeError};
pub use sys::topology::{TopologyError, TopologySource};
