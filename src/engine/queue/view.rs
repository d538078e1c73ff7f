//! Views of queues and threads, for dumps.
//!
//! A function here holds a lock only briefly, and takes no lock inside another one.

use std::sync::Arc;

use crate::policy::attrs::PoolAttrs;
use crate::policy::cpu_set::CpuSet;
use crate::policy::effective_state::{Answer, Caller, EffectiveState};
use crate::sys::affinity;

use crate::engine::pool::class::Division;
use crate::engine::pool::worker_pool::Pool;

use super::shard::Shard;
use super::workqueue::{Queue, QueueKind};

/// The settings that were requested of a queue, and the queue's present state.
pub(crate) struct QueueView {
    /// The attributes that determine the queue's pools, if it is an unbound queue.
    pub(crate) attrs: Option<PoolAttrs>,
    pub(crate) max_active: usize,
    pub(crate) frozen: bool,
    /// Whether the queue refuses outsiders, because it is drained, or because the queue or its executor ends.
    pub(crate) draining: bool,
    /// The pool for items of no pod, or for items of the only pod, if that pool was made.
    pub(crate) default_pool: Option<Arc<Pool>>,
}

/// A thread's number, on systems that number their threads, and the CPUs on which the thread may run.
pub(crate) struct ThreadView {
    pub(crate) id: Option<u32>,
    pub(crate) cpus: Option<CpuSet>,
}

impl ThreadView {
    pub(crate) fn of(thread: affinity::ThreadId) -> Self {
        Self { id: thread.shown(), cpus: thread.cpus().ok() }
    }
}

impl Queue {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the queue's shards, with their slots. The caller keeps the queue alive.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, &Shard)> + Clone {
        self.shards_by_slot()
    }

    /// Returns the queue's view. It is not called in a forked process, where the lock may be held for ever.
    pub(crate) fn view(&self) -> QueueView {
        let making = self.making.lock();
        let attrs = match &making.kind {
            QueueKind::Unbound(attrs) => Some(attrs.clone()),
            QueueKind::PerCpu { .. } | QueueKind::Bh { .. } => None,
        };
        let requested = making.requested;
        let division =
            making.division.as_ref().filter(|known| attrs.as_ref().is_some_and(|attrs| known.is_of(attrs)));
        let default_pool = division.and_then(Division::default_pool);
        drop(making);
        let effective_state: EffectiveState = self.effective_state(requested);
        QueueView {
            attrs,
            max_active: requested.max_active,
            frozen: effective_state.frozen,
            draining: effective_state.answer(Caller::Outsider) != Answer::Freely,
            default_pool,
        }
    }
}
