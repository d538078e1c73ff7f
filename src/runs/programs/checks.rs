//! What holds whenever time is about to pass: no thread can take a step.

use crate::Executor;
use crate::engine::pool::worker_pool::Pool;
use crate::policy::time::Time;
use crate::protocol::exchange::Member as _;
use crate::sys::machine;

/// From now on, each pool that has work has as many workers as it wants. If no item is `placed` on a CPU, where it stays, no
/// pool has too much while a sibling has room. But a pool whose workers come late gives an item away at its next look only.
pub(super) fn watch(executor: &Executor, placed: bool) {
    let upkeep = std::sync::Arc::downgrade(&executor.inner.upkeep);
    machine::check(Box::new(move |moment| {
        let now = moment.now;
        let pools = upkeep.upgrade().map_or(Vec::new(), |upkeep| upkeep.pools.all());
        for pool in &pools {
            has_enough_workers(pool, now);
            let may_give = !placed && pool.is_sibling_of(pool) && !pool.running.load().is_stalled();
            if may_give && pool.has_excess() {
                let taker = pools.iter().find(|other| other.is_sibling_of(pool) && has_room(other));
                let names = taker.map(|taker| [pool, taker].map(|pool| pool.spec.kind.name()));
                assert_eq!(names, None, "at {now:?} the first has too much and the second has room");
            }
        }
    }));
}

fn has_room(pool: &Pool) -> bool {
    pool.running.load().takes_errands()
}

fn has_enough_workers(pool: &Pool, now: Time) {
    // The one thread of a bh pool is no more than one.
    if pool.spec.is_bh() {
        return;
    }
    let (word, pending) = (pool.running.load(), pool.pending() as u64);
    let enough = match word.target() {
        Some(target) => word.running() + word.waking() >= target.min(word.running() + pending),
        // Each worker that starts wakes the next one.
        None => pending == 0 || word.waking() > 0,
    };
    let name = pool.spec.kind.name();
    assert!(enough, "at {now:?} pool {name} has {pending} items and too few workers: {word:?}");
}
