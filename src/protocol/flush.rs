//! The cell of a queue's [`Flushes`], and the count of the items without a ticket.
//!
//! **The lock.** Everything about tickets happens under one lock: a flush begins; an item takes its ticket and is
//! admitted; an item with a ticket is listed, or gives its slot up; a count ends. So these steps need no other order.
//!
//! **The count.** Items without a ticket come and go without the lock. A flush that counts them turns each limiter to
//! *flushing*, and learns in the same step how many items are in flight there. So each item is admitted before that
//! step, and counted, or after it, and takes a ticket. An item without a ticket that gives its slot up learns in the
//! same step whether its limiter is flushing. If so, it was counted, and it [reports](Unreported::report) afterwards.
//! In two steps this could happen:
//!
//! * worker: reads the limiter: it is not flushing;
//! * flusher: turns the limiter, and counts the item;
//! * worker: gives the slot up, and does not report. So the count never ends.
//!
//! Reports may come before the numbers of all limiters are added, and make the count negative. So the count is zero
//! again if, and only if, every counted item has reported. The thread that brings it to zero ends the count.
//!
//! **Arrivals.** The step that turns a limiter to flushing also returns how many items are coming there. These items
//! must be listed before later ones. So an issuer brings a later item to this cell. The cell holds that item, and
//! lists it when the earlier ones are listed. While an item is held, its limiter counts an item as coming. So no item
//! gets a slot there ahead of the held one. An item without a ticket is listed without the lock, and learns in that
//! step that its limiter is flushing. Then the flush has found it coming, and its issuer [says](FlushCell::arrived)
//! that it has arrived. Its run, and the count, may be over by then. So the limiters stay flushing until the last such
//! item has arrived.
//!
//! **Former places.** A cancelled item has an entry in flight, for which flushes may wait. If a later submission used
//! that entry, those flushes would wait for the later submission. So an entry is used again only under the lock, and
//! only if [no flush waits](FlushCell::with_awaited).
//!
//! **Lifetime.** An item that has given its slot up does not keep its queue in place. A count does. The flush takes a
//! reference to the queue for it before it turns the first limiter, and the thread that ends the count gives it up.
//! The count does not end before every counted item has reported. So an item may use the queue until it has reported.
//!
//! **Order.** Reports release, and the thread that ends the count acquires them. A limiter is read with acquire. All
//! other steps are under the lock, and a [`Signal`] wakes the flushing thread:
//!
//! * worker: runs the item, then reports;
//! * last worker: reports, ends the count, and sets the signal;
//! * flusher: sees the signal, then what all counted items did.

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

/// The number of counted items that have not reported. It is zero between two counts.
///
/// It is a type of its own, and one word, because the queue may be freed before the call that reports returns. A
/// reference to a struct with padding promises that its bytes stay until the call returns. A reference to an atomic
/// promises no such thing.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Unreported(AtomicI64);

#[derive(Debug)]
struct State<E> {
    flushes: Flushes<E>,
    /// The flushes that threads wait for, in the order of their numbers.
    awaited: VecDeque<Flush>,
}

/// A flush that has begun. Threads that share its number share the signal.
#[derive(Clone, Debug)]
pub(crate) struct Flush {
    number: u64,
    over: Arc<Signal>,
}

/// How many items are listed under the lock before the caller starts those that have a slot. While the intake is shut
/// each listed item gets a slot, and a limiter can count only so many active items.
const LISTED_AT_ONCE: usize = 64;

/// What the caller does after a step under the lock. It keeps the queue in place until it has done that.
#[must_use]
#[derive(Debug)]
pub(crate) struct Rest<E> {
    over: Vec<Flush>,
    /// Items that were on a list and have a slot now: the caller starts them.
    pub(crate) started: Vec<E>,
    /// More items can be listed. The caller starts those above, and then calls [`FlushCell::list_more`].
    pub(crate) lists_more: bool,
    /// A count is over: the caller gives up the reference to the queue that belongs to the count.
    pub(crate) ends_count: bool,
}

impl<E> FlushCell<E> {
    pub(crate) fn new() -> Self {
        let state = State { flushes: Flushes::new(), awaited: VecDeque::new() };
        Self { unreported: Unreported(AtomicI64::new(0)), state: Mutex::ranked(Rank::Flushes, state) }
    }

    /// Begins a flush. Returns `None` if it is over at once. Calls `reference` before a count begins, which takes
    /// the count's reference to the queue.
    pub(crate) fn begin<'g>(
        &self,
        limiters: impl Iterator<Item = &'g LimiterCell> + Clone,
        reference: impl FnOnce(),
    ) -> (Option<Flush>, Rest<E>) {
        let mut state = self.state.lock();
        let with_ticket = state.flushes.with_ticket();
        // Each limiter has at least its items with tickets, whose number changes only under the lock. So if the sums
        // are equal, each limiter had no other item when it was read.
        let finds_more = || limiters.clone().map(LimiterCell::in_flight).sum::<u64>() > with_ticket;
        let finds_more = !state.flushes.gives_tickets() && (state.flushes.has_coming() || finds_more());
        let number = state.flushes.begin(finds_more);
        let mut rest = Rest::new();
        if finds_more {
            reference();
            let found: Found = limiters.clone().map(LimiterCell::begin_flush).sum();
            state.flushes.found_coming(found.coming);
            let counted = (found.in_flight - with_ticket) as i64;
            // Acquire: the flusher sees what the items did before they reported, with release.
            if self.unreported.0.fetch_add(counted, Ordering::AcqRel) + counted == 0 {
                state.end_count(limiters, &mut rest);
            }
        }
        let flush = (state.flushes.over() < number).then(|| state.awaited(number));
        (flush, rest)
    }

    /// Calls `act`, and tells it whether a thread waits for a flush. No flush begins meanwhile.
    #[cold]
    pub(crate) fn with_awaited<R>(&self, act: impl FnOnce(bool) -> R) -> R {
        let state = self.state.lock();
        act(!state.awaited.is_empty())
    }

    /// Adds a limiter to the queue by `publish`. The limiter has not been used before.
    pub(crate) fn add_limiter(&self, limiter: Option<&LimiterCell>, publish: impl FnOnce()) {
        let state = self.state.lock();
        if state.flushes.gives_tickets() {
            let found = limiter.map(LimiterCell::begin_flush);
            debug_assert!(found.is_none_or(|found| found.in_flight == 0));
        }
        publish();
    }

    /// Admits items by `admit` to a limiter that was seen flushing, and gives them a ticket. `came` returns the items
    /// that were admitted.
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

    /// Takes an item with this ticket from its issuer, which its limiter told to wait, and lists the items that may be
    /// listed. `list` puts an item on its limiter's list, which keeps the order, calls [`LimiterCell::list_held`], and
    /// returns the item to start, if any.
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

    /// Notes that `items` items without a ticket have arrived, which were coming when a flush began, as their limiter
    /// has told. They are on their list, or were withdrawn. `list` as in [`bring`](Self::bring).
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

    /// Lists more items, after a step said that there are some. `list` as in [`bring`](Self::bring).
    #[cold]
    pub(crate) fn list_more<'g>(
        &self,
        limiters: impl Iterator<Item = &'g LimiterCell>,
        list: impl FnMut(E) -> Option<E>,
    ) -> Rest<E> {
        self.state.lock().proceed(limiters, list)
    }

    /// Takes back an item with a ticket that was told to wait. `leave` takes it out of its limiter; `list` as in
    /// [`bring`](Self::bring).
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

    /// Completes an item with a ticket, which is done or gives its slot up unused. `leave` takes it out of its limiter.
    #[cold]
    pub(crate) fn complete<A>(&self, ticket: Ticket, leave: impl FnOnce() -> A) -> (A, Rest<E>) {
        let mut rest = Rest::new();
        let mut state = self.state.lock();
        let left = leave();
        state.flushes.complete(ticket);
        state.find_over(&mut rest);
        (left, rest)
    }

    /// Ends the count. Called by the thread whose [`report`](Unreported::report) said so.
    pub(crate) fn end_count<'g>(&self, limiters: impl Iterator<Item = &'g LimiterCell>) -> Rest<E> {
        let mut rest = Rest::new();
        self.state.lock().end_count(limiters, &mut rest);
        rest
    }

    /// Ends the calling thread's wait for this flush. The flush's items are still counted.
    #[cold]
    pub(crate) fn abandon(&self, flush: Flush) {
        let mut state = self.state.lock();
        let number = flush.number;
        // Under the lock, so that of several threads that give up, the last one finds that it is the last.
        drop(flush);
        let is_shared = |other: &Flush| Arc::strong_count(&other.over) > 1;
        state.awaited.retain(|other| other.number != number || is_shared(other));
    }

    /// Returns whether this flush waits for an item in flight that has this ticket, or none.
    pub(crate) fn waits_for(&self, flush: &Flush, ticket: Option<Ticket>) -> bool {
        let state = self.state.lock();
        state.flushes.over() < flush.number && state.flushes.waits_for(flush.number, ticket)
    }
}

impl Unreported {
    /// Reports that an item without a ticket has left its limiter, which is flushing. Returns whether the caller is to
    /// end the count.
    ///
    /// The queue stays in place until the item has reported. After that, a caller that is not told to end the count
    /// must not rely on the count to use the queue.
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

    /// Lists the items behind some that are not coming any more.
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
    /// Sleeps until the flush is over. Returns false if the time ran out first.
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

    /// Wakes the threads whose flushes are over. The caller has no lock.
    pub(crate) fn wake(self) {
        self.over.iter().for_each(|flush| flush.over.set());
    }
}
