//! Where the items of an unbound queue run.

use crate::{AffinityScope, CpuSet};

/// Where the items of an unbound queue run, and how urgently.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{AffinityScope, Attrs, WorkQueue};
///
/// let attrs = Attrs::new().scope(AffinityScope::Numa).nice(10);
/// let queue = WorkQueue::new("reindex").attrs(attrs).build()?;
/// # drop(queue);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "workqueue_attrs")]
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[must_use]
pub struct Attrs {
    pub(super) nice: Option<i32>,
    pub(super) cpus: Option<CpuSet>,
    pub(super) scope: Option<AffinityScope>,
    pub(super) strict: bool,
}

impl Attrs {
    /// The defaults: the executor's normal nice level, CPUs and scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// The nice level, −20 to 19.
    pub fn nice(mut self, level: i32) -> Self {
        self.nice = Some(level);
        self
    }

    /// The CPUs that items may run on, a part of the executor's.
    #[doc(alias = "cpumask")]
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// How near to their issuer items run.
    #[doc(alias = "affn_scope")]
    pub fn scope(mut self, scope: AffinityScope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Keep items in the pod of their issuer, even if CPUs of other pods have nothing to do. Default: false.
    #[doc(alias = "affinity_strict")]
    pub fn strict(mut self, yes: bool) -> Self {
        self.strict = yes;
        self
    }
}
