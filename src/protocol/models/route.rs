//! Models of [`RouteCell`](crate::protocol::route::RouteCell): the entries that one thread submits keep their order
//! while another thread turns the route.
//!
//! An issuer submits two entries, as the engine does, while the route is turned from one pool to another. The first
//! entry may reach the former pool late, which means after the turn. Then the second entry is behind the first entry in
//! that pool, or the route holds the second entry back. The second entry never overtakes the first entry, nor the
//! entries that are already in the former pool.
//!
//! Red under: `turn-without-fence`, `late-leaves-it-open`, `epoch-after-the-fence`, `opens-before-what-is-held`,
//! `held-though-open`, `plugged-by-who-came-late-needs-no-marker`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::check;
use crate::policy::concurrency::Running;
use crate::protocol::route::{RouteCell, RouteEpoch, Turned};
use crate::protocol::running::RunningCell;

/// Values whose addresses stand for the two pools.
static NAMES: [u64; 2] = [0, 1];

fn former() -> *const u64 {
    &raw const NAMES[0]
}

fn new() -> *const u64 {
    &raw const NAMES[1]
}

/// A pool whose worklist is only a counter: each entry gets the next place.
struct Pool {
    end: AtomicU64,
    /// The place behind the last marker.
    marked: AtomicU64,
    running: RunningCell,
    route_epoch: RouteEpoch,
}

impl Pool {
    fn new() -> Self {
        Self {
            end: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            running: RunningCell::new(Running::unmanaged()),
            route_epoch: RouteEpoch::new(),
        }
    }

    /// Pushes an entry. Returns the entry's place on this worklist. Accesses are relaxed, so that the worklist does not
    /// order the threads in place of the fences.
    fn push(&self) -> u64 {
        self.end.fetch_add(1, Ordering::Relaxed)
    }

    fn has_work(&self) -> bool {
        self.end.load(Ordering::Relaxed) > 0
    }
}

/// The place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Former(u64),
    New(u64),
    Held,
}

/// The cell from which an issuer learns whether its entry was late.
#[derive(Clone, Copy)]
enum Look {
    AtTheRoute,
    AtThePool,
}

struct Shard {
    pools: [Pool; 2],
    route: RouteCell<u64, usize, ()>,
}

impl Shard {
    fn new() -> Arc<Self> {
        Arc::new(Self { pools: [Pool::new(), Pool::new()], route: RouteCell::new(former(), ()) })
    }

    fn pool(&self, name: *const u64) -> &Pool {
        &self.pools[usize::from(name == new())]
    }

    fn mark(&self) {
        let place = self.pools[0].push();
        self.pools[0].marked.fetch_max(place + 1, Ordering::Relaxed);
    }

    fn submit(&self, entry: usize, look: Look) -> Place {
        loop {
            let route_epoch = self.pools[0].route_epoch.load();
            let Some(name) = self.route.open() else {
                match self.route.hold_back(entry) {
                    Ok(()) => return Place::Held,
                    Err(_) => continue,
                }
            };
            let pool = self.pool(name);
            let place = pool.push();
            let _kick = pool.running.pushed();
            if name == new() {
                return Place::New(place);
            }
            let may_be_late = match look {
                Look::AtTheRoute => true,
                Look::AtThePool => pool.route_epoch.load() != route_epoch,
            };
            if may_be_late && self.route.has_left(name) {
                self.route.late((), || self.mark());
            }
            return Place::Former(place);
        }
    }

    fn turn(&self) -> Turned<()> {
        let pool = &self.pools[0];
        self.route.turn(new(), (), || pool.route_epoch.advance(), || pool.has_work(), || self.mark())
    }

    /// Pops the marker. Returns the released entries, with their places in the new pool.
    fn marker_popped(&self) -> Vec<(usize, u64)> {
        let mut released = Vec::new();
        self.route.marker_popped(|name, entry| {
            assert_eq!(name, new());
            released.push((entry, self.pools[1].push()));
        });
        released
    }
}

/// Submits two entries while another thread turns the route. The worklists of both pools are empty at first, and no
/// worker pops an entry. So a late entry keeps the route plugged.
fn a_late_entry_stays_ahead(look: Look) {
    check(3, move || {
        let shard = Shard::new();
        let turner = {
            let shard = shard.clone();
            thread::spawn(move || shard.turn())
        };
        let places = [0, 1].map(|entry| shard.submit(entry, look));
        let turned = turner.join().unwrap();
        match places {
            [Place::Former(first), Place::Former(second)] | [Place::New(first), Place::New(second)] => {
                assert!(first < second);
            }
            [Place::Former(_) | Place::Held, Place::Held] => {}
            places => panic!("the second entry is ahead: {places:?}, {turned:?}"),
        }
    });
}

/// spec: A4.6
#[test]
fn an_issuer_that_reads_the_route_learns_that_its_entry_is_late() {
    a_late_entry_stays_ahead(Look::AtTheRoute);
}

/// spec: A4.6
#[test]
fn an_issuer_that_reads_the_pool_learns_that_its_entry_is_late() {
    a_late_entry_stays_ahead(Look::AtThePool);
}

/// An entry that reaches a third pool late plugs the route. Then the route turns from the former pool to another.
/// Although the route is plugged already, this turn pushes a marker behind the entries in the former pool. Without this
/// marker, nothing would keep the former pool open, and held entries could overtake the entries in the former pool.
#[test]
fn the_entries_of_the_former_pool_are_marked_though_the_route_is_plugged() {
    check(3, || {
        let shard = Shard::new();
        let turner = {
            let shard = shard.clone();
            thread::spawn(move || {
                shard.route.late((), || ());
                shard.turn()
            })
        };
        let place = shard.submit(0, Look::AtTheRoute);
        let turned = turner.join().unwrap();
        match place {
            Place::Former(place) => {
                let marked = shard.pools[0].marked.load(Ordering::Relaxed);
                assert!(place < marked, "no marker is behind the entry: {turned:?}");
            }
            Place::Held => {}
            Place::New(_) => panic!("the route is open, though no marker was popped: {turned:?}"),
        }
    });
}

/// An entry is in the former pool, so the route is plugged. A thread pops the marker while the issuer submits two
/// entries.
///
/// spec: A4.6
#[test]
fn held_entries_are_ahead_of_those_that_find_the_route_open() {
    check(3, || {
        let shard = Shard::new();
        shard.pools[0].push();
        assert_eq!(shard.turn(), Turned::Marked);
        let popper = {
            let shard = shard.clone();
            thread::spawn(move || shard.marker_popped())
        };
        let places = [0, 1].map(|entry| shard.submit(entry, Look::AtTheRoute));
        let released = popper.join().unwrap();
        let [first, second] = [0, 1].map(|entry| match places[entry] {
            Place::Held => {
                released.iter().find(|(held, _)| *held == entry).expect("an entry is held for ever").1
            }
            Place::New(place) => place,
            Place::Former(_) => panic!("the route leads back: {places:?}"),
        });
        assert!(first < second, "{places:?}");
    });
}
