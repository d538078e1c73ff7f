//! Divides the executor's bounds on pending items, and on the bytes of pending items, among the queues. If the
//! executor bounds the items, this module decides how many items of a queue may be pending. If the executor bounds the
//! bytes, this module decides how many bytes a queue's pending items may have.
//!
//! A queue may have up to [`SHARE`] times as many pending items as there is free room in the executor. So queues with
//! long backlogs never use up the room: a lone queue fills eight ninths of it, and two queues fill eight seventeenths
//! each. If further queues need room, the executor first refuses new items of the queues with the longest backlogs,
//! until some items of these queues begin. (Network switches divide their memory among ports by this rule, which is
//! called *dynamic thresholds*.)
//!
//! The same rule applies to items and to bytes. A queue without pending items may always accept one item, of any size.
//! Otherwise, a queue without pending items might have to wait for items of other queues, while those items wait for an
//! item of this queue. Because of this exception, the executor may exceed its bound by one item for each queue. While a
//! delayed item waits for its time, its bytes count towards the bound on bytes, but the item does not count towards the
//! bound on items.

#![forbid(unsafe_code)]

/// A queue may have this many times as many pending items as there is free room.
const SHARE: u64 = 8;

/// Returns how many pending items a queue may have. The queue has `own` pending items now, all queues together have
/// `pending`, and the executor permits `bound`.
#[inline]
pub(crate) const fn most(bound: u64, pending: u64, own: u64) -> u64 {
    let free = bound.saturating_sub(pending);
    // Each further item also takes up free room. `more` is the number of further items that the queue can take. The
    // queue takes these items one by one, each of them only while the queue has less than its share.
    let more = (free.saturating_add(1).saturating_mul(SHARE)).saturating_sub(own) / (SHARE + 1);
    if own == 0 && more == 0 { 1 } else { own + more }
}

/// An item counts for at most this many bytes, so that no sum overflows.
const MOST_BYTES: u64 = 1 << 48;

/// Returns how many bytes are counted for an item of size `bytes`.
pub(crate) const fn counted(bytes: u64) -> u64 {
    if bytes < MOST_BYTES { bytes } else { MOST_BYTES }
}

/// Decides whether an item with this many bytes may become pending. The pending items of the item's queue have `own`
/// bytes now, and the pending items of all queues have `pending` bytes. The executor permits `bound` bytes. If the item
/// may become pending, returns the bytes of all queues and the bytes of the item's queue, both with the item.
pub(crate) fn with_item(bound: u64, pending: u64, own: u64, bytes: u64) -> Option<(u64, u64)> {
    let (pending_then, own_then) = (pending.checked_add(bytes)?, own.checked_add(bytes)?);
    (own == 0 || own_then <= most(bound, pending, own)).then_some((pending_then, own_then))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Adds items one by one while the queue has less than its share. Returns how many items the queue then has.
    fn one_by_one(bound: u64, mut pending: u64, mut own: u64) -> u64 {
        while own < SHARE * bound.saturating_sub(pending) || own == 0 {
            own += 1;
            pending += 1;
        }
        own
    }

    /// spec: B4.2
    #[test]
    fn a_lone_queue_fills_eight_ninths() {
        assert_eq!(most(900, 0, 0), 800);
        assert_eq!(most(900, 800, 800), 800, "no more");
        assert_eq!(most(900, 800, 0), 89, "another queue finds room");
        assert_eq!(most(1, 0, 0), 1);
        assert_eq!((most(1, 1, 0), most(1, 1, 1)), (1, 1), "a queue may always have one");
        assert_eq!(most(u64::MAX, 0, 0), u64::MAX / 9);
    }

    /// spec: B4.2: two queues with endless backlogs share the room, and leave some room for a third queue.
    #[test]
    fn queues_with_long_backlogs_share_the_room() {
        let bound = 1700;
        let mut own = [0, 0];
        for _ in 0..10_000 {
            for n in 0..2 {
                let pending = own.iter().sum();
                own[n] = most(bound, pending, own[n]).min(own[n] + 3);
                // Some items begin.
                own[n] -= own[n].min(2);
            }
        }
        assert!(own.iter().all(|own| (790..=810).contains(own)), "{own:?}");
        assert!(most(bound, own.iter().sum(), 0) > 80);
    }

    /// spec: B4.4
    #[test]
    fn bytes_follow_the_same_rule() {
        assert_eq!(with_item(900, 0, 0, 100), Some((100, 100)));
        assert_eq!(with_item(900, 100, 100, 700), Some((800, 800)), "eight ninths");
        assert_eq!(with_item(900, 100, 100, 701), None);
        assert_eq!(
            with_item(900, 800, 0, 5000),
            Some((5800, 5000)),
            "a queue may always have one, of any size"
        );
        assert_eq!(with_item(900, 5800, 5000, 1), None);
        assert_eq!(with_item(900, 5800, 0, 0), Some((5800, 0)));
        assert_eq!(with_item(900, u64::MAX, 0, 1), None, "not even one if it cannot be counted");
        assert_eq!(counted(u64::MAX), 1 << 48);
    }

    proptest! {
        /// spec: B4.1, B4.2
        #[test]
        fn many_items_at_once_are_as_good_as_one_by_one(bound in 0..2000u64, own in 0..500u64, others in 0..2000u64) {
            let pending = own + others;
            let most = most(bound, pending, own);
            prop_assert_eq!(most.max(own), one_by_one(bound, pending, own));
            prop_assert!(pending + (most - own) <= bound.max(pending) + u64::from(own == 0));
        }
    }
}
