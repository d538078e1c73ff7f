//! The cell of a queue's [`Flushes`], and the count of the items that have no ticket. (An item that is submitted while
//! a flush waits has a *ticket*, which is the number of the last flush that had begun.)
//!
//! **The lock.** All steps that concern tickets happen under one lock, so they need no other ordering. In such a step,
//! a flush begins, an item is admitted with its ticket, an item with a ticket is put on its limiter's list or leaves
//! its limiter, or a count ends.
//!
//! **The count.** Items without a ticket are admitted and completed without the lock. When a flush counts the items
//! without a ticket, it marks each limiter as *flushing*. In the same step, the flush learns how many items are in
//! flight in the limiter. So an item that is admitted before that step is counted, and an item that is admitted after
//! that step takes a ticket instead. When an item without a ticket gives up its slot, it learns in the same step
//! whether its limiter is flushing. If the limiter is flushing, the flush has counted the item, and the item
//! [reports](Unreported::report) afterwards. If the worker read the mark in one step and gave up the slot in another
//! step, this could happen:
//!
//! * worker: reads the limiter, which is not flushing;
//! * flusher: marks the limiter as flushing, and counts the item;
//! * worker: gives up the item's slot, and does not report. So the count never ends.
//!
//! Some items may report before the flush adds the number of counted items to the count. Each of these reports
//! subtracts one, so the count is negative until the addition. After the addition, the count is zero if, and only if,
//! every counted item has reported. The thread that brings the count to zero ends the count.
//!
//! **Arrivals.** The step that marks a limiter as flushing also returns the number of *coming* items, which are on
//! their way to the limiter's list. These items must be listed before later items. So if a later item has to wait for a
//! slot, its issuer passes the item to this cell. The cell holds the later item, and lists it after the earlier items.
//! While the cell holds items of a limiter, the limiter counts at least one item as coming. So no other item gets a
//! slot of the limiter ahead of a held item. An item without a ticket is listed without the lock. In the step that
//! counts the item as listed, the issuer learns whether the limiter is flushing. If the limiter is flushing, a flush
//! has counted the item as coming, and the issuer [notes](FlushCell::arrived) that the item has arrived. When the
//! issuer notes the arrival, the item's run and even the count may already be over. So the limiters stay flushing until
//! the last item that was counted as coming has arrived.
//!
//! **Cancelled entries.** The entry of a cancelled item stays in flight, and flushes may wait for this entry. If a
//! later submission used the cancelled entry again, these flushes would also wait for the later submission. So a
//! submission uses the entry again only in two cases. In the first case, [no thread waits for a
//! flush](FlushCell::with_awaited), and the issuer holds the lock while it uses the entry again. In the second case, a
//! new entry of the submission would have the same ticket as the old entry. So each flush would wait for both entries
//! or for neither.
//!
//! **Lifetime.** An item that has given up its slot does not keep its queue in memory, but a flush's count of items
//! does. Before a flush marks the first limiter as flushing, the flush takes a reference to the queue, and the count
//! keeps this reference. The thread that ends the count gives up the count's reference. The count does not end before
//! every counted item has reported. So a counted item may use the queue until it has reported.
//!
//! **Order.** Each report is a release, and the thread that ends the count acquires all reports. A limiter is read with
//! acquire. All other steps happen under the lock, and a [`Signal`] wakes the flushing thread:
//!
//! * worker: runs the item, then reports;
//! * last worker: reports, ends the count, and sets the signal;
//! * flusher: sees the signal, and then the effects of all counted items.

use std::collections::VecDeque;

use crate::policy::admission::{Admitted, Found};
use crate::policy::flush::{Flushes, Ticket};
use crate::policy::locks::Rank;
use crate::sys::sync::{Arc, AtomicI64, Mutex, Ordering};
use crate::sys::wait::Until;

use super::limiter::LimiterCell;
use super::signal::Signal;

/// The flushes of one queue.
#[derive(Debug)]
pub(crate) struct FlushCell<E> {
    pub(crate) unreported: Unreported, // A
    state: Mutex<State<E>>,            // F
}

/// The number of counted items that have not reported. Between two counts, this number is zero.
///
/// `Unreported` is a separate type that consists of one atomic word, because the queue may be freed before a call of
/// [`report`](Self::report) returns. A reference to a struct with padding promises that the struct's bytes stay in
/// memory until the call returns. A reference to an atomic makes no such promise.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Unreported(AtomicI64);

#[derive(Debug)]
struct State<E> {
    flushes: Flushes<E>,
    /// The flushes for which threads wait, in the order of the flushes' numbers.
    awaited: VecDeque<Flush>,
}

/// A flush that has begun. Flushes with the same number share one signal.
#[derive(Clone, Debug)]
pub(crate) struct Flush {
    number: u64,
    over: Arc<Signal>,
}

/// The maximum number of held items that one step lists under the lock. After the step, the caller starts the items
/// that got a slot. A limit is needed, because each listed item gets a slot at once while the intake is shut, but a
/// limiter can count only a limited number of active items.
const LISTED_AT_ONCE: usize = 64;

/// The work that a step under the lock leaves to the caller. The caller keeps the queue in memory until this work is
/// done.
#[must_use]
#[derive(Debug)]
pub(crate) struct Rest<E> {
    over: Vec<Flush>,
    /// Items that were on a list and now have a slot. The caller starts these items.
    pub(crate) started: Vec<E>,
    /// Whether more items can be listed. If more items can be listed, the caller starts the items in `started`, and
    /// then calls [`FlushCell::list_more`].
    pub(crate) lists_more: bool,
    /// Whether a count is over. If a count is over, the caller gives up this count's reference to the queue.
    pub(crate) ends_count: bool,
}

impl<E> FlushCell<E> {
    pub(crate) fn new() -> Self {
        let state = State { flushes: Flushes::new(), awaited: VecDeque::new() };
        Self { unreported: Unreported(AtomicI64::new(0)), state: Mutex::ranked(Rank::Flushes, state) }
    }

    /// Begins a flush. Returns the flush, or `None` if the flush is over immediately. If the flush begins a count,
    /// first calls `reference`, which takes the count's reference to the queue.
    pub(crate) fn begin<'g>(
        &self,
        limiters: impl Iterator<Item = &'g LimiterCell> + Clone,
        reference: impl FnOnce(),
    ) -> (Option<Flush>, Rest<E>) {
        let mut state = self.state.lock();
        let with_ticket = state.flushes.with_ticket();
        // Each limiter has at least as many items in flight as it has items with tickets. The number of items with
        // tickets changes only under the lock. So if the limiters together have as many items in flight as items with
        // tickets, every item in flight had a ticket when its limiter was read.
        let finds_more = || limiters.clone().map(LimiterCell::in_flight).sum::<u64>() > with_ticket;
        let finds_more = !state.flushes.gives_tickets() && (state.flushes.has_coming() || finds_more());
        let number = state.flushes.begin(finds_more);
        let mut rest = Rest::new();
        if finds_more {
            reference();
            let found: Found = limiters.clone().map(LimiterCell::begin_flush).sum();
            state.flushes.found_coming(found.coming);
            let counted = (found.in_flight - with_ticket) as i64;
            // Each report is a release, and this addition is an acquire. So the flusher sees everything that the items
            // did before they reported.
            if self.unreported.0.fetch_add(counted, Ordering::AcqRel) + counted == 0 {
                state.end_count(limiters, &mut rest);
            }
        }
        let flush = (state.flushes.over() < number).then(|| state.awaited(number));
        (flush, rest)
    }

    /// Calls `act` with true if a thread waits for a flush, and with false otherwise. No flush begins during the call.
    #[cold]
    pub(crate) fn with_awaited<R>(&self, act: impl FnOnce(bool) -> R) -> R {
        let state = self.state.lock();
        act(!state.awaited.is_empty())
    }

    /// Calls `publish`, which adds a limiter to the queue. The limiter has not been used before.
    pub(crate) fn add_limiter(&self, limiter: Option<&LimiterCell>, publish: impl FnOnce()) {
        let state = self.state.lock();
        if state.flushes.gives_tickets() {
            let found = limiter.map(LimiterCell::begin_flush);
            debug_assert!(found.is_none_or(|found| found.in_flight == 0));
        }
        publish();
    }

    /// Calls `admit`, which admits items to a limiter that the caller has found to be *flushing* (a flush has counted
    /// its items). Gives the admitted items a ticket if new items still take tickets. `came` extracts the number of
    /// admitted items from the result of `admit`.
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

    /// Takes over an item with this ticket from its issuer, and then lists the held items that may now be listed.
    /// Before the call, the item's limiter has answered that the item has to wait for a slot. `list` puts an item at
    /// the end of its limiter's list, calls [`LimiterCell::list_held`], and returns the item that must be started, if
    /// any.
    #[cold]
    pub(crate) fn bring<'g>(
        &self,
        (ticket, limiter): (Ticket, &LimiterCell),
        item: E,
        limiters: impl Iterator<Item = &'g LimiterCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        let mut state = self.state.lock();
        limiter.hold();
        state.flushes.bring(ticket, item);
        state.proceed(limiters, list)
    }

    /// Notes that the given number of items without a ticket have arrived. Each of these items is on its limiter's
    /// list, or was withdrawn. The items' limiter has told the caller that a flush had counted the items as coming.
    /// `list` does the same as in [`bring`](Self::bring).
    #[cold]
    pub(crate) fn arrived<'g>(
        &self,
        items: u64,
        limiters: impl Iterator<Item = &'g LimiterCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        let mut state = self.state.lock();
        state.flushes.strike(None, items);
        state.proceed(limiters, list)
    }

    /// Lists more items, after a step that returned [`lists_more`](Rest::lists_more). `list` does the same as in
    /// [`bring`](Self::bring).
    #[cold]
    pub(crate) fn list_more<'g>(
        &self,
        limiters: impl Iterator<Item = &'g LimiterCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        self.state.lock().proceed(limiters, list)
    }

    /// Withdraws an item with this ticket, which was admitted without a slot. `leave` takes the item out of its
    /// limiter. `list` does the same as in [`bring`](Self::bring).
    #[cold]
    pub(crate) fn withdraw<'g, A>(
        &self,
        ticket: Ticket,
        leave: impl FnOnce() -> A,
        limiters: impl Iterator<Item = &'g LimiterCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> (A, Rest<E>) {
        let mut state = self.state.lock();
        let left = leave();
        state.flushes.complete(ticket);
        state.flushes.strike(Some(ticket), 1);
        let mut rest = state.proceed(limiters, list);
        state.find_over(&mut rest);
        (left, rest)
    }

    /// Completes an item with a ticket, because the item is done or gives up its slot unused. `leave` takes the item
    /// out of its limiter.
    #[cold]
    pub(crate) fn complete<A>(&self, ticket: Ticket, leave: impl FnOnce() -> A) -> (A, Rest<E>) {
        let mut rest = Rest::new();
        let mut state = self.state.lock();
        let left = leave();
        state.flushes.complete(ticket);
        state.find_over(&mut rest);
        (left, rest)
    }

    /// Ends the count of items without a ticket. The caller has called [`report`](Unreported::report), which has
    /// returned true.
    pub(crate) fn end_count<'g>(&self, limiters: impl Iterator<Item = &'g LimiterCell>) -> Rest<E> {
        let mut rest = Rest::new();
        self.state.lock().end_count(limiters, &mut rest);
        rest
    }

    /// Ends the calling thread's wait for this flush. The items for which the flush waits are still counted.
    #[cold]
    pub(crate) fn abandon(&self, flush: Flush) {
        let mut state = self.state.lock();
        let number = flush.number;
        // The flush is dropped under the lock. So if all threads that share a signal stop waiting for it, the last of
        // these threads finds that no other thread shares the signal.
        drop(flush);
        let is_shared = |other: &Flush| Arc::strong_count(&other.over) > 1;
        state.awaited.retain(|other| other.number != number || is_shared(other));
    }

    /// Returns whether this flush waits for an item in flight that has this ticket. `None` stands for an item without a
    /// ticket.
    pub(crate) fn waits_for(&self, flush: &Flush, ticket: Option<Ticket>) -> bool {
        let state = self.state.lock();
        state.flushes.over() < flush.number && state.flushes.waits_for(flush.number, ticket)
    }
}

impl Unreported {
    /// Reports that an item without a ticket has left its limiter, which is flushing. Returns whether the caller must
    /// [end the count](FlushCell::end_count).
    ///
    /// The count keeps the queue in memory until the item has reported. After the report, the caller may use the queue
    /// only if the caller must end the count.
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

    fn end_count<'g>(&mut self, limiters: impl Iterator<Item = &'g LimiterCell>, rest: &mut Rest<E>) {
        self.flushes.counted();
        self.turn_back(limiters);
        rest.ends_count = true;
        self.find_over(rest);
    }

    /// Lists those held items that need not wait for earlier items any more, but at most [`LISTED_AT_ONCE`] of them.
    fn proceed<'g>(
        &mut self,
        limiters: impl Iterator<Item = &'g LimiterCell>,
        mut list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        let mut rest = Rest::new();
        for _ in 0..LISTED_AT_ONCE {
            let Some(item) = self.flushes.next_arrival() else { break };
            rest.started.extend(list(item));
        }
        rest.lists_more = self.flushes.has_arrivals();
        self.turn_back(limiters);
        rest
    }

    fn turn_back<'g>(&mut self, limiters: impl Iterator<Item = &'g LimiterCell>) {
        if self.flushes.needs_no_more_tickets() {
            limiters.for_each(LimiterCell::end_flush);
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
    /// Sleeps until the flush is over. Returns false if the time runs out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.over.wait(until)
    }

    /// Returns the signal that is set when the flush is over.
    #[cfg(not(cmwq_loom))]
    pub(crate) fn signal(&self) -> Arc<Signal> {
        self.over.clone()
    }

    #[cfg(not(cmwq_loom))]
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_set()
    }
}

impl<E> Rest<E> {
    const fn new() -> Self {
        Self { over: Vec::new(), started: Vec::new(), ends_count: false, lists_more: false }
    }

    /// Wakes the threads whose flushes are over. The caller holds no lock.
    pub(crate) fn wake(self) {
        self.over.iter().for_each(|flush| flush.over.set());
    }
}
