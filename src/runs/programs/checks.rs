//! The rules that hold whenever time is about to pass, because no thread can take a step.

use std::sync::Arc;

use crate::Executor;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::worker::worker_thread;
use crate::policy::detection::Detection;
use crate::policy::time::Time;
use crate::policy::worker::Phase;
use crate::protocol::exchange::Member as _;
use crate::sys::machine;

/// The properties of a program that decide which rules are checked at each moment of the program.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Whether workers may be missing, because there is a limit on threads, or because the system refuses some
    /// threads.
    pub(super) lacks_threads: bool,
    /// Whether issuers choose the CPUs of some items.
    pub(super) placed: bool,
    /// Whether queues change their attributes. If so, a pool that no queue uses any more is closed and makes no spares.
    pub(super) closes_pools: bool,
}

/// Checks from now on that counts are exact, and that each pool keeps a spare (an idle worker). Also checks that each
/// pool that has work has as many workers as it wants. If issuers choose no CPUs, also checks that no pool has too much
/// work while a sibling pool has room. (An item whose issuer chooses a CPU stays in the pool of this CPU.) The check of
/// siblings omits a pool whose workers are late, because such a pool gives its items away only at the manager's next
/// check.
pub(super) fn watch(executor: &Executor, rules: Rules) {
    let upkeep = Arc::downgrade(&executor.inner.upkeep);
    machine::check(Box::new(move |moment| {
        let now = moment.now;
        if moment.is_in_a_step() {
            return;
        }
        let pools = upkeep.upgrade().map_or(Vec::new(), |upkeep| upkeep.pools.all());
        for pool in &pools {
            counts_are_exact(pool, now);
            if rules.lacks_threads {
                continue;
            }
            if !rules.closes_pools {
                has_a_spare(pool, now);
            }
            has_enough_workers(pool, now);
            let may_give = !rules.placed && pool.is_sibling_of(pool) && !pool.running.load().is_late();
            if may_give && pool.has_excess() {
                let taker = pools.iter().find(|other| other.is_sibling_of(pool) && has_room(other));
                let names = taker.map(|taker| [pool, taker].map(|pool| pool.spec.kind.name()));
                assert_eq!(names, None, "at {now:?} the first has too much and the second has room");
            }
        }
    }));
}

/// Checks that the word of a pool agrees with its workers, and that the pool wakes no more workers than may run.
///
/// spec: C1, C5, P1.4, S1.7 (counts are exact), C3 (a burst wakes no more workers than may run; an unmanaged pool wakes
/// one at a time)
fn counts_are_exact(pool: &Pool, now: Time) {
    let (counts, workers) = pool.counts();
    let (word, name) = (counts.running, pool.spec.kind.name());
    let counts_blocks = pool.spec.manages_concurrency();
    let is_counted = |phase: Phase| phase.is_counted() || !counts_blocks && phase == Phase::Uncounted;
    let phases = || workers.iter().map(|(_, state)| state.phase());
    let counted = phases().filter(|phase| is_counted(*phase)).count() as u64;
    assert_eq!(word.running(), counted, "at {now:?} of pool {name}: {:?}", phases().collect::<Vec<_>>());
    let woken = phases().filter(|phase| *phase == Phase::Waking).count() as u64;
    assert!(word.waking() >= woken, "at {now:?} pool {name} has woken {woken} workers: {word:?}");
    // Until now, a pool of several CPUs may have been covered, which lets it run twice as many workers.
    let most = word.target().map_or(1, |target| if target > 1 { 2 * target } else { 1 });
    assert!(word.waking() <= most, "at {now:?} pool {name} wakes too many: {word:?}");
}

/// Checks that, while an item runs, the pool has an idle worker or will get one. The pool will get one while a worker
/// is being made. It will also get one while a woken worker has not begun yet, because this worker will ask for an idle
/// worker.
///
/// spec: C3 (a worker keeps one idle spare before it starts working)
fn has_a_spare(pool: &Pool, now: Time) {
    let (counts, workers) = pool.counts();
    let works = workers.iter().any(|(_, state)| state.phase().has_item());
    let spare = counts.idle > 0 || counts.creating || counts.running.waking() > 0 || pool.spec.is_bh();
    assert!(spare || !works, "at {now:?} pool {} works without a spare: {counts:?}", pool.spec.kind.name());
}

fn has_room(pool: &Pool) -> bool {
    pool.running.load().takes_errands()
}

fn has_enough_workers(pool: &Pool, now: Time) {
    // A bh pool has one thread and gets no other.
    if pool.spec.is_bh() {
        return;
    }
    let (word, pending) = (pool.running.load(), pool.pending() as u64);
    let enough = match word.target() {
        // Issuers leave their items to the workers that run or are on their way.
        Some(_) if word.is_brisk() => pending == 0 || word.running() + word.waking() > 0,
        // In a pool that is covered, each worker that starts wakes the next one.
        Some(_) if word.is_covered() && word.waking() > 0 => true,
        Some(target) => {
            let limit = target << u32::from(word.is_covered());
            word.running() + word.waking() >= limit.min(word.running() + pending)
        }
        // Each worker that starts wakes the next one.
        None => pending == 0 || word.waking() > 0,
    };
    let name = pool.spec.kind.name();
    assert!(enough, "at {now:?} pool {name} has {pending} items and too few workers: {word:?}");
}

/// Returns whether the calling item runs alone. In a managed pool of one CPU, only the calling item's worker may have
/// an item and count as running. For other pools, returns true. Also returns true if the detector is on, because the
/// detector may have put a worker back into the count.
///
/// spec: C1 (one item at a time while it is runnable)
pub(super) fn runs_alone(detection: Detection) -> bool {
    let pool = worker_thread::with_current(|own| own.map(|own| Arc::clone(&own.pool)));
    let of_one_cpu = pool.filter(|pool| {
        pool.spec.manages_concurrency() && pool.spec.cpus.len() == 1 && detection == Detection::Off
    });
    of_one_cpu.is_none_or(|pool| {
        let (_, workers) = pool.counts();
        let phases = workers.iter().map(|(_, state)| state.phase());
        phases.filter(|phase| phase.is_counted() && phase.has_item()).count() <= 1
    })
}

/// Checks the pools after a while without any work: no worker counts as running, and at most two workers are idle. A
/// closed pool can keep the reservation of a worker that was not made. The pool asks for this worker when it is opened
/// again.
///
/// spec: C8 (culled beyond two when no worker is busy)
pub(super) fn is_quiet(executor: &Executor) {
    for pool in executor.inner.upkeep.pools.all().iter().filter(|pool| pool.is_in_use()) {
        let (counts, name) = (pool.counts().0, pool.spec.kind.name());
        assert_eq!(
            (counts.running.running(), counts.running.waking(), counts.pending),
            (0, 0, 0),
            "of {name}, {counts:?}"
        );
        assert!(counts.idle <= 2, "pool {name} keeps {} idle workers", counts.idle);
    }
}
