//! Which items a flush waits for: exactly those that were queued before it.
//!
//! Flushes are numbered in the order in which they begin. An item that is queued while a flush waits takes a *ticket*:
//! the number of the last flush that had begun by then. A flush waits for each item whose ticket is below its own
//! number, so each flush has its own answer, however many overlap.
//!
//! While no flush waits, items take no ticket, since that costs a lock. The first flush that finds such items begins a
//! *count* of them. They were all queued before it, so this flush and each one that begins during the count wait for
//! all of them. Until the count is over, every new item takes a ticket; so an item without one is counted if, and only
//! if, it was there when the count began.
//!
//! The queue keeps this struct under a lock. The count itself is an atomic beside it, see
//! [`protocol::flush`](crate::protocol::flush).

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// The last flush that had begun when the item was queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

/// The flushes of one queue, and the items with tickets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes {
    /// Flushes are numbered from 1; this is the last one.
    begun: u64,
    /// The flush that began the count of items without a ticket, until that is over.
    counting: Option<u64>,
    /// How many items with this ticket are in flight; none of these numbers is 0.
    tickets: BTreeMap<Ticket, u64>,
}

impl Flushes {
    /// A flush begins. Returns its number. `finds_more`: there are items in flight that have no ticket and are not
    /// counted; then the caller counts them.
    ///
    /// Two flushes between which no item was queued share a number.
    pub(crate) fn begin(&mut self, finds_more: bool) -> u64 {
        debug_assert!(
            !finds_more || self.counting.is_none(),
            "items were queued without a ticket during a count"
        );
        if finds_more || self.tickets.contains_key(&Ticket(self.begun)) {
            self.begun += 1;
        }
        if finds_more {
            self.counting = Some(self.begun);
        }
        self.begun
    }

    /// Are items without a ticket being counted? Then new items take one.
    pub(crate) fn is_counting(&self) -> bool {
        self.counting.is_some()
    }

    /// All items without a ticket are done that were there when the count began.
    pub(crate) fn counted(&mut self) {
        debug_assert!(self.is_counting());
        self.counting = None;
    }

    /// So many items are queued, at least one. `None`: they need no ticket.
    pub(crate) fn come(&mut self, items: u64) -> Option<Ticket> {
        self.counting?;
        let ticket = Ticket(self.begun);
        *self.tickets.entry(ticket).or_default() += items;
        Some(ticket)
    }

    /// An item with this ticket is done, or did not come after all.
    pub(crate) fn complete(&mut self, ticket: Ticket) {
        let items = self.tickets.get_mut(&ticket).expect("an item with a ticket was counted when it took it");
        *items -= 1;
        if *items == 0 {
            self.tickets.remove(&ticket);
        }
    }

    /// Items in flight that have a ticket. O(the flushes that overlap).
    pub(crate) fn with_ticket(&self) -> u64 {
        self.tickets.values().sum()
    }

    /// This flush and all before it are over.
    pub(crate) fn over(&self) -> u64 {
        let before_count = self.counting.map_or(self.begun, |counting| counting - 1);
        let first_ticket = self.tickets.first_key_value().map_or(self.begun, |(ticket, _)| ticket.0);
        before_count.min(first_ticket)
    }

    /// Does the flush of this number wait for an item that is in flight and has this ticket, or none?
    pub(crate) fn waits_for(&self, number: u64, ticket: Option<Ticket>) -> bool {
        match ticket {
            Some(ticket) => ticket.0 < number,
            None => self.counting.is_some_and(|counting| counting <= number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: F1.5: each of three flushes that overlap ends with the last item that was queued before it.
    #[test]
    fn each_flush_has_its_own_end() {
        let mut flushes = Flushes::default();
        assert_eq!(flushes.come(1), None, "no flush waits");
        assert_eq!(flushes.begin(true), 1);
        let second_item = flushes.come(2).unwrap();
        assert_eq!(flushes.begin(false), 2);
        let third_item = flushes.come(1).unwrap();
        assert_eq!(flushes.begin(false), 3);
        assert_eq!(flushes.over(), 0);
        flushes.complete(second_item);
        flushes.counted();
        assert_eq!((flushes.over(), flushes.with_ticket()), (1, 2));
        assert_eq!(flushes.come(1), None);
        flushes.complete(second_item);
        assert_eq!(flushes.over(), 2);
        flushes.complete(third_item);
        assert_eq!((flushes.over(), flushes.with_ticket()), (3, 0));
    }

    /// spec: F1.4 (concurrent flushes share work)
    #[test]
    fn flushes_with_no_item_in_between_are_one() {
        let mut flushes = Flushes::default();
        assert_eq!((flushes.begin(true), flushes.begin(false)), (1, 1));
        let item = flushes.come(1).unwrap();
        assert_eq!((flushes.begin(false), flushes.begin(false)), (2, 2));
        flushes.complete(item);
        flushes.counted();
        assert_eq!(flushes.begin(false), 2, "nothing is in flight");
        assert_eq!(flushes.over(), 2);
        assert_eq!(flushes.begin(true), 3, "an item without a ticket came");
    }

    /// spec: F1.5: every flush of a count waits for the counted items, and none for items with its own ticket.
    #[test]
    fn which_items_a_flush_waits_for() {
        let mut flushes = Flushes::default();
        let first = flushes.begin(true);
        let ticket = flushes.come(1);
        let second = flushes.begin(false);
        assert!(flushes.waits_for(first, None) && flushes.waits_for(second, None));
        assert!(!flushes.waits_for(first, ticket) && flushes.waits_for(second, ticket));
        flushes.counted();
        assert!(!flushes.waits_for(second, None), "it was queued after the count");
        assert!(flushes.waits_for(second, ticket));
        let third = flushes.begin(true);
        assert!(!flushes.waits_for(second, None) && flushes.waits_for(third, None));
    }
}
