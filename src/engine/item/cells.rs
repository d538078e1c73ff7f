//! Reusable memory for the cells of one-shots.
//!
//! An issuer allocates a cell, but a worker frees it. General-purpose allocators are slowest if one thread allocates
//! the memory and another thread frees it. So a thread that frees a *chunk* of memory puts the chunk into one of its
//! own *thread caches*. A full thread cache hands half of its chunks to the [global
//! cache](crate::protocol::global_cache) of the process. An empty thread cache takes enough chunks from the global
//! cache to be half full. So one acquisition of the global cache's lock serves 32 items. If the global cache is full or
//! empty, or if another thread holds its lock, the thread calls the allocator instead.
//!
//! A chunk is only memory, and belongs to no queue or executor. When a chunk is given back, its content has already
//! been dropped or moved away. So any thread of the process can use the chunk next. Chunks are divided into *classes*
//! by their size. All chunks of a class have the same layout.
//!
//! The amount of cached memory is bounded. A thread keeps at most [`THREAD_CACHE_LEN`] chunks of each class, which is
//! 126 KiB for all classes together. When the thread ends, it frees these chunks. The global caches keep at most
//! [`GLOBAL_CACHE_BYTES`] of each class, which is 7 MiB for all classes together. The arrays of the thread caches take
//! another 7 KiB per thread.
//!
//! On a made-up machine (a simulation), another thread can continue only when the running thread reaches one of certain
//! points of the code. No other thread can continue at an access to a global cache, because the global caches belong to
//! the whole process. Otherwise, the order of threads in a run would depend on the cells that earlier runs have left in
//! the global caches.
//!
//! `--cfg cmwq_uncached` turns the thread caches and the global caches off, so that a sanitizer notices the use of a
//! freed cell.
#![allow(unsafe_code, reason = "memory is taken from, and given back to, the allocator")]

#[cfg(test)]
mod tests;

use std::alloc::{self, Layout};
use std::array;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::protocol::global_cache;
use crate::sys::machine;
use crate::sys::sync::{AtomicU64, Mutex};

const CACHED: bool = cfg!(not(any(cmwq_uncached, miri)));

/// The number of classes. If a pointer has 8 bytes, the classes serve cells of up to 248 bytes.
const CLASSES: usize = 14;
/// The alignment of `malloc`, in bytes. The sizes of neighbouring classes differ by `ALIGN`. So a cell takes no more
/// memory in a chunk than in an allocation of its own.
const ALIGN: usize = 2 * size_of::<usize>();
/// The number of bytes that an allocator keeps for itself in front of a chunk. The sum of this number and the size of a
/// chunk is a multiple of [`ALIGN`].
const ITS_OWN: usize = size_of::<usize>();
/// The number of bytes that a chunk of the first class takes, including the allocator's own bytes.
const FIRST: usize = 3 * ALIGN;

/// The number of chunks in a chain. A chain moves between a thread cache and the global cache in one step.
const CHAIN: usize = 32;
/// A thread cache holds at most this many chunks. After a chain has moved, the thread cache is half full. So the thread
/// puts or takes at least [`CHAIN`] chunks before the next chain moves.
const THREAD_CACHE_LEN: usize = 2 * CHAIN;
/// The global cache of each class holds at most this many bytes. This limit is approximately the number of bytes in
/// flight between a producer and a worker that alternate on one CPU.
const GLOBAL_CACHE_BYTES: usize = 512 << 10;

/// Uninitialized memory for a `C`.
pub(crate) struct Chunk<C>(NonNull<C>);

/// A chunk whose type is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bare(NonNull<u8>);

// SAFETY: no other pointer to the memory is in use.
unsafe impl Send for Bare {}

type Chain = [Bare; CHAIN];

/// The free chunks of one class on one thread, in the order in which they were put into the cache.
struct ThreadCache {
    chunks: [Cell<Option<Bare>>; THREAD_CACHE_LEN],
    len: Cell<usize>,
}

/// The thread caches of one thread.
struct ThreadCaches([ThreadCache; CLASSES]);

/// The free chunks of one class that are in no thread cache.
type GlobalCache = global_cache::GlobalCache<Chain>;

static GLOBAL_CACHES: [GlobalCache; CLASSES] = [const { empty_global_cache() }; CLASSES];

thread_local! {
    static THREAD_CACHES: ThreadCaches = const { ThreadCaches([const { ThreadCache::new() }; CLASSES]) };
}

impl<C> Chunk<C> {
    /// The first class whose chunks have room for a `C`, or `None` if there is no such class.
    const CLASS: Option<usize> = class_of(Layout::new::<C>());

    /// Returns memory for a `C`: either a free chunk or newly allocated memory.
    #[inline]
    pub(crate) fn find() -> Self {
        let chunk = match Self::CLASS {
            Some(class) => take(class),
            None => allocate(Layout::new::<C>()),
        };
        Self(chunk.0.cast())
    }

    /// Takes over the memory of a cell. Dropping the chunk gives the memory back, so the caller first drops the cell's
    /// content or moves it elsewhere.
    ///
    /// # Safety
    ///
    /// [`fill`](Self::fill) made the cell, the caller owns the cell, and no other reference to the cell is used any
    /// more.
    #[inline]
    pub(crate) unsafe fn of(cell: NonNull<C>) -> Self {
        Self(cell)
    }

    #[inline]
    pub(crate) fn fill(self, content: C) -> NonNull<C> {
        let chunk = ManuallyDrop::new(self);
        // SAFETY: a chunk has the size and alignment of its `C`, and this function owns it.
        unsafe { chunk.0.write(content) };
        chunk.0
    }
}

impl<C> Drop for Chunk<C> {
    #[inline]
    fn drop(&mut self) {
        let chunk = Bare(self.0.cast());
        match Self::CLASS {
            Some(class) => put(class, chunk),
            // SAFETY: a chunk without a class was allocated with this layout.
            None => unsafe { free(chunk, Layout::new::<C>()) },
        }
    }
}

/// Returns the first class that has room for this layout, or `None` if there is no such class.
const fn class_of(layout: Layout) -> Option<usize> {
    let class = (layout.size() + ITS_OWN).saturating_sub(FIRST).div_ceil(ALIGN);
    if CACHED && class < CLASSES && layout.align() <= ALIGN { Some(class) } else { None }
}

const fn layout_of(class: usize) -> Layout {
    match Layout::from_size_align(FIRST + class * ALIGN - ITS_OWN, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a class is small, and its alignment is a power of two"),
    }
}

const fn empty_global_cache() -> GlobalCache {
    GlobalCache::of(Mutex::new(Vec::new()), AtomicU64::new(0))
}

/// Returns the maximum number of chains in the global cache of a class.
const fn chains_of(class: usize) -> usize {
    GLOBAL_CACHE_BYTES / ((FIRST + class * ALIGN) * CHAIN)
}

#[inline]
fn take(class: usize) -> Bare {
    // The thread caches of an ending thread may already be gone.
    let chunk = THREAD_CACHES.try_with(|thread_caches| thread_caches.0[class].take(&GLOBAL_CACHES[class]));
    chunk.ok().flatten().unwrap_or_else(|| allocate(layout_of(class)))
}

#[inline]
fn put(class: usize, chunk: Bare) {
    if THREAD_CACHES
        .try_with(|thread_caches| thread_caches.0[class].put(chunk, class, &GLOBAL_CACHES[class]))
        .is_err()
    {
        // SAFETY: every chunk of the class was allocated with the class's layout.
        unsafe { free(chunk, layout_of(class)) };
    }
}

fn allocate(layout: Layout) -> Bare {
    // SAFETY: the size is not 0, because no class has size 0, and every cell contains a header.
    let memory = unsafe { alloc::alloc(layout) };
    Bare(NonNull::new(memory).unwrap_or_else(|| alloc::handle_alloc_error(layout)))
}

/// # Safety
///
/// The chunk was allocated with this layout, and the caller owns it.
unsafe fn free(chunk: Bare, layout: Layout) {
    // SAFETY: the caller promises that the chunk has this layout, and owns the chunk.
    unsafe { alloc::dealloc(chunk.0.as_ptr(), layout) };
}

impl ThreadCache {
    const fn new() -> Self {
        Self { chunks: [const { Cell::new(None) }; THREAD_CACHE_LEN], len: Cell::new(0) }
    }

    #[inline]
    fn take(&self, global_cache: &GlobalCache) -> Option<Bare> {
        if self.len.get() == 0 {
            self.fetch(global_cache);
        }
        let last = self.len.get().checked_sub(1)?;
        self.len.set(last);
        self.chunks[last].get()
    }

    #[inline]
    fn put(&self, chunk: Bare, class: usize, global_cache: &GlobalCache) {
        // The loop is needed because `hand_over` may call the allocator. An allocator that itself uses queues can put
        // chunks into this cache during that call.
        while self.len.get() == THREAD_CACHE_LEN {
            self.hand_over(class, global_cache);
        }
        let len = self.len.get();
        self.chunks[len].set(Some(chunk));
        self.len.set(len + 1);
    }

    /// Fills half of an empty thread cache from the global cache, if the global cache has a chain and its lock is free.
    fn fetch(&self, global_cache: &GlobalCache) {
        if let Some(chain) = machine::quietly(|| global_cache.take()) {
            chain.into_iter().zip(&self.chunks).for_each(|(chunk, place)| place.set(Some(chunk)));
            self.len.set(CHAIN);
        }
    }

    /// Empties half of a full thread cache. Hands the oldest chunks to the global cache, or frees them.
    #[cold]
    fn hand_over(&self, class: usize, global_cache: &GlobalCache) {
        let oldest: Chain =
            array::from_fn(|n| self.chunks[n].get().expect("a full thread cache has a chunk in each place"));
        (0..CHAIN).for_each(|n| self.chunks[n].set(self.chunks[CHAIN + n].get()));
        self.len.set(CHAIN);
        // SAFETY: chunks in a thread cache of the class were allocated with the class's layout.
        let free_one = |chunk| unsafe { free(chunk, layout_of(class)) };
        machine::quietly(|| {
            if let Err(oldest) = global_cache.put(oldest, chains_of(class)) {
                oldest.into_iter().for_each(free_one);
            }
        });
    }
}

impl Drop for ThreadCaches {
    /// Frees the chunks of a thread that ends.
    fn drop(&mut self) {
        for (class, thread_cache) in self.0.iter().enumerate() {
            let chunks = &thread_cache.chunks[..thread_cache.len.replace(0)];
            // SAFETY: chunks in a thread cache of the class were allocated with the class's layout.
            chunks
                .iter()
                .filter_map(|place| place.get())
                .for_each(|chunk| unsafe { free(chunk, layout_of(class)) });
        }
    }
}
