//! Changes a queue's attributes, and its executor's defaults, at run time.
//!
//! A queue keeps the attributes that its user asked for. When these attributes or the executor's defaults change, the
//! queue resolves its attributes again. After the new attributes have been checked, the change cannot fail and does not
//! wait. `route` describes what happens to the queue's items.

use crate::policy::attrs::{AttrDefaults, Attrs, PoolAttrs};
use crate::policy::cpu_set::CpuSet;
use crate::policy::effective_state::Stage;
use crate::policy::pods::AffinityScope;
use crate::sys::sync::MutexGuard;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::refusal::QueueError;

use super::route::Turn;
use super::workqueue::{Making, Queue, QueueKind, Unbound};

impl Queue {
    /// Changes the attributes of the queue. `change` gets the attributes that the user asked for last, and returns
    /// valid new attributes. The queue is unbound, and the caller keeps the queue in memory.
    pub(crate) fn change_attrs(&self, change: impl FnOnce(Attrs) -> Attrs) -> Result<(), QueueError> {
        if self.executor.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        let mut making = self.making.lock();
        if self.executor.is_shut_down() {
            return Err(QueueError::ShutDown);
        }
        making.attrs = change(std::mem::take(&mut making.attrs));
        self.turn_routes(making);
        Ok(())
    }

    /// Resolves the queue's attributes again, because the executor's defaults may have changed. The caller keeps the
    /// queue in memory.
    pub(crate) fn resolve_again(&self) {
        let making = self.making.lock();
        // Before the executor's stage is `Shut`, this thread may make a pool. The thread that shuts the executor down
        // sets the stage `Shut`, takes the lock `making` once more, and then closes all pools. So the shutdown also
        // closes a pool that this thread makes.
        if self.executor.queues.condition().1 != Stage::Shut {
            self.turn_routes(making);
        }
    }

    fn turn_routes(&self, mut making: MutexGuard<'_, Making>) {
        let Some(unbound) = self.spec.unbound else { return };
        let kind = QueueKind::Unbound(self.executor.resolve(unbound, &making.attrs));
        if making.kind == kind {
            return;
        }
        making.kind = kind;
        let mut turned: Vec<Turn<'_>> = Vec::new();
        for (index, shard) in self.shards_by_index() {
            let choice = making.choose(&self.executor, index);
            if !std::ptr::eq(shard.pool(), &*choice.pool) {
                turned.push(shard.turn(choice));
            }
        }
        drop(making);
        Turn::finish_all(turned);
    }

    /// Returns the present attributes of the queue's pools. Returns `None` in a forked process, and if the queue is not
    /// unbound.
    pub(crate) fn pool_attrs(&self) -> Option<PoolAttrs> {
        if self.executor.origin.is_forked() {
            // A forked process does not take the lock, because a thread of the parent may have held it at the fork.
            return None;
        }
        match &self.making.lock().kind {
            QueueKind::Unbound(attrs) => Some(attrs.clone()),
            QueueKind::PerCpu { .. } | QueueKind::Bh { .. } => None,
        }
    }

    /// Returns whether the queue's affinity scope follows the executor's default. This function must not be called in a
    /// forked process.
    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "asked for over the control socket")
    )]
    pub(crate) fn has_default_scope(&self) -> bool {
        self.making.lock().attrs.names_no_scope()
    }
}

impl ExecutorInner {
    /// Returns the pool attributes to which a queue's attributes resolve at present.
    pub(crate) fn resolve(&self, unbound: Unbound, attrs: &Attrs) -> PoolAttrs {
        // In a forked process no item runs, so any defaults will do.
        let forked = || AttrDefaults { scope: AffinityScope::Cache, cpus: self.cpus.clone() };
        attrs.resolve(unbound.managed, unbound.nice, &self.defaults().unwrap_or_else(forked))
    }

    /// Restricts unbound queues to these CPUs of the executor.
    pub(crate) fn set_unbound_cpus(&self, cpus: CpuSet) -> Result<(), QueueError> {
        self.change_defaults(|defaults| defaults.cpus = cpus)
    }

    /// Sets the affinity scope for queues that do not specify one. `scope` is not [`AffinityScope::Default`].
    pub(crate) fn set_default_scope(&self, scope: AffinityScope) -> Result<(), QueueError> {
        self.change_defaults(|defaults| defaults.scope = scope)
    }

    /// Changes the defaults, and resolves the attributes of all queues again. No queue misses the change, because a
    /// thread that makes a queue resolves the queue's attributes again after the queue has entered the register.
    fn change_defaults(&self, change: impl FnOnce(&mut AttrDefaults)) -> Result<(), QueueError> {
        if self.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        if self.is_shut_down() {
            return Err(QueueError::ShutDown);
        }
        change(&mut self.defaults.lock());
        self.queues.refs().iter().for_each(|queue| queue.resolve_again());
        Ok(())
    }

    /// Returns the present defaults. Returns `None` in a forked process, because a thread of the parent may have held
    /// the lock.
    pub(crate) fn defaults(&self) -> Option<AttrDefaults> {
        (!self.origin.is_forked()).then(|| self.defaults.lock().clone())
    }
}
