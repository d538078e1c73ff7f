//! Table tests for the item's word. The module `world` compares the word with a plain model that has real lists.

mod world;

use super::*;

const A: ShardId = ShardId::new(0);
const B: ShardId = ShardId::new(1);
const C: ShardId = ShardId::new(2);
const UNNAMED: Known = Known { named: false, alike: false };
const NAMED: Known = Known { named: true, alike: false };
const NAMED_ALIKE: Known = Known { named: true, alike: true };

fn to(shard: ShardId) -> Target {
    Target { shard, ordered: false, revives: true }
}

/// Returns the target of a submission that comes while a flush of the queue waits.
fn flushed(shard: ShardId) -> Target {
    Target { revives: false, ..to(shard) }
}

fn in_order(shard: ShardId) -> Target {
    Target { ordered: true, revives: false, ..to(shard) }
}

fn idle() -> ItemState {
    ItemState::default()
}

/// Returns a pending item, whose entry lies on a list of A.
fn pending() -> ItemState {
    idle().queue(to(A)).0
}

/// Returns a cancelled item, whose entry still lies on a list of A.
fn cancelled() -> ItemState {
    pending().cancel().0
}

fn running() -> ItemState {
    pending().begin(A).0
}

/// Returns a running item that was queued to A once more.
fn running_and_pending() -> ItemState {
    running().queue(to(A)).0
}

/// Returns a running item that keeps its next entry, which a worker has popped from a list of A.
fn met() -> ItemState {
    running_and_pending().begin_slowly(A, UNNAMED).0
}

/// Returns an item that was queued to A and cancelled, and then queued to B and cancelled. The slow-path state names A.
fn stale() -> ItemState {
    cancelled().queue_slowly(to(B), UNNAMED).0.cancel().0
}

/// spec: W9.4 (an item may drop its own last handle): an item becomes *over*, so that it can be freed, exactly once:
/// when its last handle, entry or run is gone.
#[test]
fn an_item_is_over_when_nothing_refers_to_it() {
    let new = ItemState::new();
    assert!(!new.is_over());
    assert!(new.drop_handle().is_over(), "never queued");
    let cloned = new.add_handle().unwrap();
    assert!(!cloned.drop_handle().is_over());

    let queued = new.queue(to(A)).0.drop_handle();
    assert!(!queued.is_over(), "an accepted item runs");
    let running = queued.begin(A).0;
    assert!(!running.is_over());
    assert!(running.end().0.is_over());

    let cancelled = new.queue(to(A)).0.cancel().0.drop_handle();
    assert!(!cancelled.is_over(), "its entry still points at it");
    assert!(cancelled.begin(A).0.is_over());

    let full = ItemState(u64::MAX);
    assert_eq!(full.add_handle(), None);
}

/// spec: W2.1, W3: a submission makes an item pending, even while the item runs, unless the item is pending already.
#[test]
fn queueing_an_item() {
    let table = [
        (idle(), A, Queue::Push),
        (pending(), A, Queue::Coalesced),
        (pending(), B, Queue::Coalesced),
        (cancelled(), A, Queue::Revived),
        (cancelled(), B, Queue::Slow),
        (running(), A, Queue::Push),
        (running(), B, Queue::Push),
        (running_and_pending(), B, Queue::Coalesced),
        (met(), A, Queue::Coalesced),
        (met(), B, Queue::Coalesced),
        (stale(), B, Queue::Revived),
        (stale(), A, Queue::Slow),
        (stale(), C, Queue::Slow),
    ];
    for (word, shard, answer) in table {
        let (next, queue) = word.queue(to(shard));
        assert_eq!(queue, answer, "{word:?} to {shard:?}");
        let takes_effect = matches!(answer, Queue::Push | Queue::Revived);
        assert!(!takes_effect || next.is_pending() && next.home() == shard, "{next:?}");
        assert!(takes_effect || next == word, "{next:?}");
    }
}

#[test]
fn queueing_an_item_elsewhere_notes_or_revives_its_cancelled_entries() {
    assert!(cancelled().leaves(to(B), UNNAMED) && !cancelled().leaves(to(A), UNNAMED));
    let (word, queue) = cancelled().queue_slowly(to(B), UNNAMED);
    assert_eq!(queue, Queue::Push);
    assert!(word.is_pending() && word.is_stale() && word.home() == B);

    // The item is queued to A again, and the slow-path state names A's entry. Afterwards the slow-path state names B
    // instead.
    assert!(stale().leaves(to(A), UNNAMED));
    let (word, queue) = stale().queue_slowly(to(A), NAMED);
    assert_eq!(queue, Queue::Revived);
    assert!(word.is_pending() && word.is_stale() && word.home() == A);

    // A worker has popped the entry of B in the meantime, so no entry is left behind.
    let popped = stale().begin_slowly(B, UNNAMED).0;
    assert!(!popped.leaves(to(C), UNNAMED));
    assert_eq!(popped.queue_slowly(to(C), UNNAMED).1, Queue::Push);
}

/// spec: W3.1: at most one worker at a time executes an item.
#[test]
fn popping_an_entry() {
    let table = [
        (pending(), A, Begin::Run),
        (cancelled(), A, Begin::Stale),
        (running_and_pending(), A, Begin::Slow),
        (running_and_pending().cancel().0, A, Begin::Stale),
        (stale(), A, Begin::Slow),
        (stale(), B, Begin::Slow),
        (cancelled().queue_slowly(to(B), UNNAMED).0, A, Begin::Slow),
        (cancelled().queue_slowly(to(B), UNNAMED).0, B, Begin::Slow),
    ];
    for (word, shard, answer) in table {
        let (next, begin) = word.begin(shard);
        assert_eq!(begin, answer, "{word:?} from {shard:?}");
        assert_eq!(next.is_running(), word.is_running() || answer == Begin::Run);
    }
}

/// spec: W3: an item that was queued while it ran runs again after its run has ended.
#[test]
fn the_runner_puts_the_entry_back_that_met_its_item() {
    assert_eq!(running().end(), (idle(), End::Idle));
    assert_eq!(running_and_pending().end(), (pending(), End::Idle));
    assert_eq!(met().end(), (met(), End::Slow));
    assert_eq!(met().end_slowly(), (pending(), End::PutBack));
    // The run ended, or the item was cancelled, before the other worker got the slow-path state's lock.
    assert_eq!(running_and_pending().end().0.begin_slowly(A, UNNAMED).1, Begin::Run);
    assert_eq!(running_and_pending().cancel().0.begin_slowly(A, UNNAMED).1, Begin::Stale);
}

/// spec: F3.1: cancelling an item tells whether the item was pending.
#[test]
fn cancelling_an_item() {
    let table = [
        (idle(), Cancel::NotPending),
        (pending(), Cancel::Done),
        (cancelled(), Cancel::NotPending),
        (running(), Cancel::NotPending),
        (running_and_pending(), Cancel::Done),
        (met(), Cancel::Slow),
    ];
    for (word, answer) in table {
        let (next, cancel) = word.cancel();
        assert_eq!(cancel, answer, "{word:?}");
        assert_eq!(next.is_pending(), answer == Cancel::Slow);
    }
    assert_eq!(met().cancel_slowly(), (running(), true));
    // The runner put the entry back before the canceller got the slow-path state's lock.
    assert_eq!(met().end_slowly().0.cancel_slowly(), (cancelled(), true));
}

/// A worker has popped the entry of A, which the slow-path state names, and waits for the slow-path state's lock.
/// Meanwhile the item is queued to A again, which revives this entry. The worker asks again under the lock, and runs
/// the item.
#[test]
fn an_entry_revived_between_its_pop_and_the_slow_path_runs() {
    let (word, begin) = stale().begin(A);
    assert_eq!(begin, Begin::Slow);
    let (word, queue) = word.queue_slowly(to(A), NAMED);
    assert_eq!(queue, Queue::Revived);
    assert_eq!(word.begin_slowly(A, UNNAMED).1, Begin::Run);
}

#[test]
fn the_highest_shard_id_fits_the_word() {
    let last = ShardId::new(ShardId::MAX);
    let word = idle().queue(to(last)).0;
    assert_eq!(word.home(), last);
    assert_eq!(word.begin(last).1, Begin::Run);
}

/// Returns an item that is pending by a timer, and has no entry on any list.
fn armed() -> ItemState {
    idle().arm_slowly(false).0
}

/// spec: W5.1, F3: arming a timer tells whether the item was pending, and is refused if the item is disabled.
#[test]
fn arming_an_item() {
    let table = [
        (idle(), false, Arm::Armed { was_pending: false }),
        (running(), false, Arm::Armed { was_pending: false }),
        (cancelled(), false, Arm::Armed { was_pending: false }),
        (pending(), false, Arm::Coalesced),
        (armed(), false, Arm::Coalesced),
        (pending(), true, Arm::Armed { was_pending: true }),
        (armed(), true, Arm::Armed { was_pending: true }),
        (met(), true, Arm::Armed { was_pending: true }),
        (idle().disable_slowly().0, true, Arm::Refused),
    ];
    for (word, again, answer) in table {
        let (next, arm) = word.arm_slowly(again);
        assert_eq!(arm, answer, "{word:?} again: {again}");
        assert_eq!(next.is_armed(), word.is_armed() || matches!(answer, Arm::Armed { .. }));
        assert!(!next.is_met() || !next.is_armed(), "an armed item has no kept entry");
    }
}

/// spec: W5: the cancelled entry of an armed item runs the item only after the timer has fired in the entry's shard.
#[test]
fn the_cancelled_entry_of_an_armed_item_does_not_run_it() {
    let word = cancelled().arm_slowly(false).0;
    assert_eq!(word.begin(A).1, Begin::Stale);
    assert_eq!(word.abandon_slowly(A, UNNAMED).1, Begin::Stale);
    let (fired, queue) = word.fire_slowly(to(A), UNNAMED);
    assert_eq!(queue, Queue::Revived);
    assert!(!word.disarmed().leaves(to(A), UNNAMED) && word.disarmed().leaves(to(B), UNNAMED));
    assert_eq!(fired.begin(A).1, Begin::Run);
    assert_eq!(armed().fire_slowly(to(B), UNNAMED).1, Queue::Push);
}

/// spec: F3.3: disabling an item cancels its pending submission, and a disabled item refuses submissions.
#[test]
fn a_disabled_item_is_not_pending_and_cannot_become_so() {
    for word in [idle(), pending(), armed(), met(), running()] {
        let (disabled, was_pending) = word.disable_slowly();
        assert_eq!(was_pending, word.is_pending());
        assert!(!disabled.is_pending() && !disabled.is_armed() && disabled.is_disabled());
        assert_eq!(disabled.queue(to(A)), (disabled, Queue::Refused));
        assert_eq!(disabled.queue_slowly(to(A), NAMED), (disabled, Queue::Refused));
        assert!(!disabled.leaves(to(B), UNNAMED), "no entry is noted for a refused submission");
        assert_eq!(disabled.is_running(), word.is_running(), "the run goes on");
        assert!(!disabled.enable_slowly().is_disabled());
    }
    let forgotten = ItemState::new().disable_slowly().0.drop_handle();
    assert!(forgotten.is_over(), "a disabled item need not be enabled to be freed");
}

/// spec: F2.1: a thread waits for an item's pending submission, or otherwise for its run. No thread waits for an idle
/// item.
#[test]
fn the_last_submission_is_the_pending_one_or_else_the_run() {
    let table = [
        (idle(), Instance::None),
        (cancelled(), Instance::None),
        (pending(), Instance::Pending),
        (armed(), Instance::Pending),
        (running(), Instance::Running),
        (running_and_pending(), Instance::Pending),
    ];
    for (word, instance) in table {
        let (next, answer) = word.wait_slowly();
        assert_eq!(answer, instance, "{word:?}");
        // While a thread waits, the beginning, the end and the cancelling of a run take the slow path.
        if instance != Instance::None {
            assert_eq!(next.begin(A).1, Begin::Slow);
            assert!(!next.is_running() || next.end().1 == End::Slow);
            assert!(!next.is_pending() || next.cancel().1 == Cancel::Slow);
            assert_eq!(next.nothing_attached(), word);
        }
    }
}

/// spec: Q4.3: in an ordered queue, a cancelled entry keeps its place, and is dropped before any later entry runs.
#[test]
fn in_an_ordered_queue_a_cancelled_entry_is_not_revived() {
    let ordered = in_order(A);
    assert_eq!(cancelled().queue(ordered), (cancelled(), Queue::Slow));
    assert!(cancelled().leaves(ordered, UNNAMED));
    let (word, queue) = cancelled().queue_slowly(ordered, UNNAMED);
    assert_eq!(queue, Queue::Push);
    assert_eq!(word.begin(A).1, Begin::Slow);
    assert_eq!(word.begin_slowly(A, NAMED), (word, Begin::Strike), "the older one");
    assert_eq!(word.nothing_stale().begin(A).1, Begin::Run, "the later one");
}

/// spec: F1.2: while a flush waits, a cancelled entry is not revived. Workers can pop the cancelled and the new entry
/// in either order, so the tickets tell which entry is the later one.
#[test]
fn while_a_flush_waits_a_cancelled_entry_is_not_revived() {
    assert_eq!(cancelled().queue(flushed(A)), (cancelled(), Queue::Slow));
    assert_eq!(cancelled().queue_without_entry(flushed(A)), (cancelled(), Queue::Slow));
    assert!(cancelled().leaves(flushed(A), UNNAMED));
    let (word, queue) = cancelled().queue_slowly(flushed(A), UNNAMED);
    assert_eq!(queue, Queue::Push);
    assert_eq!(word.begin_slowly(A, NAMED), (word, Begin::Strike), "the older one");
    let (run, begin) = word.begin_slowly(A, NAMED_ALIKE);
    assert_eq!(begin, Begin::Run, "the later one");
    assert_eq!(run.begin_slowly(A, NAMED_ALIKE), (run, Begin::Strike), "no entry is at home any more");
    assert_eq!(word.abandon_slowly(A, NAMED), (word, Begin::Strike));
    assert_eq!(word.abandon_slowly(A, NAMED_ALIKE).1, Begin::Run);
    // While a flush waits, an entry that only the slow-path state names is not revived either.
    assert_eq!(stale().queue_slowly(flushed(A), NAMED).1, Queue::Push);
}

/// If an item is cancelled and queued again many times while flushes wait, it has at most one entry for each flush,
/// plus one.
#[test]
fn an_entry_that_no_flush_tells_from_a_new_one_is_revived() {
    let again = cancelled().queue_slowly(flushed(A), UNNAMED).0.cancel().0;
    assert!(!again.leaves(flushed(A), NAMED_ALIKE) && again.leaves(flushed(A), NAMED));
    assert_eq!(again.queue_slowly(flushed(A), NAMED_ALIKE).1, Queue::Revived);
    assert_eq!(again.queue_slowly(flushed(A), NAMED).1, Queue::Push);
    // An entry of another shard is not revived.
    assert!(again.leaves(flushed(B), NAMED_ALIKE));
    assert_eq!(again.queue_slowly(flushed(B), NAMED_ALIKE).1, Queue::Push);
}

/// spec: Q3.4: some timers need room when they are armed, and other timers are accepted even beyond the queue's bound.
#[test]
fn a_timer_needs_room_where_an_entry_stays() {
    let target = |ordered: bool| if ordered { in_order(A) } else { to(A) };
    let table = [
        // The item is idle, and its timer is due later or immediately.
        (ItemState::new(), true, false, Room::None),
        (ItemState::new(), true, true, Room::Place),
        (ItemState::new(), false, true, Room::Place),
        // The item's cancelled or pending entry keeps its place, and is revived unless the queue is ordered.
        (cancelled(), true, false, Room::Left),
        (pending(), true, false, Room::Left),
        (pending(), true, true, Room::Place),
        (pending(), false, false, Room::None),
        (pending(), false, true, Room::None),
        // Replacing a timer leaves no entry behind.
        (armed(), true, false, Room::None),
    ];
    for (word, ordered, now, room) in table {
        assert_eq!(word.room_to_arm(target(ordered), false, now, true), room, "{word:?}, {ordered}, {now}");
    }
    let elsewhere = in_order(B);
    assert_eq!(pending().room_to_arm(elsewhere, false, false, true), Room::None);
    assert_eq!(pending().room_to_arm(elsewhere, true, false, true), Room::Left, "an older entry");
    assert_eq!(pending().room_to_arm(target(true), false, false, false), Room::None, "it coalesces");
    assert_eq!(cancelled().room_to_arm(flushed(A), false, true, true), Room::Place, "a flush waits");
    let disabled = cancelled().disable_slowly().0;
    assert_eq!(disabled.room_to_arm(target(true), false, true, true), Room::None, "it is refused");
}
