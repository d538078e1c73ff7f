//! Views of queues and threads, for dumps.
//!
//! Each function in this module holds a lock only briefly, and takes no lock while it holds another lock.

use std::sync::Arc;

use crate::policy::attrs::PoolAttrs;
use crate::policy::cpu_set::CpuSet;
use crate::policy::effective_state::EffectiveState;
use crate::sys::affinity;

use crate::engine::pool::class::Division;
use crate::engine::pool::worker_pool::Pool;

use super::workqueue::{Queue, QueueKind};

/// The settings that were requested of a queue, and the queue's present state.
pub(crate) struct QueueView {
    /// The attributes that determine the queue's pools, if the queue is unbound.
    pub(crate) attrs: Option<PoolAttrs>,
    pub(crate) max_active: usize,
    pub(crate) frozen: bool,
    /// Whether the queue refuses submissions from threads that run no item of the executor. A queue refuses such
    /// submissions while it is being drained, and once it or its executor has begun to end.
    pub(crate) draining: bool,
    /// The pool of the pod that has all CPUs of the queue. `None` if no pod has all these CPUs, or if the pod's pool
    /// has not been made.
    pub(crate) default_pool: Option<Arc<Pool>>,
}

/// The CPUs on which a thread may run, and the thread's number if the system numbers its threads.
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
    /// Returns a view of the queue. A forked process must not call this function, because the queue's lock may stay
    /// locked in that process for ever.
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
            draining: effective_state.refuses_outsiders(),
            default_pool,
        }
    }
}
