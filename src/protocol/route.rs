//! The cell of a route: where the items of a shard go, which may change at any time, and keeps their order.
//!
//! The word is the address of a pool; its lowest bit says that the route is *plugged*. A route that is turned to
//! another pool is plugged if anything may lie in the former one: what comes is held, in order, until everything before it has left
//! the former pool's worklist. That is known by a *marker*: an entry that is pushed to the end of that worklist at the
//! turn. The worker that pops it releases what is held, and opens the route. While a route is plugged nothing of it is
//! pushed to the pool that it leads to, but by who comes late. So it may be turned on, and needs no other marker, unless
//! it was open since it leads there.
//!
//! **Who comes late.** Pushing takes no lock: somebody may have read the former pool's address before the turn, and
//! push there behind the marker. Two fences make sure that this is noticed, one between the turn of the word and the
//! look at what lies there or the push of the marker, the other between a push and a second look at the word
//! ([`RunningCell::pushed`](super::running::RunningCell::pushed) has it). If the pusher's comes first, its entry lies
//! before the marker; otherwise the pusher finds the route turned, and pushes a marker of its own
//! ([`late`](RouteCell::late)). It does so before its caller goes on, so whatever is queued after that is held. That
//! plugs a route which was open: entries may lie in the pool that it leads to, before whatever is held.
//!
//! Whoever cannot look at the word again, since its entry may have kept the shard in place, looks at the pool's
//! [`Departures`] instead.
//!
//! **Opening.** What is held is pushed before the word is opened, under the lock: who finds it open pushes after that.
//!
//! `U` keeps the pool that a route leads to open, and a former one until it is left; `E` are entries.

use std::collections::VecDeque;

use crate::sys::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, fence};

/// See the module.
#[derive(Debug)]
pub(crate) struct RouteCell<P, E, U> {
    word: AtomicPtr<P>,
    plug: Mutex<Plug<E, U>>,
}

#[derive(Debug)]
struct Plug<E, U> {
    /// How many were pushed and not popped. The route is plugged while there are any.
    markers: usize,
    held: VecDeque<E>,
    /// Was the route open since it leads to its pool? Then entries may lie there.
    was_open: bool,
    user: U,
    /// Of the pools in whose worklists the markers lie.
    left: Vec<U>,
}

/// What a turn came to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turned<U> {
    /// Nothing is owed to the former pool, and this no longer used.
    Clear(U),
    /// A marker was pushed to the former pool.
    Marked,
}

/// How often routes were turned away from a pool.
#[derive(Debug)]
pub(crate) struct Departures(AtomicU64);

const PLUGGED: usize = 1;

impl Departures {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// To be asked before the route is read, and after the push and its fence. If that is the same, the entry has not come
    /// late.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        // Acquire: whose first count has a turn in it reads the route as it was turned to.
        self.0.load(Ordering::Acquire)
    }

    /// A route was turned away from here, and is about to be fenced.
    pub(crate) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<P, E, U> RouteCell<P, E, U> {
    /// Leads to this pool, which `user` keeps open. Pools are larger than a byte and live as long as the cell.
    pub(crate) fn new(pool: *const P, user: U) -> Self {
        const { assert!(align_of::<P>() > PLUGGED) };
        let plug = Plug { markers: 0, held: VecDeque::new(), was_open: true, user, left: Vec::new() };
        Self { word: AtomicPtr::new(pool.cast_mut()), plug: Mutex::new(plug) }
    }

    /// The pool to push to; `None` while the route is plugged.
    #[inline]
    pub(crate) fn open(&self) -> Option<*const P> {
        // Acquire: what was held is pushed before what finds the route open.
        let word = self.word.load(Ordering::Acquire);
        (word.addr() & PLUGGED == 0).then_some(word.cast_const())
    }

    /// The pool that it leads to, plugged or not.
    pub(crate) fn pool(&self) -> *const P {
        self.word.load(Ordering::Acquire).map_addr(|address| address & !PLUGGED)
    }

    /// The caller has pushed to this pool, and fenced since: does the route lead elsewhere by now? Or has it been elsewhere
    /// and come back plugged? It might leave without a marker then.
    #[inline]
    pub(crate) fn has_left(&self, pool: *const P) -> bool {
        self.word.load(Ordering::Relaxed).addr() != pool.addr()
    }

    /// Holds an entry back. If the route was opened meanwhile, the entry comes back.
    pub(crate) fn hold_back(&self, entry: E) -> Result<(), E> {
        self.hold_back_by(entry, VecDeque::push_back)
    }

    /// The same for an entry that comes before all others.
    pub(crate) fn hold_back_first(&self, entry: E) -> Result<(), E> {
        self.hold_back_by(entry, VecDeque::push_front)
    }

    fn hold_back_by(&self, entry: E, hold: impl FnOnce(&mut VecDeque<E>, E)) -> Result<(), E> {
        let mut plug = self.plug.lock();
        if plug.markers == 0 {
            return Err(entry);
        }
        hold(&mut plug.held, entry);
        Ok(())
    }

    /// From here on it leads to `pool`, and `turned` tells so. `has_backlog`: may an entry lie in the pool that it led to?
    /// Then `mark` pushes a marker there. One thread at a time calls this or [`late`](Self::late).
    pub(crate) fn turn(
        &self,
        pool: *const P,
        user: U,
        turned: impl FnOnce(),
        has_backlog: impl FnOnce() -> bool,
        mark: impl FnOnce(),
    ) -> Turned<U> {
        let mut plug = self.plug.lock();
        let former = std::mem::replace(&mut plug.user, user);
        self.word.store(plugged(pool), Ordering::Release);
        turned();
        fence(Ordering::SeqCst); // with that of `RunningCell::pushed`
        if std::mem::take(&mut plug.was_open) && has_backlog() {
            mark();
            plug.markers += 1;
            plug.left.push(former);
            return Turned::Marked;
        }
        if plug.markers == 0 {
            self.unplug(&mut plug, pool);
        }
        Turned::Clear(former)
    }

    /// An entry has come to a pool after the route left that: plugs the route until what lies there now is popped. `user`
    /// keeps that pool open until then.
    pub(crate) fn late(&self, user: U, mark: impl FnOnce()) {
        let mut plug = self.plug.lock();
        self.word.store(plugged(self.pool()), Ordering::Release);
        mark();
        plug.markers += 1;
        plug.left.push(user);
    }

    /// A marker was popped. If it was the last one, what is held goes to `push`, with the pool that the route leads to,
    /// and the route is open. Returns what is used no longer.
    pub(crate) fn marker_popped(&self, mut push: impl FnMut(*const P, E)) -> Vec<U> {
        let mut plug = self.plug.lock();
        debug_assert!(plug.markers > 0, "a marker was popped that nobody has pushed");
        plug.markers -= 1;
        if plug.markers > 0 {
            return Vec::new();
        }
        let pool = self.pool();
        plug.held.drain(..).for_each(|entry| push(pool, entry));
        self.unplug(&mut plug, pool);
        std::mem::take(&mut plug.left)
    }

    /// The route leads to this pool, and nothing is held any more.
    fn unplug(&self, plug: &mut Plug<E, U>, pool: *const P) {
        plug.was_open = true;
        self.word.store(pool.cast_mut(), Ordering::Release);
    }
}

fn plugged<P>(pool: *const P) -> *mut P {
    pool.cast_mut().map_addr(|address| address | PLUGGED)
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
