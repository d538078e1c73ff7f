//! The cell of a queue's [`Flushes`], and the count of the items without a ticket.
//!
//! **The lock.** Everything that has to do with tickets happens under one lock: a flush begins, an item takes its ticket
//! and is admitted, an item with a ticket is listed, and gives its slot up, a count ends. So among these there is nothing
//! to order.
//!
//! **The count.** Items without a ticket come and go without the lock. A flush that counts them turns each gate to
//! *flushing*, and learns in the same step how many items are in flight there. So each item is admitted either before
//! that step, and counted, or after it, and takes a ticket. An item without a ticket that gives its slot up learns in
//! the same step whether its gate is flushing. If so, it was counted, and it [reports](Unreported::report) afterwards.
//! Reports may come before the numbers of all gates are added, and make the count negative. So the count is zero again
//! if, and only if, every counted item has reported. The thread that brings it there ends the count.
//!
//! **Arrivals.** The step that turns a gate to flushing also tells how many items are coming there, which have to be listed
//! before later ones. A later item is brought to this cell, which holds it until that is so, and lists it then. While one is
//! held, its gate counts an item as coming; so no item gets a slot there ahead of it. An item without a ticket is listed
//! without the lock, and learns in that step that its gate is flushing; then it was found coming, and its issuer
//! [says](FlushCell::arrived) that it has arrived. Its run may be over by then, and the count with it; so the gates stay
//! flushing until the last one of them has said so.
//!
//! **Former places.** A cancelled item has an entry in flight, for which flushes may wait. If it were queued again by that
//! entry, they would wait for what was queued after them. So that happens under the lock, and only if
//! [no flush waits](FlushCell::with_awaited).
//!
//! **Lifetime.** An item that has given its slot up does not keep its queue in place. A count does: the flush takes a
//! hold of the queue for it before it turns the first gate. The thread that ends the count gives that hold up. An item
//! that has not reported yet keeps the count from its end, so it may use the queue until it has.
//!
//! **What is seen after a flush.** Reports release, and the thread that ends the count acquires them; everything else is
//! under the lock; a [`Signal`] takes it to the flushing thread. A gate that is found empty is read with acquire.

use std::collections::VecDeque;

use crate::policy::admission::{Admitted, Found};
use crate::policy::flush::{Flushes, Ticket};
use crate::sys::sync::{Arc, AtomicI64, Mutex, Ordering};
use crate::sys::wait::Until;

use super::gate::GateCell;
use super::signal::Signal;

/// The flushes of one queue.
#[derive(Debug)]
pub(crate) struct FlushCell<E> {
    pub(crate) unreported: Unreported,
    state: Mutex<State<E>>,
}

/// Counted items that have not reported. Zero between two counts.
///
/// A type of its own, and one word: the queue may be freed before the call that reports returns. A reference to a struct with
/// padding promises that its bytes stay until then; a reference to an atomic does not.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Unreported(AtomicI64);

#[derive(Debug)]
struct State<E> {
    flushes: Flushes<E>,
    /// The flushes that are not over and that a thread waits for, in the order of their numbers.
    awaited: VecDeque<Flush>,
}

/// A flush that has begun; threads that share its number share the signal.
#[derive(Clone, Debug)]
pub(crate) struct Flush {
    number: u64,
    over: Arc<Signal>,
}

/// So many items are listed under the lock before the caller starts those that have a slot. Behind a shut door every one has,
/// and their count has an end.
const LISTED_AT_ONCE: usize = 64;

/// What a step under the lock leaves to do after it. The caller keeps the queue in place until it has done it.
#[must_use]
#[derive(Debug)]
pub(crate) struct Rest<E> {
    over: Vec<Flush>,
    /// They were on a list, and have a slot: the caller starts them.
    pub(crate) started: Vec<E>,
    /// There are more to list, after those are started: the caller goes on with [`FlushCell::list_more`].
    pub(crate) lists_more: bool,
    /// A count is over: its hold of the queue is the caller's to give up.
    pub(crate) ends_count: bool,
}

impl<E> FlushCell<E> {
    pub(crate) fn new() -> Self {
        let state = State { flushes: Flushes::new(), awaited: VecDeque::new() };
        Self { unreported: Unreported(AtomicI64::new(0)), state: Mutex::new(state) }
    }

    /// A flush begins; `None` if it is over at once. `hold` is called before a count begins: it takes the hold.
    pub(crate) fn begin<'g>(
        &self,
        gates: impl Iterator<Item = &'g GateCell> + Clone,
        hold: impl FnOnce(),
    ) -> (Option<Flush>, Rest<E>) {
        let mut state = self.state.lock();
        let with_ticket = state.flushes.with_ticket();
        // Each gate has at least its items with tickets, which only change under the lock. So if the sums are equal,
        // then each gate had no other item at the moment at which it was read.
        let finds_more = || gates.clone().map(GateCell::in_flight).sum::<u64>() > with_ticket;
        let finds_more = !state.flushes.gives_tickets() && (state.flushes.has_coming() || finds_more());
        let number = state.flushes.begin(finds_more);
        let mut rest = Rest::new();
        if finds_more {
            hold();
            let found: Found = gates.clone().map(GateCell::begin_flush).sum();
            state.flushes.found_coming(found.coming);
            let counted = (found.in_flight - with_ticket) as i64;
            // Acquire: the flusher sees what the items did. They release by reporting.
            if self.unreported.0.fetch_add(counted, Ordering::AcqRel) + counted == 0 {
                state.end_count(gates, &mut rest);
            }
        }
        let flush = (state.flushes.over() < number).then(|| state.awaited(number));
        (flush, rest)
    }

    /// Acts, knowing whether a flush waits. None begins meanwhile.
    #[cold]
    pub(crate) fn with_awaited<R>(&self, act: impl FnOnce(bool) -> R) -> R {
        let state = self.state.lock();
        act(!state.awaited.is_empty())
    }

    /// A gate becomes one of the queue's by `publish`; it may not have been used before.
    pub(crate) fn add_gate(&self, gate: Option<&GateCell>, publish: impl FnOnce()) {
        let state = self.state.lock();
        if state.flushes.gives_tickets() {
            let found = gate.map(GateCell::begin_flush);
            debug_assert!(found.is_none_or(|found| found.in_flight == 0));
        }
        publish();
    }

    /// Admits items to a gate that was seen flushing, by `admit`; `came` says which came.
    #[cold]
    pub(crate) fn admit<A>(
        &self,
        admit: impl FnOnce() -> A,
        came: impl FnOnce(&A) -> Option<Admitted>,
    ) -> (A, Option<Ticket>) {
        let mut state = self.state.lock();
        let admitted = admit();
        let ticket = came(&admitted).and_then(|items| state.flushes.come(items));
        (admitted, ticket)
    }

    /// The issuer of an item with this ticket, which its gate told to wait, brings it. `list` puts an item on its gate's list,
    /// which keeps the order, asks [`GateCell::list_held`], and returns the item to start, if any.
    #[cold]
    pub(crate) fn bring<'g>(
        &self,
        (ticket, gate): (Ticket, &GateCell),
        item: E,
        gates: impl Iterator<Item = &'g GateCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        let mut state = self.state.lock();
        gate.hold();
        state.flushes.bring(ticket, item);
        state.proceed(gates, list)
    }

    /// So many items without a ticket that were coming when a flush began, as their gate told, are on their list, or do not
    /// come after all. `list` as in [`bring`](Self::bring).
    #[cold]
    pub(crate) fn arrived<'g>(
        &self,
        items: u64,
        gates: impl Iterator<Item = &'g GateCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        let mut state = self.state.lock();
        state.flushes.strike(None, items);
        state.proceed(gates, list)
    }

    /// A step said that there is more to list. `list` as in [`bring`](Self::bring).
    #[cold]
    pub(crate) fn list_more<'g>(
        &self,
        gates: impl Iterator<Item = &'g GateCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        self.state.lock().proceed(gates, list)
    }

    /// An item with a ticket, which was told to wait, does not come after all. `leave` takes it out of its gate; `list` as in
    /// [`bring`](Self::bring).
    #[cold]
    pub(crate) fn withdraw<'g, A>(
        &self,
        ticket: Ticket,
        leave: impl FnOnce() -> A,
        gates: impl Iterator<Item = &'g GateCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> (A, Rest<E>) {
        let mut state = self.state.lock();
        let left = leave();
        state.flushes.complete(ticket);
        state.flushes.strike(Some(ticket), 1);
        let mut rest = state.proceed(gates, list);
        state.find_over(&mut rest);
        (left, rest)
    }

    /// An item with a ticket is done, or gives its slot up unused. `leave` takes it out of its gate.
    #[cold]
    pub(crate) fn complete<A>(&self, ticket: Ticket, leave: impl FnOnce() -> A) -> (A, Rest<E>) {
        let mut rest = Rest::new();
        let mut state = self.state.lock();
        let left = leave();
        state.flushes.complete(ticket);
        state.find_over(&mut rest);
        (left, rest)
    }

    /// The caller was told to end the count.
    pub(crate) fn end_count<'g>(&self, gates: impl Iterator<Item = &'g GateCell>) -> Rest<E> {
        let mut rest = Rest::new();
        self.state.lock().end_count(gates, &mut rest);
        rest
    }

    /// The calling thread does not wait for this flush any more. Its items are still counted.
    #[cold]
    pub(crate) fn abandon(&self, flush: Flush) {
        let mut state = self.state.lock();
        let number = flush.number;
        // Under the lock: of several threads that give up, the last one finds its share to be the last.
        drop(flush);
        let is_shared = |other: &Flush| Arc::strong_count(&other.over) > 1;
        state.awaited.retain(|other| other.number != number || is_shared(other));
    }

    /// Does this flush wait for an item that is in flight and has this ticket, or none?
    pub(crate) fn waits_for(&self, flush: &Flush, ticket: Option<Ticket>) -> bool {
        let state = self.state.lock();
        state.flushes.over() < flush.number && state.flushes.waits_for(flush.number, ticket)
    }
}

impl Unreported {
    /// An item without a ticket has left its gate, which is flushing. True: the caller is to end the count.
    ///
    /// Until the item has reported, the queue stays in place; after it, unless told to end the count, the caller must not use
    /// the queue on the strength of that.
    #[must_use]
    pub(crate) fn report(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl<E> State<E> {
    fn awaited(&mut self, number: u64) -> Flush {
        match self.awaited.back() {
            Some(last) if last.number == number => last.clone(),
            _ => {
                let flush = Flush { number, over: Arc::new(Signal::new()) };
                self.awaited.push_back(flush.clone());
                flush
            }
        }
    }

    fn end_count<'g>(&mut self, gates: impl Iterator<Item = &'g GateCell>, rest: &mut Rest<E>) {
        self.flushes.counted();
        self.turn_back(gates);
        rest.ends_count = true;
        self.find_over(rest);
    }

    /// Some items are not coming any more: those behind them are listed.
    fn proceed<'g>(
        &mut self,
        gates: impl Iterator<Item = &'g GateCell>,
        mut list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        let mut rest = Rest::new();
        for _ in 0..LISTED_AT_ONCE {
            let Some(item) = self.flushes.next_arrival() else { break };
            rest.started.extend(list(item));
        }
        rest.lists_more = self.flushes.has_arrivals();
        self.turn_back(gates);
        rest
    }

    fn turn_back<'g>(&mut self, gates: impl Iterator<Item = &'g GateCell>) {
        if self.flushes.needs_no_more_tickets() {
            gates.for_each(GateCell::end_flush);
        }
    }

    fn find_over(&mut self, rest: &mut Rest<E>) {
        let over = self.flushes.over();
        while self.awaited.front().is_some_and(|flush| flush.number <= over) {
            rest.over.extend(self.awaited.pop_front());
        }
    }
}

impl Flush {
    /// Sleeps until the flush is over. False if the time ran out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.over.wait(until)
    }

    #[cfg(all(test, not(cmwq_loom)))]
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_set()
    }
}

impl<E> Rest<E> {
    const fn new() -> Self {
        Self { over: Vec::new(), started: Vec::new(), ends_count: false, lists_more: false }
    }

    /// Wakes the threads whose flushes are over. To be called without a lock.
    pub(crate) fn wake(self) {
        self.over.iter().for_each(|flush| flush.over.set());
    }
}
