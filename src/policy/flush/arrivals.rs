//! Decides in which order items are put on the waiting lists while flushes wait.
//!
//! An item that has to wait for a slot is *coming* from its admission until its issuer has put it on the list. If a
//! later item were listed first, it might take the slot that the earlier item needs. If the later item then waited for
//! a flush, and that flush waited for the earlier item, the flush and both items would wait for ever. So a later item
//! is *held* here while an earlier item is coming. An item counts as earlier if it has a lower ticket, or if a flush
//! found it without a ticket.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use super::Ticket;

/// The items of one queue that are coming or held, by ticket. The key `None`, which sorts first, stands for the items
/// that a flush found without a ticket.
#[derive(Clone, Debug)]
pub(super) struct Arrivals<E>(BTreeMap<Option<Ticket>, Class<E>>);

/// Items that were queued one after another, without a new flush in between. The items of one class may be listed in
/// any order.
#[derive(Clone, Debug)]
struct Class<E> {
    /// The number of items that are coming and not held.
    coming: u64,
    /// The items that are held until all items of lower classes have been listed.
    held: VecDeque<E>,
}

impl<E> Arrivals<E> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Notes that the given number of items are coming.
    pub(super) fn come(&mut self, ticket: Option<Ticket>, items: u64) {
        if items > 0 {
            let new = || Class { coming: 0, held: VecDeque::new() };
            self.0.entry(ticket).or_insert_with(new).coming += items;
        }
    }

    /// Notes that the given number of items are no longer coming, because they have been listed or withdrawn.
    pub(super) fn strike(&mut self, ticket: Option<Ticket>, items: u64) {
        self.class(ticket).coming -= items;
        self.prune();
    }

    /// Accepts a coming item from its issuer, and holds it until it may be listed.
    pub(super) fn bring(&mut self, ticket: Ticket, item: E) {
        let class = self.class(Some(ticket));
        class.coming -= 1;
        class.held.push_back(item);
    }

    /// Takes the next held item that may be listed now.
    pub(super) fn next(&mut self) -> Option<E> {
        let next = self.0.first_entry()?.get_mut().held.pop_front();
        self.prune();
        next
    }

    /// Returns whether any held item may be listed now.
    pub(super) fn has_listable(&self) -> bool {
        self.0.first_key_value().is_some_and(|(_, first)| !first.held.is_empty())
    }

    /// Returns whether any item that is coming or held was queued before flush number `begun`.
    pub(super) fn has_before(&self, begun: u64) -> bool {
        self.0.first_key_value().is_some_and(|(ticket, _)| *ticket < Some(Ticket(begun)))
    }

    /// Returns how many items with a ticket are coming or held.
    pub(super) fn with_ticket(&self) -> u64 {
        let items = |class: &Class<E>| class.coming + class.held.len() as u64;
        self.0.iter().filter(|(ticket, _)| ticket.is_some()).map(|(_, class)| items(class)).sum()
    }

    fn class(&mut self, ticket: Option<Ticket>) -> &mut Class<E> {
        self.0.get_mut(&ticket).expect("each item is noted when it begins to come")
    }

    /// Removes empty classes, starting with the lowest, up to the first that is not empty. The first class that is not
    /// empty has an item to list, or holds back the later classes. Each step that can empty a class calls this
    /// function, because the queries look only at the first class.
    fn prune(&mut self) {
        while let Some(first) = self.0.first_entry() {
            if first.get().coming > 0 || !first.get().held.is_empty() {
                return;
            }
            first.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(arrivals: &mut Arrivals<u32>) -> Vec<u32> {
        std::iter::from_fn(|| arrivals.next()).collect()
    }

    /// spec: F1.6: items that an earlier flush found, and items with a lower ticket, are listed first.
    #[test]
    fn items_arrive_in_the_order_of_the_flushes_between_them() {
        let mut arrivals = Arrivals::new();
        arrivals.come(None, 2);
        arrivals.come(Some(Ticket(1)), 2);
        arrivals.come(Some(Ticket(2)), 1);
        arrivals.bring(Ticket(2), 20);
        arrivals.bring(Ticket(1), 10);
        arrivals.strike(None, 1);
        assert_eq!((listed(&mut arrivals), arrivals.with_ticket()), (vec![], 3));
        arrivals.strike(None, 1);
        assert_eq!(listed(&mut arrivals), [10], "the other item of its class keeps the next class back");
        assert!(arrivals.has_before(2) && !arrivals.has_before(1));
        arrivals.strike(Some(Ticket(1)), 1);
        assert_eq!((listed(&mut arrivals), arrivals.with_ticket()), (vec![20], 0));
        assert!(!arrivals.has_before(3));
    }

    #[test]
    fn items_of_one_class_are_listed_as_they_are_brought() {
        let mut arrivals = Arrivals::new();
        arrivals.come(Some(Ticket(1)), 3);
        arrivals.bring(Ticket(1), 1);
        assert_eq!(listed(&mut arrivals), [1]);
        arrivals.come(None, 1);
        arrivals.bring(Ticket(1), 2);
        arrivals.bring(Ticket(1), 3);
        assert_eq!(listed(&mut arrivals), [0; 0]);
        assert!(!arrivals.has_listable());
        arrivals.strike(None, 1);
        assert!(arrivals.has_listable() && arrivals.next() == Some(2) && arrivals.has_listable());
        assert_eq!(listed(&mut arrivals), [3]);
        assert!(!arrivals.has_listable());
    }

    /// spec: F1.6: the last item of a class does not hide the items of the next class.
    #[test]
    fn after_the_last_item_of_a_class_the_next_class_can_be_listed() {
        let mut arrivals = Arrivals::new();
        for ticket in 1..=2 {
            arrivals.come(Some(Ticket(ticket)), 1);
            arrivals.bring(Ticket(ticket), ticket as u32);
        }
        assert_eq!(arrivals.next(), Some(1));
        assert!(arrivals.has_listable() && !arrivals.has_before(2));
        assert_eq!(arrivals.next(), Some(2));
        assert!(!arrivals.has_listable() && !arrivals.has_before(3));
    }
}
