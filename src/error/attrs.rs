//! Why the attributes of a queue, or an executor's settings for unbound queues, were not changed.

use std::fmt;

use crate::engine::refusal::QueueError;
use crate::error::BuildQueueError;
use crate::policy::attrs::{AttrsFault, CpusFault};
use crate::policy::cpu_set::CpuSet;

/// Why the attributes of a queue were not changed. The attributes stay as they were.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{ApplyAttrsError, Attrs, CpuSet, WorkQueue};
///
/// let queue = WorkQueue::new("reindex");
/// let nowhere = Attrs::new().cpus(CpuSet::new());
/// assert_eq!(queue.apply_attrs(nowhere), Err(ApplyAttrsError::NoCpu));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ApplyAttrsError {
    /// A per-CPU queue has no attributes, because its items run on the CPU that they were queued on.
    PerCpu,
    /// A bh queue has no attributes, because its items run on the CPU that they were queued on.
    Bh,
    /// The set of CPUs in the attributes is empty.
    NoCpu,
    /// The set of CPUs in the attributes contains a CPU that the executor does not use.
    UnknownCpu {
        /// The number of that CPU.
        cpu: usize,
        /// The CPUs that the executor uses.
        known: CpuSet,
    },
    /// The nice level is outside the range −20 to 19.
    Nice(i32),
    /// The executor was shut down, or is being shut down.
    ShutDown,
    /// The queue belongs to the process from which this process was forked.
    Forked,
}

/// Why the CPUs of an executor's unbound queues were not changed.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{CpuSet, Executor, SetUnboundCpusError};
///
/// let executor = Executor::builder().build()?;
/// assert_eq!(executor.set_unbound_cpus(CpuSet::new()), Err(SetUnboundCpusError::NoCpu));
/// assert_eq!(executor.unbound_cpus(), *executor.cpus());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetUnboundCpusError {
    /// The set of CPUs that was given is empty.
    NoCpu,
    /// The set that was given contains a CPU that the executor does not use.
    UnknownCpu {
        /// The number of that CPU.
        cpu: usize,
        /// The CPUs that the executor uses.
        known: CpuSet,
    },
    /// The executor was shut down, or is being shut down.
    ShutDown,
    /// The executor belongs to the process from which this process was forked.
    Forked,
}

/// Why an executor's default scope was not changed.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{AffinityScope, Executor, SetDefaultScopeError};
///
/// let executor = Executor::builder().build()?;
/// let error = executor.set_default_scope(AffinityScope::Default).unwrap_err();
/// assert_eq!(error, SetDefaultScopeError::Default);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetDefaultScopeError {
    /// The new scope is [`AffinityScope::Default`](crate::AffinityScope::Default). That scope stands for the executor's
    /// default, so the default itself must be another scope.
    Default,
    /// The executor was shut down, or is being shut down.
    ShutDown,
    /// The executor belongs to the process from which this process was forked.
    Forked,
}

impl ApplyAttrsError {
    pub(crate) fn of_attrs(fault: AttrsFault, known: &CpuSet) -> Self {
        match fault {
            AttrsFault::Nice(level) => Self::Nice(level),
            AttrsFault::Cpus(CpusFault::Empty) => Self::NoCpu,
            AttrsFault::Cpus(CpusFault::Unknown(cpu)) => Self::UnknownCpu { cpu, known: known.clone() },
        }
    }

    pub(crate) fn of_refusal(refusal: QueueError) -> Self {
        if refusal == QueueError::Forked { Self::Forked } else { Self::ShutDown }
    }
}

impl BuildQueueError {
    pub(crate) fn of_attrs(fault: AttrsFault, known: &CpuSet) -> Self {
        match fault {
            AttrsFault::Nice(level) => Self::Nice(level),
            AttrsFault::Cpus(CpusFault::Empty) => Self::NoCpu,
            AttrsFault::Cpus(CpusFault::Unknown(cpu)) => Self::UnknownCpu { cpu, known: known.clone() },
        }
    }
}

impl SetUnboundCpusError {
    pub(crate) fn of_cpus(fault: CpusFault, known: &CpuSet) -> Self {
        match fault {
            CpusFault::Empty => Self::NoCpu,
            CpusFault::Unknown(cpu) => Self::UnknownCpu { cpu, known: known.clone() },
        }
    }

    pub(crate) fn of_refusal(refusal: QueueError) -> Self {
        if refusal == QueueError::Forked { Self::Forked } else { Self::ShutDown }
    }
}

impl SetDefaultScopeError {
    pub(crate) fn of_refusal(refusal: QueueError) -> Self {
        if refusal == QueueError::Forked { Self::Forked } else { Self::ShutDown }
    }
}

const SHUT_DOWN: &str = "the executor was shut down";
const FORKED: &str = "the executor belongs to the process that this one was forked from; make a new one here";

impl fmt::Display for ApplyAttrsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerCpu => {
                write!(
                    f,
                    "a per-CPU queue has no attributes: its items run on the CPU that they were queued on"
                )
            }
            Self::Bh => {
                write!(f, "a bh queue has no attributes: its items run on the CPU that they were queued on")
            }
            Self::NoCpu => {
                write!(f, "the attributes have no CPU; leave the CPUs unset to use all CPUs of the executor")
            }
            Self::UnknownCpu { cpu, known } => {
                write!(f, "the executor does not use CPU {cpu}; it uses {known}")
            }
            Self::Nice(nice) => write!(f, "nice level {nice} does not exist; levels go from -20 to 19"),
            Self::ShutDown => f.write_str(SHUT_DOWN),
            Self::Forked => f.write_str(FORKED),
        }
    }
}

impl fmt::Display for SetUnboundCpusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCpu => write!(f, "unbound queues need at least one CPU, but the given set is empty"),
            Self::UnknownCpu { cpu, known } => {
                write!(f, "the executor does not use CPU {cpu}; it uses {known}")
            }
            Self::ShutDown => f.write_str(SHUT_DOWN),
            Self::Forked => f.write_str(FORKED),
        }
    }
}

impl fmt::Display for SetDefaultScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => {
                write!(f, "the scope `default` stands for the executor's default, which must be another one")
            }
            Self::ShutDown => f.write_str(SHUT_DOWN),
            Self::Forked => f.write_str(FORKED),
        }
    }
}

impl std::error::Error for ApplyAttrsError {}
impl std::error::Error for SetUnboundCpusError {}
impl std::error::Error for SetDefaultScopeError {}
