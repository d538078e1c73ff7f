//! Tables that show which worker is woken, made or culled.

use std::cell::Cell;
use std::time::Duration;

use super::super::concurrency::{Kick, Running};
use super::super::cpu_set::CpuSet;
use super::*;

const LIMITS: IdleLimits = IdleLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4, min_idle: 2 };

fn reserved() -> Reserved {
    match Running::managed(1).kick().1 {
        Kick::Wake(reserved) => reserved,
        other => unreachable!("an idle pool wakes, got {other:?}"),
    }
}

fn at(seconds: u64) -> Time {
    Time::default() + Duration::from_secs(seconds)
}

const NOW: fn() -> Time = Time::default;

/// Returns the time at which rescuers are called if a call for help begins now.
fn first_mayday() -> Time {
    Time::default() + Duration::from_millis(10)
}

/// Returns whether the idle set calls for help.
fn calls(idle_set: &IdleSet) -> bool {
    idle_set.needs_help() && idle_set.next_deadline().is_some()
}

/// Returns an idle set of `n` workers, numbered from 0, that became idle at intervals of one second.
fn idle_workers(n: u32) -> IdleSet {
    let mut idle_set = IdleSet::new(LIMITS);
    for id in 0..n {
        assert!(idle_set.arrived(id, None, at(u64::from(id))) == Rest::Park);
    }
    idle_set
}

/// spec: C3.2: without an idle worker, a reservation makes the pool ask for a worker, and then for a spare.
#[test]
fn the_first_reservation_makes_a_worker_and_that_one_a_spare() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
    assert!(idle_set.is_help_coming());
    // The first worker to arrive begins. Another reservation waits, so the pool asks for one more worker immediately.
    assert_eq!(idle_set.arrived(0, None, at(0)), Rest::Start(reserved(), Prepare::CreateSpare));
    assert_eq!(idle_set.arrived(1, None, at(0)), Rest::Start(reserved(), Prepare::CreateSpare));
    assert_eq!(idle_set.arrived(2, None, at(0)), Rest::Park);
    assert!(!idle_set.is_help_coming());
}

/// spec: Q1 (bh: one context), C3 (need to create): the worker is made once even if several deadlines repeat the
/// attempt.
#[test]
fn a_worker_that_was_asked_for_once_is_made_once() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert!(!idle_set.begin_making(), "none was asked for");
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    let attempts: [fn(&mut IdleSet) -> bool; 2] =
        [IdleSet::still_wanted, |idle_set| idle_set.no_room(true, true, false).0 != Shortage::None];
    for attempt_ends in attempts {
        assert!(idle_set.begin_making());
        assert!(!idle_set.begin_making(), "it is being made");
        idle_set.unserved(|| unreachable!("so no call is needed"));
        assert!(attempt_ends(&mut idle_set), "it is tried again");
    }
    assert!(idle_set.begin_making());
    assert_eq!(idle_set.arrived(0, None, at(0)), Rest::Start(reserved(), Prepare::CreateSpare));
    assert!(idle_set.begin_making(), "the spare");
}

/// spec: C3.2: when the last idle worker is woken, it asks for a spare before it begins.
#[test]
fn the_last_idle_worker_asks_for_a_spare_before_it_begins() {
    let mut idle_set = idle_workers(2);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(1));
    assert_eq!(idle_set.woken().1, Prepare::Ready);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(0));
    assert_eq!(idle_set.woken().1, Prepare::CreateSpare);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
}

/// spec: Q1.3 (bh: one context)
#[test]
fn an_idle_set_of_one_never_asks_for_a_second() {
    let mut idle_set = IdleSet::of_one(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    assert_eq!(idle_set.arrived(0, None, at(0)), Rest::Start(reserved(), Prepare::Ready));
    assert!(!idle_set.awaits_worker());
    assert_eq!(idle_set.rest(0, None, at(1)), Rest::Park);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(0));
    assert_eq!(idle_set.woken(), (reserved(), Prepare::Ready));
    assert!(!idle_set.still_wanted() && !idle_set.is_help_coming());
    // After the pool has given its only worker's thread to another pool, it asks for a new worker.
    assert_eq!(idle_set.rest(0, None, at(2)), Rest::Park);
    assert_eq!(idle_set.give_up_one(), Some(0));
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
}

#[test]
fn the_most_recently_idle_worker_is_woken_first() {
    let mut idle_set = idle_workers(3);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(2));
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(1));
}

/// spec: C1.2 (another worker starts at once), C5: a blocked worker's replacement starts on the CPU that becomes free.
#[test]
fn a_worker_that_blocks_wakes_one_that_ran_on_its_cpu() {
    let mut idle_set = IdleSet::new(LIMITS);
    for (id, cpu) in [(0, 7), (1, 5), (2, 7), (3, 5)] {
        assert!(matches!(idle_set.arrived(id, Some(cpu), at(0)), Rest::Park));
    }
    assert_eq!(idle_set.kick(reserved(), Some(7), NOW), Wake::Unpark(2));
    assert_eq!(idle_set.kick(reserved(), Some(7), NOW), Wake::Unpark(0));
    assert_eq!(
        idle_set.kick(reserved(), Some(7), NOW),
        Wake::Unpark(3),
        "an idle worker of any CPU, at worst"
    );
}

/// spec: C1.2 (another worker starts at once), C5: a woken worker begins on the CPU that its waker leaves if no other
/// CPU is free.
#[test]
fn a_worker_for_the_only_free_cpu_begins_there() {
    let reserved_beside = |running: usize| {
        let word = (0..running).fold(Running::managed(2), |word, _| word.come_back());
        let (word, kick) = word.kick();
        assert!(matches!(kick, Kick::Wake(_)));
        word
    };
    let (full, half_empty) = (reserved_beside(1), reserved_beside(0));
    assert!(must_take(0, 1, full));
    assert!(!must_take(0, 0, full), "the system puts it there");
    assert!(!must_take(0, 1, half_empty), "another one is free");
    assert!(
        must_take(0, 1, full.cover(true).0),
        "no CPU is free, although the pool would wake another worker"
    );
}

/// spec: C3.3 (returning workers overshoot and are shed), C5: the surplus worker that goes idle shares its CPU, so no
/// CPU of the pod becomes free.
#[test]
fn of_too_many_workers_one_that_shares_its_cpu_leaves() {
    assert!(should_shed(0, [0, 1].into_iter()), "it shares its own");
    assert!(!should_shed(1, [0, 0].into_iter()), "it has its CPU to itself, the others share one");
    assert!(should_shed(2, [0, 1].into_iter()), "no two seem to share a CPU: the known CPUs are out of date");
    assert!(should_shed(0, [].into_iter()));
    assert!(!should_shed(0, [127, 128, 300, 128].into_iter()), "two others share a CPU with a high number");
    assert!(should_shed(0, [127, 128, 300].into_iter()));
}

/// `should_shed` checks each of the other workers at most once, because its caller holds the pool's lock.
#[test]
fn each_other_worker_is_looked_at_once_to_choose_who_leaves() {
    for shared in [None, Some(0), Some(254)] {
        let taken = Cell::new(0);
        let others = (1..256).chain(shared).inspect(|_| taken.set(taken.get() + 1));
        assert_eq!(should_shed(0, others), shared != Some(254), "{shared:?}");
        assert!(taken.get() <= 256, "{} looks", taken.get());
    }
}

/// spec: A2 (in its pod, as long as that has a CPU), S1
#[test]
fn a_replacement_begins_on_a_free_cpu_at_home() {
    let set = |cpus: &[usize]| cpus.iter().copied().collect::<CpuSet>();
    let all = set(&[0, 1, 2, 3]);
    let (no_home, second_half, lost) = (None, Some(set(&[2, 3])), Some(set(&[8])));
    for (home, taken, preferred, cpu) in [
        (&no_home, set(&[0, 2]), 3, Some(3)),
        (&no_home, set(&[0, 2]), 2, Some(1)),
        (&no_home, all.clone(), 2, None),
        (&second_half, set(&[]), 3, Some(3)),
        (&second_half, set(&[2]), 1, Some(3)),
        (&second_half, set(&[2, 3]), 1, None),
        (&lost, set(&[0]), 0, Some(1)),
    ] {
        assert_eq!(free_cpu(&all, home.as_ref(), &taken, preferred), cpu, "{home:?} {taken:?} {preferred}");
    }
}

#[test]
fn a_worker_that_becomes_idle_serves_a_waiting_reservation() {
    let mut idle_set = idle_workers(1);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(0));
    assert_eq!(idle_set.woken().1, Prepare::CreateSpare);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
    assert_eq!(idle_set.rest(0, None, at(9)), Rest::Start(reserved(), Prepare::Ready));
}

/// spec: C8.1: idle workers leave after the idle timeout, until two are left.
#[test]
fn idle_workers_leave_after_the_timeout_down_to_two() {
    let mut idle_set = idle_workers(2);
    assert_eq!(idle_set.next_deadline(), None);
    for id in [2, 3] {
        assert_eq!(idle_set.arrived(id, None, at(u64::from(id))), Rest::Park);
        assert_eq!(idle_set.next_deadline(), Some(at(300)));
    }
    assert_eq!(idle_set.cull(at(299)), [0; 0]);
    assert_eq!(idle_set.cull(at(300)), [0]);
    assert_eq!(idle_set.next_deadline(), Some(at(301)));
    assert_eq!(idle_set.cull(at(1000)), [1]);
    assert_eq!(idle_set.next_deadline(), None);
    assert_eq!((idle_set.alive(), idle_set.idle()), (2, 2));
}

/// spec: C8.1: as many idle workers stay as the floor (`min_idle`) says.
#[test]
fn as_many_idle_workers_stay_as_the_floor_says() {
    let mut idle_set = IdleSet::new(IdleLimits { min_idle: 4, ..LIMITS });
    for id in 0..4 {
        assert_eq!(idle_set.arrived(id, None, at(0)), Rest::Park);
    }
    assert_eq!(idle_set.next_deadline(), None);
    assert_eq!(idle_set.arrived(4, None, at(1)), Rest::Park);
    assert_eq!(idle_set.cull(at(300)), [0]);
    assert_eq!((idle_set.next_deadline(), idle_set.idle()), (None, 4));
}

/// spec: C8.3: a pool that makes workers in advance asks for one at a time, until it has `min_idle` workers.
#[test]
fn workers_are_made_ahead_one_after_the_other() {
    let mut idle_set = IdleSet::new(IdleLimits { min_idle: 3, ..LIMITS });
    assert_eq!(idle_set.prestart(), Prepare::CreateSpare);
    assert_eq!(idle_set.prestart(), Prepare::Ready, "a worker was asked for");
    for id in 0..3 {
        assert!(idle_set.begin_making());
        assert_eq!(idle_set.arrived(id, None, at(0)), Rest::Park);
        let expected = if id < 2 { Prepare::CreateSpare } else { Prepare::Ready };
        assert_eq!(idle_set.next_ahead(), expected);
    }
    assert_eq!(idle_set.prestart(), Prepare::Ready);
    // If workers leave, no other workers are made in their place.
    let _ = idle_set.give_up_one();
    assert_eq!(idle_set.next_ahead(), Prepare::Ready);
}

/// spec: C8.3: a pool stops making workers in advance at the cap of threads, or if a worker cannot be made.
#[test]
fn no_worker_is_made_ahead_that_cannot_be_made() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.prestart(), Prepare::CreateSpare);
    assert!(idle_set.begin_making());
    assert_eq!(idle_set.no_room(true, true, false).0, Shortage::None);
    assert!(!idle_set.is_creating());
    assert_eq!(idle_set.next_ahead(), Prepare::Ready);
    assert_eq!(idle_set.prestart(), Prepare::CreateSpare);
    assert!(idle_set.begin_making());
    assert!(!idle_set.still_wanted());
    // A pool of one worker makes no second worker.
    let mut context = IdleSet::of_one(LIMITS);
    assert_eq!(context.prestart(), Prepare::CreateSpare);
    assert_eq!(context.arrived(0, None, at(0)), Rest::Park);
    assert_eq!(context.next_ahead(), Prepare::Ready);
}

/// spec: C8.1
#[test]
fn one_more_idle_worker_stays_for_four_busy_ones() {
    for (alive, busy, too_many) in [(3, 0, true), (7, 4, true), (8, 5, false), (12, 8, true), (2, 0, false)] {
        let mut idle_set = idle_workers(alive);
        for _ in 0..busy {
            let _ = idle_set.kick(reserved(), None, NOW);
        }
        assert_eq!(idle_set.too_many_workers(), too_many, "{busy} of {alive} busy");
    }
}

/// spec: P1.3
#[test]
fn a_failed_creation_is_tried_again_only_while_wanted() {
    let mut idle_set = idle_workers(1);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(0));
    assert_eq!(idle_set.woken().1, Prepare::CreateSpare);
    assert!(idle_set.still_wanted(), "the spare is still missing");
    assert!(idle_set.is_help_coming());
    assert_eq!(idle_set.rest(0, None, at(0)), Rest::Park);
    assert!(!idle_set.still_wanted(), "an idle worker is back");
    assert!(!idle_set.is_help_coming());
}

/// spec: E2.5 (max threads): an idle set that has given up its last worker wants no spare. If it wanted a spare, the
/// manager would always try its pool first, and pools with work would wait.
#[test]
fn an_idle_set_that_gave_its_last_worker_up_wants_no_spare() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    let Rest::Start(_, Prepare::CreateSpare) = idle_set.arrived(0, None, at(0)) else {
        panic!("it is wanted")
    };
    assert_eq!(idle_set.rest(0, None, at(0)), Rest::Park);
    assert_eq!(idle_set.give_up_one(), Some(0));
    assert!(!idle_set.still_wanted());
}

/// spec: E2.5 (max threads): at the cap, a pool waits for room for a reservation, but not for a spare.
#[test]
fn a_spare_does_not_wait_for_room() {
    let mut idle_set = idle_workers(1);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(0));
    assert_eq!(idle_set.woken().1, Prepare::CreateSpare);
    assert_eq!(idle_set.no_room(true, true, true).0, Shortage::None, "a mere spare");
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create, "it blocked: now a reservation waits");
    assert_eq!(idle_set.no_room(true, false, false).0, Shortage::Waits);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
}

/// spec: E2.5, W7.13: at the cap, a reservation does not outlive the work for which it was made. A reservation for the
/// work of a sibling stays, because this pool does not know that work.
#[test]
fn a_reservation_without_work_does_not_wait_for_room() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    assert_eq!(idle_set.no_room(true, false, false), (Shortage::Waits, vec![]));
    assert_eq!(idle_set.no_room(false, false, true), (Shortage::None, vec![reserved()]));
    assert!(!idle_set.is_creating());
    let errand = || reserved().on_errand(3);
    assert_eq!(idle_set.kick(errand(), None, NOW), Wake::Create);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
    assert_eq!(idle_set.no_room(false, false, false), (Shortage::Waits, vec![reserved()]));
    assert_eq!(idle_set.no_room(false, true, false), (Shortage::Waits, vec![]), "the work is a sibling's");
    assert_eq!(idle_set.no_room(false, true, true), (Shortage::Starves, vec![]), "for too long");
    assert!(idle_set.still_wanted());
}

#[test]
fn reservations_that_no_thread_can_serve_are_returned() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    assert_eq!(idle_set.no_worker_comes(), vec![reserved()]);
    assert!(!idle_set.is_help_coming());
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create, "asked for anew");
}

#[test]
fn a_closing_idle_set_lets_all_workers_go() {
    let mut idle_set = idle_workers(3);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(2));
    assert_eq!(idle_set.close(), vec![0, 1]);
    assert_eq!(idle_set.woken().1, Prepare::Ready, "no spare is made any more");
    assert_eq!(idle_set.rest(2, None, at(1)), Rest::Exit);
    assert_eq!(idle_set.arrived(3, None, at(1)), Rest::Exit);
    assert_eq!(idle_set.alive(), 0);
}

#[test]
fn a_pool_gives_up_its_oldest_idle_worker() {
    let mut idle_set = idle_workers(2);
    assert_eq!(idle_set.give_up_one(), Some(0));
    assert_eq!(idle_set.give_up_one(), Some(1));
    assert_eq!(idle_set.give_up_one(), None);
    assert_eq!(idle_set.alive(), 0);
}

/// spec: P2.3: an idle set calls for help while a reservation waits for a worker that cannot be made.
#[test]
fn an_idle_set_calls_for_help_while_work_waits_for_a_worker_that_cannot_be_made() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    assert!(!idle_set.needs_help(), "it is being made");
    idle_set.unserved(NOW);
    assert!(idle_set.needs_help());
    assert_eq!(idle_set.next_deadline(), Some(first_mayday()));
    assert_eq!(idle_set.kick(reserved(), None, || unreachable!("one call is enough")), Wake::Wait);
    assert!(idle_set.still_wanted());
    idle_set.unserved(|| unreachable!("it failed again, and still calls"));
    assert!(calls(&idle_set));
    let Rest::Start(..) = idle_set.arrived(0, None, at(1)) else { panic!("two wait for it") };
    assert!(!idle_set.needs_help(), "it could be made, and the next one is asked for");
    assert_eq!(idle_set.next_deadline(), None);
}

/// spec: P2.3: until a worker blocks, only a spare is missing. The call for help begins when a worker blocks, not at
/// the manager's next check.
#[test]
fn an_idle_set_without_a_spare_calls_when_a_worker_blocks() {
    let mut idle_set = idle_workers(1);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Unpark(0));
    assert_eq!(idle_set.woken().1, Prepare::CreateSpare);
    idle_set.unserved(|| unreachable!("no reservation waits for a spare"));
    assert!(!idle_set.needs_help());
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
    assert!(calls(&idle_set), "a reservation waits for it now");
    // The blocked worker is back, so the call ends. The next reservation begins a new call.
    assert!(matches!(idle_set.rest(0, None, at(1)), Rest::Start(..)));
    assert_eq!(idle_set.next_deadline(), None);
    assert_eq!(idle_set.kick(reserved(), None, || at(5)), Wake::Wait);
    assert_eq!(idle_set.next_deadline(), Some(at(5) + Duration::from_millis(10)));
}

/// spec: P2.8 (an idle executor makes no wake-ups): the call for help ends when rescuers have done the work.
#[test]
fn an_idle_set_without_work_stands_down_and_calls_anew_for_the_next() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    idle_set.unserved(NOW);
    assert_eq!(idle_set.stand_down(), vec![reserved()]);
    assert!(!idle_set.needs_help() && idle_set.next_deadline().is_none());
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
    assert!(calls(&idle_set), "the worker is still missing");
    assert_eq!(idle_set.stand_down(), vec![reserved()]);
    assert!(!idle_set.still_wanted(), "no reservation wants a worker");
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create, "asked for anew");
}

/// spec: P2: the call for help continues if work is left when a deadline comes or a rescuer leaves.
#[test]
fn a_call_goes_on_while_there_is_work_and_ends_with_its_reservations() {
    let mut idle_set = IdleSet::new(LIMITS);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    idle_set.unserved(NOW);
    assert_eq!(idle_set.mayday(NOW(), true), Mayday::Nothing, "it is not time yet");
    assert_eq!(idle_set.mayday(first_mayday(), true), Mayday::Call);
    assert_eq!(idle_set.relieved(true), []);
    assert_eq!(idle_set.mayday(first_mayday(), true), Mayday::Nothing, "the next deadline is later");
    assert_eq!(idle_set.mayday(at(1), false), Mayday::StandDown(vec![reserved()]));
    assert_eq!(idle_set.mayday(at(2), true), Mayday::Nothing);
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Wait);
    assert!(calls(&idle_set), "the next push calls anew");
    assert_eq!(idle_set.relieved(false), [reserved()]);
    assert_eq!(idle_set.relieved(false), []);
}

/// spec: P1.4 (nothing is orphaned), E2 (max threads)
#[test]
fn a_closed_or_satisfied_idle_set_does_not_call() {
    let mut idle_set = IdleSet::new(LIMITS);
    idle_set.unserved(|| unreachable!("it asked for nothing"));
    assert_eq!(idle_set.kick(reserved(), None, NOW), Wake::Create);
    idle_set.unserved(NOW);
    let _none_was_idle = idle_set.close();
    assert!(!idle_set.needs_help());
    assert_eq!(idle_set.mayday(first_mayday(), true), Mayday::Nothing);
    assert_eq!(idle_set.next_deadline(), None);
}
