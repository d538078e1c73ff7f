//! Shows, step by step, the only case in which a flush waits for a later run.
//!
//! When the flush begins, a thread has begun to queue a reusable item. So the flush waits for the entry of this thread.
//! Then a later submission of the item runs. If a worker pops the first thread's entry during this run, the item keeps
//! the entry until the run ends. So the flush waits for the run.

#![forbid(unsafe_code)]

use crate::runs::flushes::{Limiter, State, World};

/// Makes a world with one limiter, which has a slot for each item.
fn world() -> World {
    World { limiters: vec![Limiter::new(3)], ..World::new(0, false) }
}

/// Begins a flush. Then another thread submits the reusable item, and a worker runs it. Returns the entry of the run.
fn flush_and_run(world: &mut World, waits_for: Option<usize>) -> usize {
    world.flush();
    let later = world.items.len();
    world.begin_issue(0, 0, waits_for);
    world.end_issue(world.issues.len() - 1);
    world.go_on(later);
    assert_eq!(world.items[later].state, State::Running, "the run has an entry of its own");
    later
}

/// Lets this item report that it has left, and ends the count of the flush, which waits for this item.
fn end_count(world: &mut World, item: usize) {
    assert_eq!(world.items[item].state, State::Reporting);
    world.report(item);
    world.end_count();
}

fn is_over(world: &World) -> bool {
    world.check();
    world.flushers[0].is_over()
}

/// spec: F1.6 (the exception): a run that waits for the flush hangs. If the run does not wait, the flush ends after the
/// next run, which uses the entry of the first thread.
#[test]
fn a_flush_waits_for_a_later_run_that_keeps_an_entry_from_before_the_flush() {
    for waits_for in [None, Some(0)] {
        let mut world = world();
        world.begin_issue(0, 0, None);
        let later = flush_and_run(&mut world, waits_for);
        world.end_issue(0);
        world.go_on(0);
        assert_eq!(world.items[0].state, State::Kept);
        world.end_work(later);
        assert!(!is_over(&world));
        if waits_for.is_some() {
            // No thread has a step left: the flush waits for the entry, and the run waits for the flush.
            assert_eq!([0, later].map(|item| world.items[item].state), [State::Kept, State::Running]);
        } else {
            world.go_on(0);
            world.end_work(0);
            end_count(&mut world, 0);
            assert!(is_over(&world));
        }
    }
}

/// spec: F1.2, F1.6 (no other exception): the item keeps an entry that a thread began to queue after the flush had
/// begun. So the run can wait for the flush without a deadlock.
#[test]
fn a_flush_does_not_wait_for_a_later_run_that_keeps_an_entry_from_after_the_flush() {
    let mut world = world();
    world.come();
    let later = flush_and_run(&mut world, Some(0));
    world.begin_issue(0, 0, None);
    world.end_issue(0);
    world.go_on(2);
    assert_eq!(world.items[2].state, State::Kept);
    world.go_on(0);
    end_count(&mut world, 0);
    assert!(is_over(&world));
    world.end_work(later);
    assert_eq!(world.items[later].state, State::Done);
}

/// spec: F1.2, F1.6 (no other exception): the first thread has ended its call before the flush, and the item was
/// cancelled. The item does not keep the cancelled entry. So the run can wait for the flush without a deadlock.
#[test]
fn a_flush_does_not_wait_for_a_later_run_beside_a_cancelled_entry() {
    let mut world = world();
    world.begin_issue(0, 0, None);
    world.end_issue(0);
    assert!(world.works[0].cell.cancel().was_pending);
    let later = flush_and_run(&mut world, Some(0));
    world.go_on(0);
    end_count(&mut world, 0);
    assert!(is_over(&world));
    world.end_work(later);
    assert_eq!(world.items[later].state, State::Done);
}
