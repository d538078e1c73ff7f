//! Decides which items a flush waits for. A flush waits for exactly the items that were queued before the flush.
//!
//! Flushes are numbered in the order in which they begin. An item that is queued while a flush waits takes a *ticket*:
//! the number of the last flush that had begun by then. A flush waits for an item with a ticket if, and only if, the
//! ticket is below the flush's own number. So a flush waits only for items that were queued before that flush, however
//! many flushes overlap.
//!
//! While no flush waits, items take no ticket, because taking a ticket requires a lock. The first flush that finds
//! items without a ticket begins a *count* of these items. The counted items were all queued before the count began. So
//! the flush that begins a count, and each flush that begins during the count, waits for all counted items. Until the
//! count is over, every new item takes a ticket. So an item without a ticket is counted if, and only if, it was in
//! flight when the count began.
//!
//! New items continue to take tickets while an item that was queued before the last flush is still on its way to a
//! waiting list, because no later item may be listed before that item (see [`arrivals`]).
//!
//! The queue keeps [`Flushes`] under a lock. The count of items without a ticket is an atomic beside that lock (see
//! [`protocol::flush`](crate::protocol::flush)).

#![forbid(unsafe_code)]

mod arrivals;

use std::collections::BTreeMap;

use self::arrivals::Arrivals;
use super::admission::Admitted;

/// The number of the last flush that had begun when the item was queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

/// The flushes of one queue, and the items with tickets.
#[derive(Clone, Debug)]
pub(crate) struct Flushes<E> {
    /// The number of the last flush that has begun. The first flush has the number 1.
    begun: u64,
    /// The number of the flush that began the present count of items without a ticket, or `None` if no count is under
    /// way.
    counting: Option<u64>,
    /// Whether new items take a ticket. While new items take a ticket, the limiters are flushing.
    gives_tickets: bool,
    /// The number of items in flight for each ticket. A ticket without items in flight is removed.
    tickets: BTreeMap<Ticket, u64>,
    arrivals: Arrivals<E>,
}

impl<E> Flushes<E> {
    pub(crate) const fn new() -> Self {
        let arrivals = Arrivals::new();
        Self { begun: 0, counting: None, gives_tickets: false, tickets: BTreeMap::new(), arrivals }
    }

    /// Begins a flush and returns its number. `finds_more` says whether the flush must begin a count. If a count
    /// begins, the caller counts the items in flight that have no ticket.
    ///
    /// Two flushes share a number if no item was queued between them.
    pub(crate) fn begin(&mut self, finds_more: bool) -> u64 {
        debug_assert!(
            !finds_more || !self.gives_tickets,
            "items were queued without a ticket during a count"
        );
        if finds_more || self.tickets.contains_key(&Ticket(self.begun)) {
            self.begun += 1;
        }
        if finds_more {
            self.counting = Some(self.begun);
            self.gives_tickets = true;
        }
        self.begun
    }

    /// Returns whether new items take a ticket. While this function returns true, no item is queued without a ticket.
    pub(crate) fn gives_tickets(&self) -> bool {
        self.gives_tickets
    }

    /// Returns whether an item with a ticket is on its way to a waiting list. If such an item is on its way, the next
    /// flush must begin a count even if all items in flight have tickets, so that new items take tickets again.
    pub(crate) fn has_coming(&self) -> bool {
        self.arrivals.with_ticket() > 0
    }

    /// Notes the number of items that the new flush has found on their way to a waiting list. `items` includes items
    /// with tickets.
    pub(crate) fn found_coming(&mut self, items: u64) {
        debug_assert!(self.is_counting());
        self.arrivals.come(None, items - self.arrivals.with_ticket());
    }

    /// Ends the count, because all items without a ticket that were in flight when the count began are done.
    pub(crate) fn counted(&mut self) {
        debug_assert!(self.is_counting());
        self.counting = None;
    }

    fn is_counting(&self) -> bool {
        self.counting.is_some()
    }

    /// Gives a ticket to one or more items that are being queued. Returns `None` if the items need no ticket.
    pub(crate) fn come(&mut self, items: Admitted) -> Option<Ticket> {
        if !self.gives_tickets {
            return None;
        }
        let ticket = Ticket(self.begun);
        *self.tickets.entry(ticket).or_default() += items.items() as u64;
        self.arrivals.come(Some(ticket), items.waiting as u64);
        Some(ticket)
    }

    /// Notes that the given number of items are no longer on their way to a waiting list, because they have been listed
    /// or withdrawn. `ticket` is the ticket of these items, or `None` if a flush found the items without a ticket.
    pub(crate) fn strike(&mut self, ticket: Option<Ticket>, items: u64) {
        self.arrivals.strike(ticket, items);
    }

    /// Accepts an item that has to wait for a slot, and holds it until it may be listed.
    pub(crate) fn bring(&mut self, ticket: Ticket, item: E) {
        self.arrivals.bring(ticket, item);
    }

    /// Returns whether any held item may be listed now.
    pub(crate) fn has_arrivals(&self) -> bool {
        self.arrivals.has_listable()
    }

    /// Takes the next held item that may be listed now.
    pub(crate) fn next_arrival(&mut self) -> Option<E> {
        self.arrivals.next()
    }

    /// Stops giving tickets if new items no longer need them. Returns whether this call has stopped the tickets. The
    /// caller calls this function after each step that may end the need for tickets.
    pub(crate) fn needs_no_more_tickets(&mut self) -> bool {
        let waits = self.arrivals.has_before(self.begun) || self.arrivals.has_listable();
        let ends = self.gives_tickets && !self.is_counting() && !waits;
        self.gives_tickets &= !ends;
        ends
    }

    /// Gives back the ticket of one item, because the item is done or was not admitted after all.
    pub(crate) fn complete(&mut self, ticket: Ticket) {
        let items = self.tickets.get_mut(&ticket).expect("each ticket is counted when it is taken");
        *items -= 1;
        if *items == 0 {
            self.tickets.remove(&ticket);
        }
    }

    /// Returns the number of items in flight that have a ticket. The cost is proportional to the number of overlapping
    /// flushes.
    pub(crate) fn with_ticket(&self) -> u64 {
        self.tickets.values().sum()
    }

    /// Returns the number of the last flush that is over. All earlier flushes are over, too.
    pub(crate) fn over(&self) -> u64 {
        let before_count = self.counting.map_or(self.begun, |counting| counting - 1);
        let first_ticket = self.tickets.first_key_value().map_or(self.begun, |(ticket, _)| ticket.0);
        before_count.min(first_ticket)
    }

    /// Returns whether the flush with this number waits for a certain item in flight. `ticket` is that item's ticket,
    /// or `None` if the item has no ticket.
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

    fn come(flushes: &mut Flushes<()>, items: usize) -> Option<Ticket> {
        flushes.come(Admitted { started: items, waiting: 0 })
    }

    fn count_ends(flushes: &mut Flushes<()>) {
        flushes.counted();
        assert!(flushes.needs_no_more_tickets());
    }

    /// spec: F1.5: each of three overlapping flushes ends when the last item that was queued before that flush is done.
    #[test]
    fn each_flush_has_its_own_end() {
        let mut flushes = Flushes::<()>::new();
        assert_eq!(come(&mut flushes, 1), None, "no flush waits");
        assert_eq!(flushes.begin(true), 1);
        let second_item = come(&mut flushes, 2).unwrap();
        assert_eq!(flushes.begin(false), 2);
        let third_item = come(&mut flushes, 1).unwrap();
        assert_eq!(flushes.begin(false), 3);
        assert_eq!(flushes.over(), 0);
        flushes.complete(second_item);
        count_ends(&mut flushes);
        assert_eq!((flushes.over(), flushes.with_ticket()), (1, 2));
        assert_eq!(come(&mut flushes, 1), None);
        flushes.complete(second_item);
        assert_eq!(flushes.over(), 2);
        flushes.complete(third_item);
        assert_eq!((flushes.over(), flushes.with_ticket()), (3, 0));
    }

    /// spec: F1.4: flushes share a number if no item was queued between them.
    #[test]
    fn flushes_with_no_item_in_between_are_one() {
        let mut flushes = Flushes::<()>::new();
        assert_eq!((flushes.begin(true), flushes.begin(false)), (1, 1));
        let item = come(&mut flushes, 1).unwrap();
        assert_eq!((flushes.begin(false), flushes.begin(false)), (2, 2));
        flushes.complete(item);
        count_ends(&mut flushes);
        assert_eq!(flushes.begin(false), 2, "nothing is in flight");
        assert_eq!(flushes.over(), 2);
        assert_eq!(flushes.begin(true), 3, "an item was queued without a ticket");
    }

    /// spec: F1.5: every flush that begins during a count waits for the counted items, and no flush waits for items
    /// whose ticket is the flush's own number.
    #[test]
    fn which_items_a_flush_waits_for() {
        let mut flushes = Flushes::<()>::new();
        let first = flushes.begin(true);
        let ticket = come(&mut flushes, 1);
        let second = flushes.begin(false);
        assert!(flushes.waits_for(first, None) && flushes.waits_for(second, None));
        assert!(!flushes.waits_for(first, ticket) && flushes.waits_for(second, ticket));
        count_ends(&mut flushes);
        assert!(!flushes.waits_for(second, None), "the item was queued after the count");
        assert!(flushes.waits_for(second, ticket));
        let third = flushes.begin(true);
        assert!(!flushes.waits_for(second, None) && flushes.waits_for(third, None));
    }
    /// spec: F1.6: new items take tickets only until all items that were queued before the last flush have been listed.
    #[test]
    fn tickets_are_given_until_earlier_items_have_arrived() {
        let mut flushes = Flushes::new();
        flushes.begin(true);
        flushes.found_coming(1);
        let waiting = Admitted { started: 0, waiting: 1 };
        let later = flushes.come(waiting).unwrap();
        flushes.bring(later, "later");
        flushes.counted();
        assert_eq!((flushes.next_arrival(), flushes.needs_no_more_tickets()), (None, false));
        flushes.strike(None, 1);
        assert_eq!((flushes.next_arrival(), flushes.needs_no_more_tickets()), (Some("later"), true));
        flushes.begin(true);
        let between = flushes.come(waiting).unwrap();
        flushes.begin(false);
        flushes.counted();
        assert!(!flushes.needs_no_more_tickets(), "the last flush waits for the item in between");
        flushes.come(waiting);
        flushes.strike(Some(between), 1);
        assert!(flushes.needs_no_more_tickets(), "no flush waits for the later item");
        flushes.begin(true);
        flushes.found_coming(2);
        flushes.strike(None, 1);
        assert!(flushes.come(waiting).is_some_and(|ticket| ticket > between));
    }
}
