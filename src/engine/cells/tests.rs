#![allow(unsafe_code, reason = "rooms are given back by hand")]

use super::*;
use std::collections::HashSet;
use std::sync::mpsc;

/// Takes so many rooms of class 1, of which the depot may be out.
fn take(shelf: &Shelf, depot: &Depot, count: usize) -> Vec<Bare> {
    (0..count).map(|_| shelf.take(depot).unwrap_or_else(|| allocate(layout_of(1)))).collect()
}

fn free_all(rooms: impl IntoIterator<Item = Bare>) {
    // SAFETY: all rooms of these tests are of class 1, and taken once.
    rooms.into_iter().for_each(|room| unsafe { free(room, layout_of(1)) });
}

#[test]
fn a_class_has_room_for_its_cells_and_wastes_less_than_a_step() {
    for size in 1..300 {
        for align in [1, 2, 4, 8, ALIGN] {
            let cell = Layout::from_size_align(size, align).unwrap();
            match class_of(cell) {
                Some(class) => {
                    let room = layout_of(class);
                    assert!(room.size() >= size && room.align() >= align, "{cell:?} in {room:?}");
                    assert!(class == 0 || room.size() < size + ALIGN, "{cell:?} in {room:?}");
                    assert!(class < CLASSES && chains_of(class) > 0);
                }
                None => assert!(!CACHED || size > layout_of(CLASSES - 1).size(), "{cell:?}"),
            }
        }
    }
    assert_eq!(class_of(Layout::from_size_align(64, 2 * ALIGN).unwrap()), None, "over-aligned");
}

#[test]
fn rooms_go_round_by_the_depot_and_none_is_handed_out_twice() {
    let (depot, issuer, worker) = (empty_depot(), Shelf::new(), Shelf::new());
    let mut known = HashSet::new();
    for _ in 0..10 {
        let rooms = take(&issuer, &depot, 500);
        let addresses: HashSet<usize> = rooms.iter().map(|room| room.0.addr().get()).collect();
        assert_eq!(addresses.len(), 500, "each is somebody's alone");
        known.extend(addresses);
        rooms.into_iter().for_each(|room| worker.put(room, 1, &depot));
    }
    assert!(known.len() < 700, "they are used again: {}", known.len());
    let mut kept: Vec<Bare> = std::iter::from_fn(|| depot.take()).flatten().collect();
    kept.extend([issuer, worker].iter().flat_map(|shelf| take(shelf, &depot, shelf.len.get())));
    assert_eq!(kept.iter().map(|room| room.0).collect::<HashSet<_>>().len(), kept.len());
    free_all(kept);
}

#[test]
fn the_depot_keeps_so_many_and_no_more() {
    let (depot, shelf) = (empty_depot(), Shelf::new());
    let limit = chains_of(1) * CHAIN;
    let rooms = take(&shelf, &depot, 2 * limit);
    rooms.into_iter().for_each(|room| shelf.put(room, 1, &depot));
    assert_eq!(depot.len(), chains_of(1));
    assert!(limit * (layout_of(1).size() + ITS_OWN) <= DEPOT_BYTES);
    assert!(shelf.len.get() <= SHELF);
    let all = limit + shelf.len.get();
    free_all(take(&shelf, &depot, all));
    assert_eq!((shelf.len.get(), depot.len()), (0, 0));
}

/// As in a child that was forked while somebody was there.
#[test]
fn nobody_waits_for_whoever_is_at_the_depot() {
    let (depot, shelf) = (empty_depot(), Shelf::new());
    let rooms = take(&shelf, &depot, 3 * SHELF);
    rooms.into_iter().for_each(|room| shelf.put(room, 1, &depot));
    assert!(depot.len() > 0);
    depot.occupied(|| {
        let own = shelf.len.get();
        free_all(take(&shelf, &depot, own));
        assert_eq!(shelf.take(&depot), None, "the allocator is asked");
        let rooms = take(&shelf, &depot, 2 * SHELF);
        rooms.into_iter().for_each(|room| shelf.put(room, 1, &depot));
    });
    let all = shelf.len.get() + depot.len() * CHAIN;
    free_all(take(&shelf, &depot, all));
}

/// Cells of several sizes and alignments, made here and freed there, on threads that come and go.
#[test]
fn what_is_in_a_room_stays_as_it_is_until_it_is_given_back() {
    #[repr(align(64))]
    struct Aligned(u64);
    fn pass<C: Send + 'static>(make: fn(u64) -> C, is: fn(&C) -> u64) {
        struct Cell<C>(NonNull<C>);
        // SAFETY: its content is, and it goes to one thread.
        unsafe impl<C: Send> Send for Cell<C> {}
        for round in 0..4 {
            let (send, receive) = mpsc::channel();
            let makers = [0, 1, 2].map(|maker| {
                let send = send.clone();
                move || {
                    for n in (0..2000).map(|n| n * 12 + maker * 4 + round) {
                        send.send((n, Cell(Room::find().fill(make(n))))).unwrap();
                    }
                }
            });
            std::thread::scope(|scope| {
                makers.into_iter().for_each(|maker| drop(scope.spawn(maker)));
                drop(send);
                for (n, Cell(cell)) in receive {
                    // SAFETY: it was filled, and nobody else has it.
                    assert_eq!(is(unsafe { cell.as_ref() }), n);
                    // SAFETY: as above; there is nothing to drop in it.
                    drop(unsafe { Room::of(cell) });
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

/// spec: X2: thread-local destructors may use queues, also when the shelves are gone.
#[test]
fn a_thread_that_ends_has_rooms_to_its_last_step() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            for n in 0..100_u64 {
                let cell = Room::find().fill([n; 4]);
                // SAFETY: filled just now, and nobody else knows it.
                assert_eq!(unsafe { cell.read() }, [n; 4]);
                // SAFETY: as above.
                drop(unsafe { Room::of(cell) });
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
