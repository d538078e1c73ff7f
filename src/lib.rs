//! Concurrency-managed workqueues for Rust services, without async.

mod policy;
mod protocol;
mod sys;

pub use policy::cpu_set::{CpuSet, ParseCpuSetError};
pub use policy::pods::{AffinityScope, ParseAffinityScopeError};
pub use sys::topology::{TopologyError, TopologySource};
