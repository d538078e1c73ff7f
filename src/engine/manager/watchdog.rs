//! The report on a pool that has work but starts none of it.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::idle_set::WorkerId;
use crate::policy::time::Time;
use crate::policy::watch::Look;
use crate::policy::worker::{Phase, WorkerState};
use crate::sys::sync::Ordering;
use crate::sys::thread_state::{self, Eye, State};

use crate::engine::executor::reports::{StallReport, StalledWorker};
use crate::engine::executor::upkeep::Upkeep;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::worker::shared::Worker;

/// Reports a pool that a check has found to be stalled. The manager's thread calls this while it holds no lock.
/// `workers` contains the workers that are listed in `look`. For each worker, `began` contains a time at which the
/// worker had already begun its present item.
pub(crate) fn report(
    upkeep: &Upkeep,
    pool: &Pool,
    stalled_for: Duration,
    look: &Look,
    workers: &[Arc<Worker>],
    began: &[(WorkerId, Time)],
    now: Time,
) {
    let core = &pool.core;
    upkeep.stalls.fetch_add(1, Ordering::Relaxed);
    let busy_for = |id| {
        let at = began.binary_search_by_key(&id, |(worker, _)| *worker).ok()?;
        Some(now.since(began[at].1))
    };
    let seen = workers.iter().zip(&look.workers);
    let name = pool.spec.kind.name();
    core.settings.hooks.stalled(&StallReport {
        pool: &name,
        cpus: &pool.spec.cpus,
        pending: pool.pending_everywhere(),
        stalled_for,
        creating: look.help_coming,
        at_thread_limit: core.threads() >= core.settings.max_threads,
        workers: seen
            .filter_map(|(worker, (id, word))| {
                let busy_for = busy_for(*id).unwrap_or_default().max(stalled_for);
                what_stalls(worker, *word, busy_for)
            })
            .collect(),
    });
}

/// Returns what a worker of a stalled pool is doing. Returns `None` if the worker had no item when its word had the
/// value `seen`, or if it has another item by now.
fn what_stalls(worker: &Worker, seen: WorkerState, busy_for: Duration) -> Option<StalledWorker> {
    let item_type = worker.item_type(seen)?;
    let thread = worker.with_thread(|thread| {
        let state = Eye::open(thread).and_then(|eye| eye.look()).ok().map(|seen| seen.state);
        (state.map(State::letter), thread_state::wait_channel(thread))
    });
    let (state, wait_channel) = thread.unwrap_or_default();
    Some(StalledWorker {
        thread: worker.name().to_owned(),
        item_type,
        queue: worker.queue_name(seen),
        description: worker.description_of(seen),
        busy_for,
        in_guard: matches!(seen.phase(), Phase::Blocked | Phase::MayBlock),
        state,
        wait_channel,
    })
}
