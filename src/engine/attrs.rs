//! The attributes of queues that are in use, and what their executor says where they say nothing.
//!
//! What a queue's user asked for is kept, and resolved anew when either changes. Nothing can fail after that was found
//! good, and nothing waits: see `route` for what becomes of the items.

use crate::policy::attrs::{AttrDefaults, Attrs, PoolAttrs};
use crate::policy::cpu_set::CpuSet;
use crate::policy::pods::AffinityScope;
use crate::policy::standing::Stage;
use crate::sys::sync::MutexGuard;

use super::executor::ExecutorInner;
use super::queue::{Making, Queue, QueueKind, Unbound};
use super::refusal::QueueError;
use super::route::Turn;

impl Queue {
    /// Its items have the attributes from now on that are made of those which its user asked for last. They are without
    /// fault. The queue is an unbound one, and the caller keeps it in place.
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

    /// What its executor says may have changed. The caller keeps the queue in place.
    pub(super) fn resolve_again(&self) {
        let making = self.making.lock();
        // Who ends the executor comes by once more when nothing runs any more, and sees all pools afterwards.
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
        for (slot, shard) in self.shards_by_slot() {
            let choice = making.choose(&self.executor, slot);
            if !std::ptr::eq(shard.pool(), &*choice.pool) {
                turned.push(shard.turn(choice));
            }
        }
        drop(making);
        turned.into_iter().for_each(Turn::finish);
    }

    /// What holds at the moment, if it is an unbound queue.
    pub(crate) fn pool_attrs(&self) -> Option<PoolAttrs> {
        if self.executor.origin.is_forked() {
            // The lock may have been held in the parent.
            return None;
        }
        match &self.making.lock().kind {
            QueueKind::Unbound(attrs) => Some(attrs.clone()),
            QueueKind::PerCpu { .. } | QueueKind::Bh { .. } => None,
        }
    }

    /// Does its scope follow the executor's default? Not for a forked process.
    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "asked for over the control socket")
    )]
    pub(crate) fn has_default_scope(&self) -> bool {
        self.making.lock().attrs.names_no_scope()
    }
}

impl ExecutorInner {
    /// What follows from a queue's attributes at the moment.
    pub(crate) fn resolve(&self, unbound: Unbound, attrs: &Attrs) -> PoolAttrs {
        // In a forked process nothing runs, and the lock may have been held in the parent.
        let forked = || AttrDefaults { scope: AffinityScope::Cache, cpus: self.cpus.clone() };
        attrs.resolve(unbound.managed, unbound.nice, &self.defaults().unwrap_or_else(forked))
    }

    /// Unbound queues use these CPUs, of the executor's, and no others.
    pub(crate) fn set_unbound_cpus(&self, cpus: CpuSet) -> Result<(), QueueError> {
        self.change_defaults(|defaults| defaults.cpus = cpus)
    }

    /// Queues that name no scope have this one, which is not [`AffinityScope::Default`].
    pub(crate) fn set_default_scope(&self, scope: AffinityScope) -> Result<(), QueueError> {
        self.change_defaults(|defaults| defaults.scope = scope)
    }

    /// Who makes a queue comes back to the defaults once it is in the register; so every queue is told.
    fn change_defaults(&self, change: impl FnOnce(&mut AttrDefaults)) -> Result<(), QueueError> {
        if self.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        if self.is_shut_down() {
            return Err(QueueError::ShutDown);
        }
        change(&mut self.defaults.lock());
        self.queues.pins().iter().for_each(|queue| queue.resolve_again());
        Ok(())
    }

    /// What holds at the moment; `None` in a forked process, where the lock may have been held in the parent.
    pub(crate) fn defaults(&self) -> Option<AttrDefaults> {
        (!self.origin.is_forked()).then(|| self.defaults.lock().clone())
    }
}
