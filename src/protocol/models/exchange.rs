//! Models of [`Exchange`](crate::protocol::exchange::Exchange): a sibling takes an item that the item's own pool cannot
//! run at present.
//!
//! Pool 0 is full because its item never ends. So if an item is pushed to pool 0, a sibling must take the item, or a
//! worker of a sibling must be reserved for it. The sibling's last item can end at any moment. In the models, each
//! worklist is one counter. The reservation has an *errand*, which is the request to take an item of a certain pool. A
//! thread that gets a reservation acts in the same order as the engine. The thread first takes an item of that pool.
//! Then the thread ends the errand, and offers the remaining items of that pool.
//!
//! Red under: `push-without-fence`, `seek-announces-nothing`, `offer-announces-nothing`, `offer-announces-once`,
//! `announce-without-fence`, `room-clear-without-look`, `excess-clear-without-look`, `helper-leaves-without-fence`,
//! `full-seeker-offers-nothing`, `not-brisk-without-fence`, `stock-without-fence`.

use std::sync::Arc;

use loom::thread;

use super::{List, check};
use crate::policy::concurrency::{Kick, PodId, Reserved, Running};
use crate::policy::cpu_set::CpuSet;
use crate::policy::neighbours::Neighbours;
use crate::policy::topology::Topology;
use crate::protocol::exchange::{Exchange, Helpers, Member};
use crate::protocol::running::RunningCell;

struct Pool {
    list: List,
    running: RunningCell,
    helpers: Helpers,
}

impl Member for Pool {
    fn running(&self) -> &RunningCell {
        &self.running
    }

    fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    fn movable(&self) -> u64 {
        self.list.len()
    }

    fn has_excess_forks(&self, _helpers: u64) -> bool {
        false
    }

    fn takes_forks(&self) -> bool {
        false
    }

    fn reserve_for_forks(&self) -> Option<Reserved> {
        None
    }

    fn has_order(&self) -> bool {
        true
    }
}

struct Class {
    exchange: Exchange,
    pools: Vec<Pool>,
}

impl Class {
    /// Makes one pool of one CPU for each element of `busy`. A pool whose element is true runs an item.
    fn new(busy: &[bool]) -> Self {
        let cpus: CpuSet = (0..busy.len()).collect();
        let pods: Vec<_> = cpus.iter().map(CpuSet::single).collect();
        let pool = |busy: &bool| {
            let running = RunningCell::new(Running::managed(1).unwatchable().sharing());
            if *busy {
                let reserved = running.reserve().expect("it is idle");
                assert!(running.start(reserved));
            }
            Pool { list: List::new(), running, helpers: Helpers::new() }
        };
        Self {
            exchange: Exchange::new(Neighbours::derive(&Topology::flat(&cpus), &pods), pods.len()),
            pools: busy.iter().map(pool).collect(),
        }
    }

    fn pool(&self, pod: PodId) -> &Pool {
        &self.pools[pod as usize]
    }

    fn push(&self, pod: PodId) {
        self.pool(pod).list.push();
        match self.pool(pod).running.pushed() {
            Kick::Offer => self.offer(pod),
            kick => panic!("the pool is full, and answers {kick:?}"),
        }
    }

    /// Pushes an item to a pool that may be *brisk*, which means that its items are short.
    fn push_to_brisk(&self, pod: PodId) {
        self.pool(pod).list.push();
        match self.pool(pod).running.pushed() {
            Kick::Enough => {}
            Kick::Offer => self.offer(pod),
            kick => panic!("the pool is full, and answers {kick:?}"),
        }
    }

    fn offer_rest(&self, pod: PodId) {
        if self.pool(pod).has_rest() {
            self.offer(pod);
        }
    }

    fn not_brisk(&self, pod: PodId) {
        if self.pool(pod).running.not_brisk() {
            self.offer(pod);
        }
    }

    fn offer(&self, pod: PodId) {
        let helper = self.exchange.offer(pod, self.pool(pod), |other| Some(self.pool(other)));
        if let Some((helper, reserved)) = helper {
            self.go(self.number_of(helper), reserved);
        }
    }

    fn number_of(&self, pool: &Pool) -> PodId {
        self.pools.iter().position(|other| std::ptr::eq(pool, other)).expect("it is one of them") as PodId
    }

    /// Does what a worker of this pool does with a reservation.
    fn go(&self, pod: PodId, reserved: Reserved) {
        let errand = reserved.errand().expect("nothing is queued to a pool that has room");
        let began = self.pool(pod).running.start(reserved);
        let took = began && (self.take(errand) || self.take_anywhere(pod));
        self.pool(errand).helpers.came();
        self.offer(errand);
        if took {
            self.seek(pod);
            self.work(pod);
        } else if began {
            self.rest(pod);
        } else {
            self.seek(pod);
        }
    }

    fn take(&self, home: PodId) -> bool {
        self.pool(home).has_excess_for_thief() && self.pool(home).list.pop()
    }

    fn take_anywhere(&self, pod: PodId) -> bool {
        loop {
            let Some(home) = self.exchange.source(pod, self.pool(pod), |other| Some(self.pool(other))) else {
                return false;
            };
            if home.list.pop() {
                return true;
            }
        }
    }

    /// Does what a running worker does after its item has ended.
    fn work(&self, pod: PodId) {
        while self.take_anywhere(pod) {}
        self.rest(pod);
    }

    fn rest(&self, pod: PodId) {
        self.pool(pod).running.leave();
        assert_eq!(self.pool(pod).running.look(|| false), Kick::Enough);
        self.seek(pod);
    }

    fn seek(&self, pod: PodId) {
        match self.exchange.seek(pod, self.pool(pod), |other| Some(self.pool(other))) {
            Some((None, reserved)) => self.go(pod, reserved),
            Some((Some(other), reserved)) => self.go(self.number_of(other), reserved),
            None => {}
        }
    }

    fn assert_all_taken(&self) {
        assert!(
            self.pools.iter().all(|pool| !pool.list.has_work()),
            "an item waits while a sibling has room"
        );
    }
}

/// An item arrives at a full pool while the only sibling gets room.
///
/// spec: A3.1
#[test]
fn an_item_meets_a_sibling_that_gets_room() {
    check(2, || {
        let class = Arc::new(Class::new(&[true, true]));
        let sibling = {
            let class = class.clone();
            thread::spawn(move || class.work(1))
        };
        class.push(0);
        sibling.join().unwrap();
        class.assert_all_taken();
    });
}

/// The bits are left over from an earlier item: no pool is marked as having room, and pool 0 is marked as having too
/// many items.
///
/// spec: A3.1
#[test]
fn bits_that_were_set_and_cleared_before_hide_nothing() {
    check(3, || {
        let class = Arc::new(Class::new(&[true, true]));
        class.push(0);
        assert!(class.pool(0).list.pop());
        let sibling = {
            let class = class.clone();
            thread::spawn(move || class.work(1))
        };
        class.push(0);
        sibling.join().unwrap();
        class.assert_all_taken();
    });
}

/// No pool is marked as having room or too many items. The issuer sets one bit, and a worker of the sibling that gets
/// room sets another bit. Then each of these two threads reads the bit that the other thread sets.
///
/// spec: A3.1
#[test]
fn two_bits_that_are_set_at_the_same_time_are_seen() {
    check(3, || {
        let class = Arc::new(Class::new(&[true, true]));
        class.exchange.gets_no_worker(1);
        at_once(&class, [|class| class.push(0), |class| class.work(1)]);
        class.assert_all_taken();
    });
}

/// Starts these functions at the same time, each on its own thread. loom does not count the choice of the first thread
/// as a preemption.
fn at_once<const N: usize>(class: &Arc<Class>, threads: [fn(&Class); N]) {
    let threads = threads.map(|run| {
        let class = class.clone();
        thread::spawn(move || run(&class))
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// One item already waits, and its issuer relies on the sibling to take this item later. The sibling gets room while
/// the next item arrives.
///
/// spec: A3.1
#[test]
fn two_items_and_a_sibling_that_gets_room() {
    check(2, || {
        let class = Arc::new(Class::new(&[true, true]));
        class.push(0);
        at_once(&class, [|class| class.rest(1), |class| class.push(0)]);
        class.assert_all_taken();
    });
}

/// An item arrives at a full pool while one sibling has room and another sibling gets room. If a sibling's worker finds
/// that the room of its pool was taken, the worker offers the item to the other sibling.
///
/// spec: A3.1
#[test]
fn two_pools_and_two_siblings_with_room() {
    check(2, || {
        let class = Arc::new(Class::new(&[true, false, true]));
        let other = {
            let class = class.clone();
            thread::spawn(move || class.work(2))
        };
        class.push(0);
        other.join().unwrap();
        class.assert_all_taken();
    });
}

/// Two siblings get room. While a worker of one sibling searches for items, this sibling gets an item of its own. The
/// other sibling may have relied on this sibling to take the waiting item.
#[test]
fn a_seeker_whose_pool_is_filled_meanwhile_passes_the_item_on() {
    check(2, || {
        let class = Arc::new(Class::new(&[true, true, true]));
        class.push(0);
        let fill = |class: &Class| {
            if let Some(reserved) = class.pool(1).running.reserve() {
                class.pool(1).running.start(reserved);
            }
        };
        at_once(&class, [|class| class.rest(1), fill, |class| class.rest(2)]);
        class.assert_all_taken();
    });
}

/// An item arrives while a thread notes that the pool's items are not short any more. Either this thread or the issuer
/// offers the item to a sibling.
///
/// spec: A3.1
#[test]
fn an_item_meets_the_end_of_briskness() {
    check(3, || {
        let class = Arc::new(Class::new(&[true, false]));
        assert!(class.pool(0).running.brisk());
        at_once(&class, [|class| class.push_to_brisk(0), |class| class.not_brisk(0)]);
        class.assert_all_taken();
    });
}

/// A brisk pool keeps an item for its own worker, because its items are short. A thread notes that the pool's items are
/// not short any more, while a sibling gets room. The bits are left over from an earlier item: no pool is marked as
/// having room, and pool 0 is marked as having too many items.
///
/// spec: A3.1
#[test]
fn the_end_of_briskness_meets_a_sibling_that_gets_room() {
    check(3, || {
        let class = Arc::new(Class::new(&[true, true]));
        class.push(0);
        assert!(class.pool(0).list.pop());
        assert!(class.pool(0).running.brisk());
        class.push_to_brisk(0);
        at_once(&class, [|class| class.work(1), |class| class.not_brisk(0)]);
        class.assert_all_taken();
    });
}

/// A brisk pool keeps four short items for its only worker. An issuer pushes the fifth item. Another thread *takes
/// stock*: it checks whether the pool has more items than it keeps, and finds the fifth item. Meanwhile, a sibling gets
/// room.
///
/// spec: A3.1
#[test]
fn a_stock_meets_a_sibling_that_gets_room() {
    check(2, || {
        let class = Arc::new(Class::new(&[true, true]));
        class.push(0);
        assert!(class.pool(0).list.pop());
        assert!(class.pool(0).running.brisk());
        (0..4).for_each(|_| class.push_to_brisk(0));
        at_once(
            &class,
            [
                |class| class.push_to_brisk(0),
                |class| class.work(1),
                |class| {
                    if class.pool(0).list.len() == 5 {
                        class.offer_rest(0);
                    } else {
                        // This thread has counted the items before the push. The next thread that counts the items
                        // finds the fifth item.
                        class.pool(0).list.pop();
                    }
                },
            ],
        );
        assert!(class.pool(0).list.len() <= 4, "an item waits while a sibling has room");
    });
}
