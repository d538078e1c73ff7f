//! Models of [`RouteCell`](crate::protocol::route::RouteCell): what one thread queues after another one keeps its place
//! while the route is turned.
//!
//! An issuer submits two entries, as the engine does, while the route is turned from one pool to another. The first one
//! may come late to the former pool. Then the second one is behind it there, or held; and it is never on the new pool
//! before the first one, nor before what lay in the former pool.
//!
//! Red under: `turn-without-fence`, `late-leaves-it-open`, `departs-after-the-fence`, `opens-before-what-is-held`,
//! `held-though-open`, `plugged-by-who-came-late-needs-no-marker`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::check;
use crate::policy::concurrency::Running;
use crate::protocol::route::{Departures, RouteCell, Turned};
use crate::protocol::running::RunningCell;

/// Pools are told apart by the addresses of these.
static NAMES: [u64; 2] = [0, 1];

fn former() -> *const u64 {
    &raw const NAMES[0]
}

fn new() -> *const u64 {
    &raw const NAMES[1]
}

/// A worklist, of which nothing but the end is of interest: each entry gets the next place.
struct Pool {
    end: AtomicU64,
    /// Behind the last marker.
    marked: AtomicU64,
    running: RunningCell,
    departures: Departures,
}

impl Pool {
    fn new() -> Self {
        Self {
            end: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            running: RunningCell::new(Running::unmanaged()),
            departures: Departures::new(),
        }
    }

    /// Relaxed: it orders nothing that the fences should order.
    fn push(&self) -> u64 {
        self.end.fetch_add(1, Ordering::Relaxed)
    }

    fn has_work(&self) -> bool {
        self.end.load(Ordering::Relaxed) > 0
    }
}

/// Where an entry came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Former(u64),
    New(u64),
    Held,
}

/// How an issuer finds out that it came late.
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
            let departures = self.pools[0].departures.count();
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
                Look::AtThePool => pool.departures.count() != departures,
            };
            if may_be_late && self.route.has_left(name) {
                self.route.late((), || self.mark());
            }
            return Place::Former(place);
        }
    }

    fn turn(&self) -> Turned<()> {
        let pool = &self.pools[0];
        self.route.turn(new(), (), || pool.departures.raise(), || pool.has_work(), || self.mark())
    }

    /// Returns what was released, with its places.
    fn marker_popped(&self) -> Vec<(usize, u64)> {
        let mut released = Vec::new();
        self.route.marker_popped(|name, entry| {
            assert_eq!(name, new());
            released.push((entry, self.pools[1].push()));
        });
        released
    }
}

/// Nothing lies anywhere, and nothing is popped: what comes late keeps the route plugged.
fn what_comes_late_stays_ahead(look: Look) {
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
            places => panic!("the second one is ahead: {places:?}, {turned:?}"),
        }
    });
}

/// spec: A4.6
#[test]
fn who_looks_at_the_route_notices_that_it_came_late() {
    what_comes_late_stays_ahead(Look::AtTheRoute);
}

/// spec: A4.6
#[test]
fn who_looks_at_the_pool_notices_that_it_came_late() {
    what_comes_late_stays_ahead(Look::AtThePool);
}

/// Somebody who came late to a third pool plugs the route. What has come to the former pool before is marked all the
/// same: nothing else would keep that open, nor what is held behind it.
#[test]
fn what_lies_in_the_former_pool_is_marked_though_the_route_is_plugged() {
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
                assert!(place < marked, "nothing says when it has left: {turned:?}");
            }
            Place::Held => {}
            Place::New(_) => panic!("nothing has opened the route: {turned:?}"),
        }
    });
}

/// An entry lies in the former pool, so the route is plugged; the marker is popped while the issuer submits.
///
/// spec: A4.6
#[test]
fn what_was_held_is_ahead_of_what_finds_the_route_open() {
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
