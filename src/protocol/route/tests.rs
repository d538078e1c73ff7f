//! Tests of a route, one step at a time. `protocol::models::route` tests steps of several threads at the same time.

use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

/// spec: A4: an issuer reads the route, and then the route is turned away and comes back plugged. The entry that the
/// issuer then pushes is late, too. Otherwise a later turn might push no marker behind this entry.
#[test]
fn an_entry_is_late_if_the_route_has_come_back_plugged() {
    let pools = [0_u64, 1];
    let route: RouteCell<u64, (), ()> = RouteCell::new(&raw const pools[0], ());
    let read_by_issuer = route.open().unwrap();
    assert_eq!(route.turn(&raw const pools[1], (), || (), || false, || ()), Turned::Clear(()));
    assert_eq!(route.turn(&raw const pools[0], (), || (), || true, || ()), Turned::Marked);
    assert!(route.has_left(read_by_issuer));

    let mut marked = false;
    route.late((), || marked = true);
    assert!(marked);
    assert_eq!(route.turn(&raw const pools[1], (), || (), || true, || ()), Turned::Clear(()));
    assert!(route.marker_popped(|_, ()| ()).is_empty());
    assert_eq!(route.open(), None, "until the late entry has left its pool");
    assert_eq!(route.marker_popped(|_, ()| ()), [(), ()]);
    assert_eq!(route.open(), Some(&raw const pools[1]));
}

/// spec: A4.3: a late entry plugs an open route while an entry may lie in the pool that the route leads to. The next
/// turn still pushes a marker to this pool.
#[test]
fn a_turn_marks_the_entries_of_a_pool_though_a_late_entry_has_plugged_the_route() {
    let pools = [0_u64, 1, 2].map(|name| (name, Rc::new(())));
    let name = |at: usize| &raw const pools[at].0;
    let user = |at: usize| Rc::clone(&pools[at].1);
    let route: RouteCell<u64, (), Rc<()>> = RouteCell::new(name(0), user(0));
    assert_eq!(route.turn(name(1), user(1), || (), || false, || ()), Turned::Clear(user(0)));
    // At this point, an entry lies in the second pool.
    route.late(user(0), || ());
    assert_eq!(route.turn(name(2), user(2), || (), || true, || ()), Turned::Marked);
    assert_eq!(Rc::strong_count(&pools[1].1), 2, "the pool stays open");
    assert!(route.marker_popped(|_, ()| ()).is_empty());
    assert_eq!(route.open(), None, "until that entry has left its pool");
    drop(route.marker_popped(|_, ()| ()));
    assert_eq!((route.open(), Rc::strong_count(&pools[1].1)), (Some(name(2)), 1));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// This issuer takes its next step.
    Issue(usize),
    /// The route is turned to this pool.
    Turn(usize),
    /// A worker of this pool takes an entry.
    Pop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..ISSUERS).prop_map(Step::Issue),
        2 => (0..POOLS).prop_map(Step::Turn),
        3 => (0..POOLS).prop_map(Step::Pop),
    ]
}

const POOLS: usize = 3;
const ISSUERS: usize = 3;

/// The step that an issuer has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Begin,
    /// The issuer has read the route, which led to this pool.
    Read(usize),
    /// The issuer has pushed an entry to this pool, and has not read the route again since.
    Pushed(usize),
}

#[derive(Debug)]
enum Entry {
    Item { issuer: usize, number: usize },
    Marker,
}

/// A route, plain worklists, and issuers that can stop after any step.
struct Model {
    names: [u64; POOLS],
    users: [Rc<()>; POOLS],
    lists: [VecDeque<Entry>; POOLS],
    route: RouteCell<u64, Entry, Rc<()>>,
    issuers: [At; ISSUERS],
    issued: [usize; ISSUERS],
    ran: [usize; ISSUERS],
}

impl Model {
    fn new() -> Box<Self> {
        let users: [Rc<()>; POOLS] = std::array::from_fn(|_| Rc::new(()));
        let mut model = Box::new(Self {
            names: [0; POOLS],
            route: RouteCell::new(std::ptr::null(), Rc::clone(&users[0])),
            users,
            lists: std::array::from_fn(|_| VecDeque::new()),
            issuers: [At::Begin; ISSUERS],
            issued: [0; ISSUERS],
            ran: [0; ISSUERS],
        });
        model.route = RouteCell::new(model.name(0), Rc::clone(&model.users[0]));
        model
    }

    fn name(&self, pool: usize) -> *const u64 {
        &raw const self.names[pool]
    }

    fn pool(&self, name: *const u64) -> usize {
        (0..POOLS).find(|pool| self.name(*pool) == name).unwrap()
    }

    /// Returns whether the route has a user of the pool, which keeps the pool open.
    fn is_used(&self, pool: usize) -> bool {
        Rc::strong_count(&self.users[pool]) > 1
    }

    fn issue(&mut self, issuer: usize) {
        let item = Entry::Item { issuer, number: self.issued[issuer] };
        self.issuers[issuer] = match self.issuers[issuer] {
            At::Begin => match self.route.open() {
                Some(name) => At::Read(self.pool(name)),
                None => {
                    self.route.hold_back(item).unwrap();
                    self.issued[issuer] += 1;
                    At::Begin
                }
            },
            At::Read(pool) => {
                self.lists[pool].push_back(item);
                self.issued[issuer] += 1;
                At::Pushed(pool)
            }
            At::Pushed(pool) => {
                if self.route.has_left(self.name(pool)) {
                    let list = &mut self.lists[pool];
                    self.route.late(Rc::clone(&self.users[pool]), || list.push_back(Entry::Marker));
                }
                At::Begin
            }
        };
    }

    fn turn(&mut self, pool: usize) {
        let former = self.pool(self.route.pool());
        if former != pool {
            let (name, user) = (self.name(pool), Rc::clone(&self.users[pool]));
            let has_backlog = !self.lists[former].is_empty();
            let list = &mut self.lists[former];
            drop(self.route.turn(name, user, || (), || has_backlog, || list.push_back(Entry::Marker)));
        }
    }

    /// Pops the first entry of the pool's worklist. Returns false if the pool has no entry, or if the pool is closed
    /// and so has no workers.
    fn pop(&mut self, pool: usize) -> Result<bool, TestCaseError> {
        if !self.is_used(pool) {
            return Ok(false);
        }
        match self.lists[pool].pop_front() {
            None => return Ok(false),
            Some(Entry::Item { issuer, number }) => {
                prop_assert_eq!(number, self.ran[issuer], "of issuer {}", issuer);
                self.ran[issuer] += 1;
            }
            Some(Entry::Marker) => {
                let mut released = Vec::new();
                drop(self.route.marker_popped(|name, entry| released.push((name, entry))));
                for (name, entry) in released {
                    let pool = self.pool(name);
                    self.lists[pool].push_back(entry);
                }
            }
        }
        Ok(true)
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for pool in 0..POOLS {
            let is_late = self.issuers.contains(&At::Pushed(pool));
            let is_served = self.lists[pool].is_empty() || self.is_used(pool) || is_late;
            prop_assert!(is_served, "no worker comes for {:?} in pool {}", self.lists[pool], pool);
        }
        Ok(())
    }
}

proptest! {
    /// spec: A4.3: whatever the order of the steps, an issuer's entries run in the order in which the issuer queued
    /// them. A closed pool has no entries, except entries whose issuers have not read the route again since the push.
    #[test]
    fn entries_run_in_the_order_of_their_issuer(steps in prop::collection::vec(step(), 0..120)) {
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Issue(issuer) => model.issue(issuer),
                Step::Turn(pool) => model.turn(pool),
                Step::Pop(pool) => _ = model.pop(pool)?,
            }
            model.check()?;
        }
        for issuer in 0..ISSUERS {
            while model.issuers[issuer] != At::Begin {
                model.issue(issuer);
            }
        }
        loop {
            let mut popped = false;
            for pool in 0..POOLS {
                popped |= model.pop(pool)?;
            }
            if !popped {
                break;
            }
        }
        prop_assert_eq!(model.ran, model.issued);
    }
}
