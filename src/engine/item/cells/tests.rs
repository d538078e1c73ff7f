#![allow(unsafe_code, reason = "chunks are given back by hand")]

use std::collections::HashSet;
use std::sync::mpsc;

use super::*;

/// Takes this many chunks of class 1 from the thread cache. Takes a chunk from the allocator if neither the thread
/// cache nor the global cache has one.
fn take(thread_cache: &ThreadCache, global_cache: &GlobalCache, count: usize) -> Vec<Bare> {
    (0..count).map(|_| thread_cache.take(global_cache).unwrap_or_else(|| allocate(layout_of(1)))).collect()
}

fn free_all(chunks: impl IntoIterator<Item = Bare>) {
    // SAFETY: all chunks of these tests are of class 1, and each is freed once.
    chunks.into_iter().for_each(|chunk| unsafe { free(chunk, layout_of(1)) });
}

#[test]
fn a_class_has_room_for_its_cells_and_wastes_less_than_a_step() {
    for size in 1..300 {
        for align in [1, 2, 4, 8, ALIGN] {
            let cell = Layout::from_size_align(size, align).unwrap();
            match class_of(cell) {
                Some(class) => {
                    let chunk = layout_of(class);
                    assert!(chunk.size() >= size && chunk.align() >= align, "{cell:?} in {chunk:?}");
                    assert!(class == 0 || chunk.size() < size + ALIGN, "{cell:?} in {chunk:?}");
                    assert!(class < CLASSES && chains_of(class) > 0);
                }
                None => assert!(!CACHED || size > layout_of(CLASSES - 1).size(), "{cell:?}"),
            }
        }
    }
    assert_eq!(class_of(Layout::from_size_align(64, 2 * ALIGN).unwrap()), None, "over-aligned");
}

#[test]
fn chunks_come_back_through_the_global_cache_and_none_is_taken_twice() {
    let (global_cache, issuer, worker) = (empty_global_cache(), ThreadCache::new(), ThreadCache::new());
    let mut known = HashSet::new();
    for _ in 0..10 {
        let chunks = take(&issuer, &global_cache, 500);
        let addresses: HashSet<usize> = chunks.iter().map(|chunk| chunk.0.addr().get()).collect();
        assert_eq!(addresses.len(), 500, "no chunk is taken twice");
        known.extend(addresses);
        chunks.into_iter().for_each(|chunk| worker.put(chunk, 1, &global_cache));
    }
    assert!(known.len() < 700, "chunks are used again: {}", known.len());
    let mut kept: Vec<Bare> = std::iter::from_fn(|| global_cache.take()).flatten().collect();
    kept.extend(
        [issuer, worker]
            .iter()
            .flat_map(|thread_cache| take(thread_cache, &global_cache, thread_cache.len.get())),
    );
    assert_eq!(kept.iter().map(|chunk| chunk.0).collect::<HashSet<_>>().len(), kept.len());
    free_all(kept);
}

#[test]
fn the_global_cache_keeps_no_more_chunks_than_its_limit() {
    let (global_cache, thread_cache) = (empty_global_cache(), ThreadCache::new());
    let limit = chains_of(1) * CHAIN;
    let chunks = take(&thread_cache, &global_cache, 2 * limit);
    chunks.into_iter().for_each(|chunk| thread_cache.put(chunk, 1, &global_cache));
    assert_eq!(global_cache.len(), chains_of(1));
    assert!(limit * (layout_of(1).size() + ITS_OWN) <= GLOBAL_CACHE_BYTES);
    assert!(thread_cache.len.get() <= THREAD_CACHE_LEN);
    let all = limit + thread_cache.len.get();
    free_all(take(&thread_cache, &global_cache, all));
    assert_eq!((thread_cache.len.get(), global_cache.len()), (0, 0));
}

/// In a forked child, the lock of the global cache may stay taken for ever, because another thread of the parent held
/// the lock at the fork.
#[test]
fn a_thread_does_not_wait_for_the_global_cache() {
    let (global_cache, thread_cache) = (empty_global_cache(), ThreadCache::new());
    let chunks = take(&thread_cache, &global_cache, 3 * THREAD_CACHE_LEN);
    chunks.into_iter().for_each(|chunk| thread_cache.put(chunk, 1, &global_cache));
    assert!(global_cache.len() > 0);
    global_cache.occupied(|| {
        let own = thread_cache.len.get();
        free_all(take(&thread_cache, &global_cache, own));
        assert_eq!(thread_cache.take(&global_cache), None, "the caller turns to the allocator");
        let chunks = take(&thread_cache, &global_cache, 2 * THREAD_CACHE_LEN);
        chunks.into_iter().for_each(|chunk| thread_cache.put(chunk, 1, &global_cache));
    });
    let all = thread_cache.len.get() + global_cache.len() * CHAIN;
    free_all(take(&thread_cache, &global_cache, all));
}

/// Some threads make cells of several sizes and alignments, and end. Another thread frees the cells.
#[test]
fn the_content_of_a_chunk_stays_until_the_chunk_is_given_back() {
    #[repr(align(64))]
    struct Aligned(u64);
    fn pass<C: Send + 'static>(make: fn(u64) -> C, is: fn(&C) -> u64) {
        struct Cell<C>(NonNull<C>);
        // SAFETY: the content is `Send`, and only one thread receives the cell.
        unsafe impl<C: Send> Send for Cell<C> {}
        for round in 0..4 {
            let (send, receive) = mpsc::channel();
            let makers = [0, 1, 2].map(|maker| {
                let send = send.clone();
                move || {
                    for n in (0..2000).map(|n| n * 12 + maker * 4 + round) {
                        send.send((n, Cell(Chunk::find().fill(make(n))))).unwrap();
                    }
                }
            });
            std::thread::scope(|scope| {
                makers.into_iter().for_each(|maker| drop(scope.spawn(maker)));
                drop(send);
                for (n, Cell(cell)) in receive {
                    // SAFETY: the cell was filled, and only this thread uses it.
                    assert_eq!(is(unsafe { cell.as_ref() }), n);
                    // SAFETY: the cell was filled, and only this thread uses it. The content needs no drop.
                    drop(unsafe { Chunk::of(cell) });
                }
            });
        }
    }
    pass(|n| n, |n| *n);
    pass(|n| [n; 8], |cell| cell[7]);
    pass(|n| [n; 30], |cell| cell[29]);
    pass(|n| [n; 100], |cell| cell[99]);
    pass(Aligned, |cell| cell.0);
}

/// spec: X2: a thread-local destructor may use queues, even if the caches of its thread are already gone.
#[test]
fn a_thread_finds_chunks_until_its_last_destructor() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            for n in 0..100_u64 {
                let cell = Chunk::find().fill([n; 4]);
                // SAFETY: the cell was filled just now, and no other thread has a pointer to it.
                assert_eq!(unsafe { cell.read() }, [n; 4]);
                // SAFETY: the cell was filled just now, and no other thread has a pointer to it.
                drop(unsafe { Chunk::of(cell) });
            }
        }
    }
    thread_local! {
        static EARLY: Late = const { Late };
        static LAST: Late = const { Late };
    }
    let user = || {
        EARLY.with(|_| ());
        drop(Late);
        LAST.with(|_| ());
    };
    std::thread::scope(|scope| scope.spawn(user).join().unwrap());
}
