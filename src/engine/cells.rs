//! Room for the cells of one-shots, used again and again.
//!
//! An issuer's thread makes a cell and a worker's frees it, which is what general allocators are slowest at. So a room that
//! becomes free goes onto a *shelf* of the thread that frees it. A shelf that is full hands half of its rooms to the
//! [depot](crate::protocol::depot) of the process, and one that is empty takes as many from there: one lock for 32 items. A
//! thread that finds the depot full or empty, or another thread there, turns to the allocator.
//!
//! A room is memory and nothing else. It belongs to no queue and no executor, and what was in one is gone before it is
//! given back; so it may turn up anywhere in the process. All rooms of a class have the same layout, wherever they come
//! from.
//!
//! What is kept is bounded: [`SHELF`] rooms of each class for a thread, which go when it ends, 126 KiB if it has used all
//! classes; and [`DEPOT_BYTES`] of each class for the process, 7 MiB. Each thread has 7 KiB of places on its shelves.
//!
//! `--cfg cmwq_uncached` leaves all of this out, so that a sanitizer sees who uses a cell that is gone.
#![allow(unsafe_code, reason = "memory is taken from, and given back to, the allocator")]

#[cfg(test)]
mod tests;

use std::alloc::{self, Layout};
use std::array;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::protocol::depot;
use crate::sys::sync::{AtomicU64, Mutex};

const CACHED: bool = cfg!(not(any(cmwq_uncached, miri)));

/// Cells of up to 248 bytes, where a pointer has 8.
const CLASSES: usize = 14;
/// As `malloc` aligns by itself. A class has so many bytes more than the one before: a cell takes no more than by itself.
const ALIGN: usize = 2 * size_of::<usize>();
/// What an allocator keeps in front of a room, which is so much smaller than a multiple of the step.
const ITS_OWN: usize = size_of::<usize>();
/// What a room of the first class takes with that.
const FIRST: usize = 3 * ALIGN;

/// Rooms that change hands at once.
const CHAIN: usize = 32;
/// Rooms on a shelf. After a chain has come or gone, as many may go or come before the next one does.
const SHELF: usize = 2 * CHAIN;
/// Of each class. About what is in flight between a producer and a worker that take turns on a CPU.
const DEPOT_BYTES: usize = 512 << 10;

/// Memory for a `C`, with nothing in it.
pub(super) struct Room<C>(NonNull<C>);

/// Memory of some class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bare(NonNull<u8>);

// SAFETY: nobody has any other pointer to it.
unsafe impl Send for Bare {}

type Chain = [Bare; CHAIN];

/// The free rooms of one class on one thread; the last ones were used last.
struct Shelf {
    rooms: [Cell<Option<Bare>>; SHELF],
    len: Cell<usize>,
}

/// The shelves of one thread.
struct Shelves([Shelf; CLASSES]);

/// Free rooms of one class that are on no shelf.
type Depot = depot::Depot<Chain>;

static DEPOTS: [Depot; CLASSES] = [const { empty_depot() }; CLASSES];

thread_local! {
    static SHELVES: Shelves = const { Shelves([const { Shelf::new() }; CLASSES]) };
}

impl<C> Room<C> {
    /// `None`: it is too large for all of them.
    const CLASS: Option<usize> = class_of(Layout::new::<C>());

    /// Finds memory for a `C`.
    #[inline]
    pub(super) fn find() -> Self {
        let room = match Self::CLASS {
            Some(class) => take(class),
            None => allocate(Layout::new::<C>()),
        };
        Self(room.0.cast())
    }

    /// Memory whose content was dropped, or moved elsewhere. It is given back when this is dropped.
    ///
    /// # Safety
    ///
    /// The cell is one that [`fill`](Self::fill) made, and nobody uses it any more.
    #[inline]
    pub(super) unsafe fn of(cell: NonNull<C>) -> Self {
        Self(cell)
    }

    #[inline]
    pub(super) fn fill(self, content: C) -> NonNull<C> {
        let room = ManuallyDrop::new(self);
        // SAFETY: a room has the size and alignment of its `C`, and is this function's alone.
        unsafe { room.0.write(content) };
        room.0
    }
}

impl<C> Drop for Room<C> {
    #[inline]
    fn drop(&mut self) {
        let room = Bare(self.0.cast());
        match Self::CLASS {
            Some(class) => put(class, room),
            // SAFETY: a room without a class was allocated with this layout.
            None => unsafe { free(room, Layout::new::<C>()) },
        }
    }
}

/// Which class has room for this, if any.
const fn class_of(layout: Layout) -> Option<usize> {
    let class = (layout.size() + ITS_OWN).saturating_sub(FIRST).div_ceil(ALIGN);
    if CACHED && class < CLASSES && layout.align() <= ALIGN { Some(class) } else { None }
}

const fn layout_of(class: usize) -> Layout {
    match Layout::from_size_align(FIRST + class * ALIGN - ITS_OWN, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a class is small, and its alignment a power of two"),
    }
}

const fn empty_depot() -> Depot {
    Depot::of(Mutex::new(Vec::new()), AtomicU64::new(0))
}

/// How many chains of a class are kept.
const fn chains_of(class: usize) -> usize {
    DEPOT_BYTES / ((FIRST + class * ALIGN) * CHAIN)
}

#[inline]
fn take(class: usize) -> Bare {
    // A thread that is ending has no shelves any more.
    let room = SHELVES.try_with(|shelves| shelves.0[class].take(&DEPOTS[class]));
    room.ok().flatten().unwrap_or_else(|| allocate(layout_of(class)))
}

#[inline]
fn put(class: usize, room: Bare) {
    if SHELVES.try_with(|shelves| shelves.0[class].put(room, class, &DEPOTS[class])).is_err() {
        // SAFETY: every room of the class was allocated with its layout.
        unsafe { free(room, layout_of(class)) };
    }
}

fn allocate(layout: Layout) -> Bare {
    // SAFETY: neither a class nor a cell has size 0: a cell has a header.
    let memory = unsafe { alloc::alloc(layout) };
    Bare(NonNull::new(memory).unwrap_or_else(|| alloc::handle_alloc_error(layout)))
}

/// # Safety
///
/// The room was allocated with this layout, and is the caller's alone.
unsafe fn free(room: Bare, layout: Layout) {
    // SAFETY: the caller says so.
    unsafe { alloc::dealloc(room.0.as_ptr(), layout) };
}

impl Shelf {
    const fn new() -> Self {
        Self { rooms: [const { Cell::new(None) }; SHELF], len: Cell::new(0) }
    }

    #[inline]
    fn take(&self, depot: &Depot) -> Option<Bare> {
        if self.len.get() == 0 {
            self.fetch(depot);
        }
        let last = self.len.get().checked_sub(1)?;
        self.len.set(last);
        self.rooms[last].get()
    }

    #[inline]
    fn put(&self, room: Bare, class: usize, depot: &Depot) {
        // Again, if an allocator that uses queues itself has put rooms here meanwhile.
        while self.len.get() == SHELF {
            self.hand_over(class, depot);
        }
        let len = self.len.get();
        self.rooms[len].set(Some(room));
        self.len.set(len + 1);
    }

    /// Fills an empty shelf by half, if that can be done at once.
    fn fetch(&self, depot: &Depot) {
        if let Some(chain) = depot.take() {
            chain.into_iter().zip(&self.rooms).for_each(|(room, place)| place.set(Some(room)));
            self.len.set(CHAIN);
        }
    }

    /// Empties a full shelf by half.
    #[cold]
    fn hand_over(&self, class: usize, depot: &Depot) {
        let oldest: Chain =
            array::from_fn(|n| self.rooms[n].get().expect("a full shelf has a room in each place"));
        (0..CHAIN).for_each(|n| self.rooms[n].set(self.rooms[CHAIN + n].get()));
        self.len.set(CHAIN);
        if let Err(oldest) = depot.put(oldest, chains_of(class)) {
            // SAFETY: rooms on a shelf of the class were allocated with its layout.
            oldest.into_iter().for_each(|room| unsafe { free(room, layout_of(class)) });
        }
    }
}

impl Drop for Shelves {
    /// The thread ends.
    fn drop(&mut self) {
        for (class, shelf) in self.0.iter().enumerate() {
            let rooms = &shelf.rooms[..shelf.len.replace(0)];
            // SAFETY: as in `hand_over`.
            rooms
                .iter()
                .filter_map(|place| place.get())
                .for_each(|room| unsafe { free(room, layout_of(class)) });
        }
    }
}
