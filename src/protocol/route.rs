//! The cell of a route, which leads a shard's items to a pool. The route may turn to another pool at any time, and
//! the items keep their order.
//!
//! The word is the address of a pool. Its lowest bit says that the route is *plugged*. While it is plugged, new
//! entries are held in order. A route that is turned is plugged if an entry may lie in the former pool. Its entries
//! are held until all entries before them have left the former pool's worklist. A *marker* tells when: the turn
//! pushes this entry to the end of that worklist. The worker that pops the last marker releases the held entries, and
//! opens the route.
//!
//! While a route is plugged, only late entries (see below) are pushed to the pool that it leads to. So when a plugged
//! route is turned again, the pool that it leaves needs no marker, unless the route was open while it led there.
//!
//! **Late entries.** A push takes no lock. So an issuer may read the address of the former pool before the turn, and
//! push its entry behind the marker. Two fences forbid that this goes unnoticed: the fence in
//! [`turn`](RouteCell::turn), and the fence of [`RunningCell::pushed`](super::running::RunningCell::pushed) after the
//! push. Without them:
//!
//! * issuer: reads the route; pushes to the former pool; reads the route once more: it still leads there;
//! * turning thread: turns the word; looks for entries in the former pool, or pushes the marker: the entry of the
//!   issuer is not there.
//!
//! With them, the entry lies before the marker, or the issuer finds the route turned. In that case it pushes a marker
//! of its own ([`late`](RouteCell::late)), before its caller goes on. So each entry that is submitted after that is
//! held. The call of `late` plugs the route if it was open. Then entries may lie in the pool that the route leads to,
//! ahead of the held ones.
//!
//! Some callers cannot read the route again, because their entry may have been the last one to keep the shard in
//! place. They read the pool's [`RouteEpoch`] instead.
//!
//! **Opening.** The held entries are pushed before the word is opened, under the lock:
//!
//! * worker: pushes the held entries, then opens the word (release);
//! * issuer: finds the word open (acquire), then pushes. So its entry comes after the held ones.
//!
//! `U` keeps the pool that a route leads to open, and a former pool until the route's entries have left it. `E` is an
//! entry.

use std::collections::VecDeque;

use crate::policy::locks::Rank;
use crate::sys::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, fence};

/// See the module.
#[derive(Debug)]
pub(crate) struct RouteCell<P, E, U> {
    word: AtomicPtr<P>,      // A
    plug: Mutex<Plug<E, U>>, // R
}

#[derive(Debug)]
struct Plug<E, U> {
    /// The number of markers that were pushed and not popped. The route is plugged while there are any.
    markers: usize,
    held: VecDeque<E>,
    /// Whether the route was open at any time since it leads to its pool. If so, entries may lie there.
    was_open: bool,
    user: U,
    /// The users of the pools in whose worklists the markers lie.
    left: Vec<U>,
}

/// What a turn did.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turned<U> {
    /// The route needs the former pool no more: here is its user.
    Clear(U),
    /// A marker was pushed to the former pool.
    Marked,
}

/// The route epoch of a pool: the number of times that a route was turned away from it.
#[derive(Debug)]
pub(crate) struct RouteEpoch(AtomicU64);

const PLUGGED: usize = 1;

impl RouteEpoch {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the epoch. An issuer reads it before it reads the route, and again after its push and fence. If both
    /// are equal, its entry has not come late.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        // Acquire: if the first epoch includes a turn, the issuer reads the route as it is after that turn.
        self.0.load(Ordering::Acquire)
    }

    /// Counts a turn of a route away from this pool. The caller fences afterwards.
    pub(crate) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<P, E, U> RouteCell<P, E, U> {
    /// Makes a route that leads to this pool, which `user` keeps open. Pools are larger than a byte and live as long
    /// as the cell.
    pub(crate) fn new(pool: *const P, user: U) -> Self {
        const { assert!(align_of::<P>() > PLUGGED) };
        let plug = Plug { markers: 0, held: VecDeque::new(), was_open: true, user, left: Vec::new() };
        Self { word: AtomicPtr::new(pool.cast_mut()), plug: Mutex::ranked(Rank::Route, plug) }
    }

    /// Returns the pool to push to, or `None` while the route is plugged.
    #[inline]
    pub(crate) fn open(&self) -> Option<*const P> {
        // Acquire: an issuer that finds the route open pushes after the held entries. See the module.
        let word = self.word.load(Ordering::Acquire);
        (word.addr() & PLUGGED == 0).then_some(word.cast_const())
    }

    /// Returns the pool that the route leads to, plugged or not.
    pub(crate) fn pool(&self) -> *const P {
        self.word.load(Ordering::Acquire).map_addr(|address| address & !PLUGGED)
    }

    /// Returns whether the route leads elsewhere by now, or has come back plugged. The caller has pushed an entry to
    /// this pool, and has fenced since. A route that has come back plugged might be turned again without a marker
    /// behind that entry.
    #[inline]
    pub(crate) fn has_left(&self, pool: *const P) -> bool {
        self.word.load(Ordering::Relaxed).addr() != pool.addr()
    }

    /// Holds an entry back. Returns the entry if the route was opened meanwhile.
    pub(crate) fn hold_back(&self, entry: E) -> Result<(), E> {
        self.hold_back_by(entry, VecDeque::push_back)
    }

    /// Like [`hold_back`](Self::hold_back), for an entry that comes before all others.
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

    /// Turns the route to `pool`, and calls `turned` after that. `has_backlog` returns whether an entry may lie in
    /// the former pool. If so, `mark` pushes a marker there. One thread at a time calls this or [`late`](Self::late).
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
        fence(Ordering::SeqCst); // with the fence of `RunningCell::pushed`; see the module
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

    /// Plugs the route until the entries of a pool are popped, because an entry has come to that pool after the route
    /// left it. `mark` pushes a marker there, and `user` keeps the pool open.
    pub(crate) fn late(&self, user: U, mark: impl FnOnce()) {
        let mut plug = self.plug.lock();
        self.word.store(plugged(self.pool()), Ordering::Release);
        mark();
        plug.markers += 1;
        plug.left.push(user);
    }

    /// Notes that a marker was popped. If it was the last one, gives the held entries to `push`, with the pool that
    /// the route leads to, and opens the route. Returns the users of the pools that the route needs no more.
    pub(crate) fn marker_popped(&self, mut push: impl FnMut(*const P, E)) -> Vec<U> {
        let mut plug = self.plug.lock();
        debug_assert!(plug.markers > 0, "more markers were popped than pushed");
        plug.markers -= 1;
        if plug.markers > 0 {
            return Vec::new();
        }
        let pool = self.pool();
        plug.held.drain(..).for_each(|entry| push(pool, entry));
        self.unplug(&mut plug, pool);
        std::mem::take(&mut plug.left)
    }

    /// Opens the route, which leads to this pool. No entry is held any more.
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
