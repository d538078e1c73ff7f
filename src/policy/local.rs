//! Decides which items stay with the worker that queued them, and for how long such items run before others. The same
//! rules decide whether a worker itself runs the item that gets the slot of the worker's last item.
//!
//! If a worker's item queues another item, the same worker should run that item. The item's data is in the worker's
//! cache, and the item needs neither a wake-up nor a shared cache line. So each worker keeps a short *local list* of
//! the items that its items have queued. Other workers of the pool can steal items from this list.
//!
//! When an item ends, its slot goes to the *heir*: the first item that waits for a slot of the queue. If other items
//! wait in the heir's [part](super::parts) of the pool's list, the heir goes to the end of this part. But if an issuer
//! is faster than the workers, most of its items wait for slots. Most items of such an issuer would pass through two
//! lists: the waiting list and the pool's list. So while the pool is [brisk](super::brisk) (has many short items), a
//! worker itself runs up to [`HEIRS`] short heirs in a row, without listing them. The worker counts these heirs as
//! local items.
//!
//! A local item delays other items, and may itself wait although a CPU is free. Three rules limit both delays:
//!
//! * A worker keeps items on its local list only while its items are short: [`SHORT`] of them must take at most 0.1 ms.
//!   The worker's last items serve as the measure. So a pool with long items behaves as if there were no local lists. A
//!   build with `cmwq_uncounted`, which measures no items, also behaves as if there were no local lists.
//! * A worker takes several local items in a row before other items. A row has as many local items as the worker can
//!   run in 0.1 ms, but at most [`IN_A_ROW`]. After a row, the worker takes the same number of items from the pool's
//!   list, if there are any. On each CPU, at most `IN_A_ROW` local items overtake an item that waits on the pool's
//!   list. In addition, for each item that workers take from any [part](super::parts) of the pool's list before the
//!   waiting item, one more local item may overtake the waiting item. If the local items turn out to be long, a check
//!   of the manager ends the row.
//! * The first local item wakes no other worker, because the worker that keeps this item will be ready sooner. The
//!   second local item wakes a worker if the pool has a free CPU. If the present item turns out to be long, a check of
//!   the manager moves the local items to the pool's list. If the pool has a free CPU, the next check moves the local
//!   items. Otherwise, the check after the next one moves them.

#![forbid(unsafe_code)]

/// Items count as short if this many of them take at most 0.1 ms.
const SHORT: u32 = 16;

/// While other items wait, a worker runs at most this many local items one after the other.
const IN_A_ROW: u32 = 64;

/// While other items wait, a worker runs at most this many *heirs* (items that got the slots of the worker's last
/// items) one after the other. During a row of heirs, the worker takes no item from the heirs' part of the pool's list.
/// If rows were twice as long, another worker of the same speed would pass over this part so often that it would have
/// to take items from the part. Both workers would then write the part's cache lines.
const HEIRS: u32 = 32;

/// A local list has at most this many items.
const MOST: usize = 64;

/// A local list with this many items is a reason to wake another worker.
pub(crate) const CROWD: usize = 2;

/// Returns whether a worker keeps an item that its present item queues. `span` is the number of items that take 0.1 ms,
/// and `kept` is the length of the local list.
#[inline]
pub(crate) const fn keeps(span: u32, kept: usize) -> bool {
    span >= SHORT && kept < MOST
}

/// Returns whether the manager ends a worker's row of local items. `begun` is the number of items that the worker has
/// begun since the last check. If a row lasts from one check to the next, `begun` is at most [`IN_A_ROW`], and the
/// manager ends the row. So no row lasts for longer than two checks and one item. A worker with short items begins more
/// than [`IN_A_ROW`] items between two checks.
pub(crate) const fn ends_row(begun: u64) -> bool {
    begun <= IN_A_ROW as u64
}

/// A plain value that divides a worker's time between local items and the items of the pool's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Row {
    /// The number of local items that the worker has run in a row.
    local: u32,
    /// The number of items that the worker takes from the pool's list before its next row of local items.
    owed: u32,
}

impl Row {
    /// Returns whether the worker immediately runs the heir that gets the slot of its last item, although other items
    /// may wait. While a pool is brisk, the manager checks it often, so a row of heirs ends like a row of other local
    /// items.
    #[inline]
    #[must_use]
    pub(crate) const fn takes_heir(self, span: u32, is_brisk: bool) -> bool {
        is_brisk && keeps(span, 0) && self.goes_on(span) && self.local < HEIRS
    }

    /// Returns whether the worker's next item is a local one although other items wait.
    #[inline]
    #[must_use]
    pub(crate) const fn goes_on(self, span: u32) -> bool {
        let most = if span < IN_A_ROW { span } else { IN_A_ROW };
        self.owed == 0 && self.local < most
    }

    /// Counts a local item.
    #[inline]
    #[must_use]
    pub(crate) const fn longer(self) -> Self {
        Self { local: self.local + 1, ..self }
    }

    /// Counts an item that the worker takes from the pool's list. After a row, the worker takes as many of these items
    /// as the row had local items.
    #[inline]
    #[must_use]
    pub(crate) const fn gives_way(self) -> Self {
        Self { local: 0, owed: (self.owed + self.local).saturating_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: F8.6: a worker runs at most as many local items in a row as fit into 0.1 ms, and at most 64.
    #[test]
    fn at_most_so_many_local_items_come_first() {
        for (span, most) in [(1, 1), (16, 16), (64, 64), (1024, 64)] {
            let mut row = Row::default();
            let mut items = 0;
            while row.goes_on(span) {
                row = row.longer();
                items += 1;
            }
            assert_eq!(items, most, "{span}");
        }
    }

    /// spec: F8.6: after a row of local items, the worker takes the same number of items from the pool's list.
    #[test]
    fn after_a_row_as_many_other_items_come_first() {
        let mut row = Row::default();
        for _ in 0..64 {
            assert!(row.goes_on(64));
            row = row.longer();
        }
        for _ in 0..64 {
            assert!(!row.goes_on(64));
            row = row.gives_way();
        }
        assert_eq!((row, row.goes_on(64)), (Row::default(), true));
    }

    /// spec: F8.6: the manager ends a row of local items that lasts from one check to the next.
    #[test]
    fn a_row_that_lasts_from_one_check_to_the_next_is_ended() {
        let mut row = Row::default();
        let mut begun = 0;
        while row.goes_on(1024) {
            (row, begun) = (row.longer(), begun + 1);
            assert!(ends_row(begun));
        }
        assert!(!ends_row(begun + 1));
    }

    /// spec: F8.6: a worker immediately runs the item that gets the slot of its last item only if the pool is brisk and
    /// the item is short, and only 32 times in a row.
    #[test]
    fn only_a_brisk_pool_runs_heirs_at_once_and_only_short_ones_and_not_many_in_a_row() {
        let row = Row::default();
        assert!(row.takes_heir(16, true) && !row.takes_heir(16, false) && !row.takes_heir(15, true));
        let row = (0..32).fold(row, |row, _| row.longer());
        assert!(!row.takes_heir(1024, true));
        let row = (0..31).fold(row, |row, _| row.gives_way());
        assert!(!row.takes_heir(1024, true), "as many items of the pool's list come first");
        assert!(row.gives_way().takes_heir(1024, true));
    }

    #[test]
    fn only_short_items_are_kept_and_not_many() {
        assert!(!keeps(15, 0) && keeps(16, 0) && keeps(1024, 63) && !keeps(1024, 64));
    }
}
