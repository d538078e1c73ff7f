//! The cell of a route, which leads a shard's items to a pool. The route can be turned to another pool at any time, and
//! the items still keep their order.
//!
//! The word is the address of a pool. The lowest bit of the word says that the route is *plugged*. While the route is
//! plugged, it holds new entries back, in their order. A turn plugs the route if an entry may still lie in the former
//! pool. The route then holds new entries back until all earlier entries have left the former pool's worklist. The turn
//! pushes a special entry, the *marker*, to the end of that worklist. A popped marker shows that the earlier entries
//! have left. The worker that pops the last marker releases the held entries, and opens the route.
//!
//! While a route is plugged, issuers push only late entries (see below) to the pool to which the route leads. So when a
//! plugged route is turned away from a pool, that pool may need no marker. The pool needs a marker only if the route
//! was open at some time while it led to this pool.
//!
//! **Late entries.** A push takes no lock. So an issuer can read the address of the former pool before the turn, and
//! push its entry behind the marker. Two fences ensure that an entry behind the marker does not stay unnoticed: the
//! fence in [`turn`](RouteCell::turn), and the fence of [`RunningCell::pushed`](super::running::RunningCell::pushed)
//! after the push. Without the fences, this could happen:
//!
//! * issuer: reads the route; pushes to the former pool; reads the route again: the route still leads to that pool;
//! * turning thread: changes the word; looks for entries in the former pool, or pushes the marker. At that moment, the
//!   issuer's entry is not in the pool yet.
//!
//! With the fences, either the entry lies before the marker, or the issuer finds that the route was turned. An issuer
//! that finds a turned route pushes a marker of its own ([`late`](RouteCell::late)) before the submission returns. So
//! the route holds back all entries that are submitted after this submission has returned. If the route was open,
//! `late` plugs it. The pool to which the route leads may then already contain entries, which come before the held
//! entries.
//!
//! Some issuers cannot read the route again after their push, because the shard may be freed as soon as their entry is
//! gone. These issuers read the pool's [`RouteEpoch`] instead.
//!
//! **Opening.** Under the lock, a worker pushes the held entries before it opens the word:
//!
//! * worker: pushes the held entries, then opens the word (release);
//! * issuer: finds the word open (acquire), then pushes. So the issuer's entry comes after the held entries.
//!
//! **Entries that take turns.** If a route leads the entries of a weighted queue, these entries take turns with those
//! of other queues, and the route's word has a second tag. With this tag, the route does not look open to the fast path
//! of a submission. So the fast path need not check whether the queue has a weight. The slow path then puts the entry
//! into the queue's own line in the pool, and not on the worklist. Turns of the route and late entries are handled as
//! described above, but the markers lie in the queue's line.
//!
//! A *user*, which is a value of type `U`, keeps a pool open. The route has a user of the pool to which it leads. The
//! route also has a user of each former pool, until the route's entries have left that pool. `E` is the type of an
//! entry.

use std::collections::VecDeque;

use crate::policy::locks::Rank;
use crate::sys::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, fence};

/// See the module.
#[derive(Debug)]
pub(crate) struct RouteCell<P, E, U> {
    word: AtomicPtr<P>, // A
    /// [`TAKES_TURNS`] if the entries take turns with those of other queues, and 0 otherwise.
    tag: usize, // I
    plug: Mutex<Plug<E, U>>, // R
}

#[derive(Debug)]
struct Plug<E, U> {
    /// The number of markers that were pushed and not yet popped. The route is plugged while this number is not zero.
    markers: usize,
    held: VecDeque<E>,
    /// Whether the route has been open at any time since it was turned to its present pool. If it has been open, that
    /// pool may contain entries.
    was_open: bool,
    user: U,
    /// The former users of this route. Each former user keeps open a pool whose worklist has a marker of this route.
    left: Vec<U>,
}

/// The result of a turn.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turned<U> {
    /// The route no longer needs the former pool. The value is the user of that pool.
    Clear(U),
    /// A marker was pushed to the former pool.
    Marked,
}

/// The route epoch of a pool, which is the number of times that a route was turned away from the pool.
#[derive(Debug)]
pub(crate) struct RouteEpoch(AtomicU64);

const PLUGGED: usize = 1;
const TAKES_TURNS: usize = 2;
const TAGS: usize = PLUGGED | TAKES_TURNS;

impl RouteEpoch {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the epoch. An issuer reads the epoch before it reads the route, and again after its push and its fence.
    /// If the two readings are equal, the issuer's entry is not late.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        // Acquire: if the issuer's first reading includes a turn, the issuer then reads the route as it is after that
        // turn.
        self.0.load(Ordering::Acquire)
    }

    /// Counts a turn of a route away from this pool. The caller issues a fence after the call.
    pub(crate) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<P, E, U> RouteCell<P, E, U> {
    /// Makes a route that leads to this pool, which `user` keeps open. The address of a pool is a multiple of 4, and
    /// pools live as long as the cell.
    pub(crate) fn new(pool: *const P, user: U) -> Self {
        const { assert!(align_of::<P>() > TAGS) };
        let plug = Plug { markers: 0, held: VecDeque::new(), was_open: true, user, left: Vec::new() };
        Self { word: AtomicPtr::new(pool.cast_mut()), tag: 0, plug: Mutex::ranked(Rank::Route, plug) }
    }

    /// Does the same as [`new`](Self::new), for the entries of a weighted queue.
    pub(crate) fn with_turns(pool: *const P, user: U) -> Self {
        let route = Self { tag: TAKES_TURNS, ..Self::new(pool, user) };
        Self { word: AtomicPtr::new(route.opened(pool)), ..route }
    }

    /// Returns the pool to whose worklist an issuer pushes its entry. Returns `None` while the route is plugged. If the
    /// entries take turns, always returns `None`.
    #[inline]
    pub(crate) fn open(&self) -> Option<*const P> {
        // Acquire: if an issuer finds the route open, its entry comes after the entries that the route has held. See
        // the module.
        let word = self.word.load(Ordering::Acquire);
        (word.addr() & TAGS == 0).then_some(word.cast_const())
    }

    /// Returns the pool in which the entries take turns. Returns `None` while the route is plugged. If the entries go
    /// to a worklist, always returns `None`.
    pub(crate) fn open_for_turns(&self) -> Option<*const P> {
        // The load acquires for the same reason as in `open`.
        let word = self.word.load(Ordering::Acquire);
        (word.addr() & TAGS == TAKES_TURNS).then_some(untagged(word))
    }

    /// Returns the pool that the route leads to, even if the route is plugged.
    pub(crate) fn pool(&self) -> *const P {
        untagged(self.word.load(Ordering::Acquire))
    }

    /// Returns whether the route now leads to another pool, or is plugged. The caller has pushed an entry to `pool`,
    /// and has then issued a fence. The answer must also be true if the route has come back to `pool` and is plugged.
    /// Otherwise a later turn away from `pool` might push no marker behind the caller's entry.
    #[inline]
    pub(crate) fn has_left(&self, pool: *const P) -> bool {
        self.word.load(Ordering::Relaxed).addr() != self.opened(pool).addr()
    }

    /// Does the same as [`has_left`](Self::has_left), for a route whose entries go to a worklist. So the call need not
    /// read the route's `tag`.
    #[inline]
    pub(crate) fn has_left_worklist(&self, pool: *const P) -> bool {
        self.word.load(Ordering::Relaxed).addr() != pool.addr()
    }

    /// Holds an entry back. Returns the entry if the route has been opened meanwhile.
    pub(crate) fn hold_back(&self, entry: E) -> Result<(), E> {
        self.hold_back_by(entry, VecDeque::push_back)
    }

    /// Holds an entry back, as [`hold_back`](Self::hold_back) does, but ahead of all other held entries.
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

    /// Turns the route to `pool`, and then calls `turned`. `has_backlog` returns whether an entry may lie in the former
    /// pool. `mark` pushes a marker to the former pool, if the pool needs one. Only one thread at a time calls this
    /// function or [`late`](Self::late).
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

    /// Plugs the route until the entries of a pool have been popped, because an entry was pushed to that pool late,
    /// after the route had left it. `mark` pushes a marker to that pool, and `user` keeps the pool open.
    pub(crate) fn late(&self, user: U, mark: impl FnOnce()) {
        let mut plug = self.plug.lock();
        self.word.store(plugged(self.pool()), Ordering::Release);
        mark();
        plug.markers += 1;
        plug.left.push(user);
    }

    /// Notes that a marker was popped. If this was the route's last marker, pushes each held entry with `push` to the
    /// pool to which the route leads, and then opens the route. Returns the users of the pools that the route no longer
    /// needs.
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

    /// Opens the route, which leads to this pool. The route holds no entry any more.
    fn unplug(&self, plug: &mut Plug<E, U>, pool: *const P) {
        plug.was_open = true;
        self.word.store(self.opened(pool), Ordering::Release);
    }

    /// Returns the word that this route has while it is open and leads to this pool.
    fn opened(&self, pool: *const P) -> *mut P {
        pool.cast_mut().map_addr(|address| address | self.tag)
    }
}

fn untagged<P>(word: *const P) -> *const P {
    word.map_addr(|address| address & !TAGS)
}

fn plugged<P>(pool: *const P) -> *mut P {
    pool.cast_mut().map_addr(|address| address | PLUGGED)
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
