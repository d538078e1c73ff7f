//! The defaults of an executor for the attributes of its queues.

use crate::error::attrs::{SetDefaultScopeError, SetUnboundCpusError};
use crate::executor::Executor;
use crate::policy::attrs::fault_of;
use crate::policy::cpu_set::CpuSet;
use crate::policy::pods::AffinityScope;

impl Executor {
    /// Restricts unbound queues to `cpus`, a subset of the executor's CPUs. The restriction applies to existing queues
    /// and to queues that are built later. If none of a queue's [own CPUs](crate::Attrs::cpus) is in the set, the queue
    /// uses all CPUs of the set. Per-CPU and bh queues stay as they are.
    ///
    /// The call does not wait. All limits hold during the change, and items keep their order, as with
    /// [`apply_attrs`](crate::WorkQueue::apply_attrs).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{CpuSet, Executor, WorkQueue};
    ///
    /// let executor = Executor::builder().build()?;
    /// let queue = WorkQueue::builder("thumbnails").build_on(&executor)?;
    /// let last = executor.cpus().iter().last().unwrap();
    /// executor.set_unbound_cpus([last].into_iter().collect())?;
    /// assert_eq!(queue.attrs().unwrap().cpus.to_string(), last.to_string());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the set is empty, if it contains a CPU that the executor does not use, or if the executor is
    /// shut down. If the call returns an error, it has changed nothing.
    #[doc(alias = "workqueue_unbound_cpumask")]
    #[doc(alias = "workqueue_set_unbound_cpumask")]
    pub fn set_unbound_cpus(&self, cpus: CpuSet) -> Result<(), SetUnboundCpusError> {
        if let Some(fault) = fault_of(&cpus, self.cpus()) {
            return Err(SetUnboundCpusError::of_cpus(fault, self.cpus()));
        }
        self.inner.set_unbound_cpus(cpus).map_err(SetUnboundCpusError::of_refusal)
    }

    /// Returns the CPUs that unbound queues may use. In a forked child, these are all of the executor's CPUs.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// assert_eq!(executor.unbound_cpus(), *executor.cpus());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn unbound_cpus(&self) -> CpuSet {
        self.inner.defaults().map_or_else(|| self.cpus().clone(), |defaults| defaults.cpus)
    }

    /// Sets the affinity scope for queues that do not specify a scope. The new scope applies to existing queues and to
    /// queues that are built later.
    ///
    /// The call does not wait. All limits hold during the change, and items keep their order, as with
    /// [`apply_attrs`](crate::WorkQueue::apply_attrs).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{AffinityScope, Executor, WorkQueue};
    ///
    /// let executor = Executor::builder().build()?;
    /// let queue = WorkQueue::builder("thumbnails").build_on(&executor)?;
    /// executor.set_default_scope(AffinityScope::Numa)?;
    /// assert_eq!(queue.attrs().unwrap().scope, AffinityScope::Numa);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`SetDefaultScopeError::Default`] if `scope` is [`AffinityScope::Default`], and another error if the
    /// executor is shut down. If the call returns an error, it has changed nothing.
    #[doc(alias = "default_affinity_scope")]
    pub fn set_default_scope(&self, scope: AffinityScope) -> Result<(), SetDefaultScopeError> {
        if scope == AffinityScope::Default {
            return Err(SetDefaultScopeError::Default);
        }
        self.inner.set_default_scope(scope).map_err(SetDefaultScopeError::of_refusal)
    }
}
