use super::*;

fn word(running: u64, waking: u64, target: Option<usize>) -> Running {
    let empty = target.map_or(Running::unmanaged(), Running::managed);
    Running(empty.0 | running << RUNNING | waking << WAKING)
}

/// spec: C3.1 (need more): a managed pool needs another worker only while its running and woken workers are fewer than
/// its target.
#[test]
fn another_worker_is_needed_below_the_target_only() {
    let table = [
        // running, waking, target, needed
        (0, 0, Some(1), true),
        (1, 0, Some(1), false),
        (0, 1, Some(1), false),
        (2, 0, Some(1), false),
        (1, 0, Some(2), true),
        (1, 1, Some(2), false),
        (0, 0, None, true),
        (9, 0, None, true),
        (9, 1, None, false),
    ];
    for (running, waking, target, needed) in table {
        assert_eq!(word(running, waking, target).need_more_worker(), needed, "{running} {waking} {target:?}");
    }
}

/// spec: C3.1 (a woken worker counts as running from the wake-up): a burst wakes no more workers than the target.
#[test]
fn a_burst_on_an_idle_pool_wakes_up_to_the_target() {
    let mut word = Running::managed(2).unwatchable();
    let mut woken = 0;
    for _ in 0..10 {
        let (next, kick) = word.kick();
        word = next;
        woken += usize::from(matches!(kick, Kick::Wake(_)));
    }
    assert_eq!((woken, word.waking(), word.running()), (2, 2, 0));
}

/// spec: C3.1 (may start): a woken worker uses up its reservation, whether or not it may begin.
#[test]
fn a_woken_worker_finds_that_a_returning_one_took_its_place() {
    let (word, began) = word(0, 1, Some(1)).start();
    assert!(began);
    assert_eq!((word.running(), word.waking()), (1, 0));

    let (word, began) = self::word(1, 1, Some(1)).start();
    assert!(!began);
    assert_eq!((word.running(), word.waking()), (1, 0));
}

/// spec: C3.3: workers that return from a block may exceed the target, and are then shed one by one.
#[test]
fn returning_workers_overshoot_and_are_shed_one_by_one() {
    let overshot = word(1, 0, Some(1)).come_back().come_back();
    assert_eq!(overshot.running(), 3);
    let (word, is_shed) = overshot.shed();
    assert!(is_shed);
    let (word, is_shed) = word.shed();
    assert!(is_shed);
    assert_eq!((word.running(), word.shed()), (1, (word, false)));
}

#[test]
fn an_unmanaged_pool_never_sheds() {
    assert!(!word(100, 0, None).shed().1);
    assert!(word(100, 1, None).start().1);
}

#[test]
fn a_saturated_pool_tells_the_manager_once() {
    let full = word(1, 0, Some(1));
    let (watched, kick) = full.kick();
    assert_eq!(kick, Kick::Watch);
    assert_eq!(watched.kick(), (watched, Kick::Enough));
    assert_eq!(watched.unwatch(), full);
    assert_eq!((full.watch(), watched.watch()), ((watched, true), (watched, false)));
}

/// spec: C5, A5.4 (targets follow the CPUs and their quota)
#[test]
fn a_target_may_change_at_any_time() {
    let full = word(2, 1, Some(3)).unwatchable();
    let (lower, changed) = full.retarget(1);
    assert!(changed);
    assert_eq!((lower.target(), lower.running(), lower.waking()), (Some(1), 2, 1));
    assert!(lower.is_watched() && !lower.may_start() && lower.too_many_running());
    let (higher, changed) = lower.retarget(4);
    assert!(changed && higher.need_more_worker());
    assert_eq!(higher.retarget(4), (higher, false));
    assert_eq!(full.retarget(0).0.target(), Some(1));
}

#[test]
fn an_unmanaged_pool_and_an_abandoned_one_have_no_target_to_change() {
    for word in [Running::unmanaged(), Running::managed(1).abandoned()] {
        assert_eq!(word.retarget(2), (word, false));
    }
    assert!(Running::managed(usize::MAX).target() < Running::managed(1).abandoned().target());
}

/// spec: A2.2, A3.8 (an item goes elsewhere only when its own pod cannot take it)
#[test]
fn what_no_worker_here_comes_for_may_go_to_siblings() {
    let table = [
        // running, waking, target, pending, helpers, may go
        (0, 0, 1, 1, 0, false),
        (0, 1, 1, 1, 0, false),
        (0, 1, 1, 2, 0, true),
        (0, 1, 1, 2, 1, false),
        (1, 0, 1, 1, 0, true),
        (1, 0, 1, 1, 1, false),
        (1, 0, 1, 3, 2, true),
        (1, 0, 2, 1, 0, false),
        (1, 1, 2, 1, 0, false),
        (2, 1, 2, 2, 0, true),
        (3, 0, 2, 1, 0, true),
        (1, 0, 1, 0, 0, false),
    ];
    for (running, waking, target, pending, helpers, may_go) in table {
        let word = word(running, waking, Some(target)).sharing();
        let row = format!("{running} {waking} {target} {pending} {helpers}");
        assert_eq!(word.has_excess(pending, helpers, true), may_go, "{row}");
    }
}

/// spec: A3.8, A3.10 (the pool's own workers run a small backlog)
#[test]
fn a_brisk_pool_keeps_four_items_for_each_worker() {
    let full = word(2, 1, Some(3)).sharing();
    let watched = full.watch().0;
    let (brisk, tell) = watched.brisk();
    assert!(brisk.is_brisk() && tell && !watched.is_brisk(), "the manager may check it too rarely");
    assert_eq!((full.brisk(), brisk.brisk()), ((brisk, true), (brisk, false)));
    let ended = brisk.not_brisk().0;
    assert_eq!(ended.brisk(), (brisk, false), "the manager was told since the last check");
    assert_eq!((brisk.checked(), ended.checked()), ((brisk, true), (watched, false)));
    for (pending, helpers, may_go) in [(13, 0, false), (14, 0, true), (14, 1, false), (15, 1, true)] {
        assert_eq!(brisk.has_excess(pending, helpers, true), may_go, "{pending} {helpers}");
        assert!(watched.has_excess(pending, helpers, true) && brisk.has_excess(pending, helpers, false));
    }
    for (slow, begun) in [(true, 0), (true, 23), (false, 24)] {
        assert_eq!((brisk.is_slow(begun), watched.is_slow(begun)), (slow, false), "{begun}");
    }
    let large = word(8, 0, Some(8)).brisk().0;
    assert!(large.is_slow(32) && !large.is_slow(33), "all the items before one have begun");
    assert!(brisk.late().has_excess(1, 0, true), "its workers do not come");
    assert_eq!(watched.kick(), (watched, Kick::Offer));
    assert_eq!(brisk.kick(), (brisk, Kick::Enough));
    assert_eq!(brisk.late().kick().1, Kick::Offer);
    assert_eq!((brisk.not_brisk(), watched.not_brisk()), ((ended, true), (watched, false)));
    assert_eq!(brisk.unwatch(), full);
}

/// spec: C3.4
#[test]
fn a_brisk_pool_wakes_another_worker_only_for_the_items_that_its_workers_will_not_run_soon() {
    let brisk = |running, waking| word(running, waking, Some(3)).brisk().0;
    for (running, waking, wakes) in
        [(0, 0, true), (0, 1, true), (0, 2, false), (1, 0, false), (1, 1, false), (2, 0, false)]
    {
        let (word, kick) = brisk(running, waking).kick();
        let row = format!("{running} {waking}");
        assert_eq!((matches!(kick, Kick::Wake(_)), kick == Kick::Leave), (wakes, !wakes), "{row}");
        assert_eq!(word.waking(), waking + u64::from(wakes), "{row}");
        let (late, _) = brisk(running, waking).late().kick();
        assert_eq!(late.waking(), waking + 1, "{row}: its workers do not come");
        for pending in 0..20 {
            let wants = pending > 4 * (running + waking);
            assert_eq!(
                brisk(running, waking).wants_worker_for_rest(|| pending, true),
                wants,
                "{row} {pending}"
            );
        }
        assert!(brisk(running, waking).wants_worker_for_rest(|| 1, false), "{row}");
        assert_eq!(brisk(running, waking).kick_anyway().0.waking(), waking + 1, "{row}");
    }
    assert!(!brisk(2, 1).wants_worker_for_rest(|| 100, true) && brisk(2, 1).kick().1 == Kick::Enough);
    assert_eq!(brisk(2, 1).kick_anyway(), (brisk(2, 1), Kick::Enough));
    assert!(matches!(brisk(2, 1).abandoned().kick().1, Kick::Wake(_)), "issuers must find the mark");
    assert!(!word(1, 0, Some(3)).wants_worker_for_rest(|| 100, true), "the pushes have woken workers");
}

/// spec: A3.10: the manager checks a brisk pool often, even if it checked the pool rarely before.
#[test]
fn a_brisk_pool_is_not_checked_rarely() {
    let watched = word(1, 0, Some(1)).sharing().watch().0;
    let rarely = watched.check_rarely();
    let (brisk, tell) = rarely.brisk();
    assert!(tell && brisk.is_brisk() && !brisk.is_rarely_checked());
    assert_eq!(brisk.check_rarely(), brisk);
}

/// spec: S5.4 (up to twice as many workers as CPUs run; no sibling pool fills their places)
#[test]
fn a_covered_pool_keeps_twice_its_target_running() {
    let full = word(1, 1, Some(2)).sharing().watch().0.check_rarely();
    assert!(full.is_rarely_checked());
    let (covered, is_new) = full.cover(true);
    assert!(is_new && covered.is_covered() && !covered.is_rarely_checked());
    assert_eq!(covered.target(), Some(2));
    assert_eq!((covered.cover(true), covered.check_rarely()), ((covered, false), covered));
    let is_as_before = full.check_often().0;
    assert_eq!(
        (covered.cover(false), is_as_before.cover(false)),
        ((is_as_before, true), (is_as_before, false))
    );
    let of = |running, waking| word(running, waking, Some(2)).sharing().cover(true).0;
    for (running, waking) in [(0, 0), (1, 0), (0, 2), (2, 0), (2, 1), (1, 2), (3, 0)] {
        let (word, is_free) = (of(running, waking), running + waking < 2);
        assert!(word.need_more_worker() && word.may_start() && !word.too_many_running(), "{word:?}");
        assert_eq!((word.has_free_cpu(), word.takes_errands()), (is_free, is_free), "{word:?}");
        assert!(!word.has_excess(100, 0, true), "a worker of its own is woken first: {word:?}");
        assert_eq!(word.fork(0).1.is_some(), is_free, "{word:?}");
        assert_eq!(word.kick().0.waking(), waking + 1);
    }
    assert!(!of(3, 1).need_more_worker() && of(3, 1).may_start() && of(3, 1).has_excess(2, 0, true));
    assert!(!of(4, 0).may_start() && !of(4, 0).too_many_running() && of(5, 0).too_many_running());
    assert!(of(4, 0).cover(false).0.too_many_running(), "surplus workers are shed");
    assert_eq!(of(2, 0).watch().0.unwatch(), word(2, 0, Some(2)).sharing());
    assert!(matches!(of(4, 0).abandoned().kick().1, Kick::Wake(_)), "issuers must find the mark");
    for uncoverable in [Running::unmanaged(), of(4, 0).abandoned()] {
        assert_eq!(uncoverable.cover(true), (uncoverable, false));
        assert_eq!(uncoverable.unwatch(), uncoverable);
    }
    for (target, limit) in [(3, 6), (1, 2), (usize::MAX, WAKING_MASK - 1)] {
        let (word, has_changed) = of(0, 0).retarget(target);
        assert!(has_changed && word.is_covered() && !word.is_abandoned());
        assert_eq!((word.limit(), word.cover(false).0.limit()), (limit, limit / 2), "{target}");
        assert_eq!(word.retarget(target), (word, false));
    }
}

/// spec: A3.8: siblings may take the items of a late pool, and a late pool takes no work of siblings.
#[test]
fn a_late_pool_gives_away_what_it_woke_a_worker_for_and_takes_nothing() {
    let pool = word(0, 1, Some(2)).sharing();
    assert!(!pool.has_excess(1, 0, true) && pool.takes_errands());
    let late = pool.late();
    assert!(late.has_excess(1, 0, true) && !late.has_excess(1, 1, true));
    assert_eq!(late.reserve(), (late, None), "the next worker that is woken here would not get a CPU either");
    assert!(matches!(late.kick().1, Kick::Wake(_)), "the pool still wakes workers for its own items");
    assert_eq!(late.in_time(), pool);
}

/// spec: E5
#[test]
fn an_abandoned_pool_is_told_of_every_push_and_takes_no_work_of_siblings() {
    let pool = word(0, 0, Some(1)).sharing();
    assert!(pool.takes_errands());
    let abandoned = pool.abandoned();
    assert!(matches!(abandoned.kick().1, Kick::Wake(_)));
    assert_eq!(abandoned.reserve(), (abandoned, None));
}

/// spec: E2.5: a pool that starves tells the manager only once in a check, even if the manager notes again that it has
/// no room for a worker of the pool.
#[test]
fn a_pool_that_starves_tells_the_manager_once_in_a_check() {
    let (short, is_known) = word(0, 1, Some(2)).short();
    assert!(is_known);
    let (told, kick) = short.kick();
    assert_eq!((told.is_short(), kick), (false, Kick::Starve));
    let again = told.short().0;
    assert!(matches!(again.kick_further().1, Kick::Wake(_)));
    let full = word(0, 1, Some(1)).short().0.unwatchable();
    assert_eq!(full.kick_further(), (full, Kick::Enough));
}

/// spec: W7.13, W7.14
#[test]
fn a_fork_wakes_one_worker_and_threads_that_wait_keep_their_places() {
    assert_eq!(word(2, 0, Some(2)).fork(0).1, None);
    let one = word(1, 0, Some(2));
    let (woken, reserved) = one.fork(0);
    assert!(reserved.is_some() && woken.waking() == 1);
    assert_eq!(woken.fork(0), (woken, None), "one worker comes, and wakes the next");
    assert_eq!(one.fork(1), (one, None), "the other place is that of a thread that waits for a fork");
    assert_eq!(word(0, 0, None).fork(0).1, None);
}

/// spec: W7.13
#[test]
fn siblings_take_the_forks_of_a_full_pool() {
    let table = [
        // running, waking, joining, helpers, may go
        (2, 0, 0, 0, true),
        (2, 0, 0, 1, false),
        (1, 0, 0, 0, false),
        (1, 1, 0, 0, true),
        (1, 0, 1, 0, true),
    ];
    for (running, waking, joining, helpers, may_go) in table {
        let word = word(running, waking, Some(2)).sharing();
        assert_eq!(word.has_excess_forks(joining, helpers), may_go, "{running} {waking} {joining} {helpers}");
    }
    assert!(word(0, 1, Some(2)).sharing().late().has_excess_forks(0, 0));
}

#[test]
fn a_full_pool_offers_if_it_has_siblings() {
    let full = word(1, 0, Some(1)).unwatchable();
    assert_eq!(full.kick(), (full, Kick::Enough));
    assert_eq!(full.sharing().kick(), (full.sharing(), Kick::Offer));
    assert!(matches!(word(0, 0, Some(1)).sharing().kick().1, Kick::Wake(_)));
}

#[test]
fn a_pool_keeps_at_least_one_runnable() {
    assert_eq!(Running::managed(0).target(), Some(1));
}
