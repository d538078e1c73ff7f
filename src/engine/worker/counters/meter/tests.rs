//! Tests of a meter whose clocks are scripted. The worker is a thread of a made-up machine. Only [`burn`] advances the
//! worker's CPU clock. Only [`burn`] and [`pause`] advance the time. The coarse clock ticks every [`TICK`].

use std::sync::mpsc;

use crossbeam_deque::Worker as List;
use fastrand::Rng;

use super::*;
use crate::policy::idle_set::WorkerId;
use crate::policy::worker::Phase;
use crate::sys::machine::{Config, burn, pause, run};
use crate::sys::thread;
use crate::sys::wait::Until;

/// The time between two ticks of the coarse clock.
const TICK: Duration = Duration::from_micros(400);

/// A meter, and the accounts of two shards.
struct Script {
    meter: Meter,
    accounts: [Arc<Account>; 2],
}

impl Script {
    fn new() -> Self {
        let worker = Worker::new(WorkerId::MAX, Phase::Between, List::new_fifo().stealer());
        Self { meter: Meter::new(Arc::new(worker)), accounts: [(); 2].map(|()| Arc::new(Account::new())) }
    }

    /// Runs an item of this account.
    fn item(&self, account: usize, course: Course, body: impl FnOnce()) {
        if self.meter.approaches(&self.accounts[account]) {
            self.meter.starts(Start::Home);
        }
        self.meter.begins();
        body();
        self.meter.ended(|| course);
    }

    /// Runs an item that starts at this place and takes a microsecond. Returns whether the meter asked where the item
    /// starts.
    fn asks(&self, account: usize, start: Start, course: Course) -> bool {
        let asks = self.meter.approaches(&self.accounts[account]);
        if asks {
            self.meter.starts(start);
        }
        self.meter.begins();
        burn(micros(1));
        self.meter.ended(|| course);
        asks
    }

    /// Runs an item that uses this much CPU time and does not sleep.
    fn burns(&self, account: usize, time: Duration) {
        self.item(account, Course::Straight, || burn(time));
    }

    /// Lets the worker rest. Returns the CPU time that each account was charged for so far.
    fn charged(&self) -> [Duration; 2] {
        self.meter.rests();
        self.accounts.each_ref().map(|account| Duration::from_nanos(account.total(|_| ()).cpu_time))
    }
}

/// Calls `script` on a thread whose clocks are scripted.
fn with_scripted_clocks<R: Send + 'static>(script: impl FnOnce(&Script) -> R + Send + 'static) -> R {
    run(Config::new(1), || {
        let (tell, told) = mpsc::channel();
        let body = move || {
            clock::tick_every(TICK);
            tell.send(script(&Script::new())).unwrap();
        };
        // The main thread of a machine has no CPU and so uses no CPU time. The script therefore runs on a thread of its
        // own.
        let worker = thread::spawn("worker".to_owned(), None, body).unwrap();
        thread::join(worker, Until::FOREVER).unwrap();
        told.recv().expect("the script has not panicked")
    })
}

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// spec: O1.4 (CPU time): the queues are charged for all CPU time of their items, and for no other time. The queues are
/// not charged for a worker's search for work. An item that sleeps and a worker that rests use no CPU time.
#[test]
fn all_cpu_time_of_items_is_charged_once() {
    for seed in 0..20 {
        let (used, charged) = with_scripted_clocks(move |script| {
            let (mut random, mut used) = (Rng::with_seed(seed), Duration::ZERO);
            for _ in 0..500 {
                let longest = [300, 3000, 300_000][random.usize(..3)];
                let time = Duration::from_nanos(random.u64(..longest));
                let account = random.usize(..2);
                match random.u32(..20) {
                    0 => {
                        burn(time);
                        script.meter.leaves_out(time);
                    }
                    1 => {
                        script.meter.rests();
                        pause(time);
                        script.meter.wakes();
                    }
                    2 => {
                        used += time;
                        script.item(account, Course::Interrupted, || {
                            burn(time);
                            pause(3 * TICK);
                        });
                    }
                    _ => {
                        used += time;
                        script.burns(account, time);
                    }
                }
            }
            (used, script.charged())
        });
        assert_eq!(charged.iter().sum::<Duration>(), used, "seed {seed}: {charged:?}");
    }
}

/// spec: O1.2, O1.4: for the items of one window, the meter asks only once where the items start. The meter asks again
/// for an item that comes after a rest, after an interrupted item, or after an item of another shard.
#[test]
fn a_worker_looks_around_once_for_the_items_of_a_window() {
    with_scripted_clocks(|script| {
        let asks = |account| script.asks(account, Start::Home, Course::Straight);
        (0..3000).for_each(|_| _ = asks(0));
        let asked = (0..2000).filter(|_| asks(0)).count();
        assert!((15..=40).contains(&asked), "asked for {asked} of 2000 items");
        assert!(asks(1) && asks(0), "an item of another shard");
        script.asks(0, Start::Home, Course::Interrupted);
        assert!(asks(0), "after an interrupted item");
        asks(0);
        script.meter.rests();
        assert!(asks(0), "after a rest");
    });
}

/// spec: O1.2: items of two shards alternate, and start at different places. Each item is counted at its own place.
#[test]
fn a_place_belongs_to_the_items_of_one_shard() {
    let stolen = with_scripted_clocks(|script| {
        for _ in 0..1000 {
            script.asks(0, Start::Home, Course::Straight);
            script.asks(1, Start::Stolen, Course::Straight);
        }
        script.meter.rests();
        script.accounts.each_ref().map(|account| account.total(|_| ()).stolen)
    });
    assert_eq!(stolen, [0, 1000]);
}

/// spec: O1.4 (CPU time): the items of two queues alternate, and are so short that each window has items of both. Over
/// many ticks, each queue is charged for its share of the CPU time.
#[test]
fn queues_whose_short_items_alternate_are_charged_for_their_shares() {
    let (used, charged) = with_scripted_clocks(|script| {
        let (mut random, mut used) = (Rng::with_seed(1), [Duration::ZERO; 2]);
        while used[0] + used[1] < 300 * TICK {
            for (account, longest) in [(0, 6000), (1, 2000)] {
                let time = Duration::from_nanos(random.u64(..longest));
                used[account] += time;
                script.burns(account, time);
            }
        }
        (used, script.charged())
    });
    let share = |[long, short]: [Duration; 2]| long.as_secs_f64() / (long + short).as_secs_f64();
    let (due, found) = (share(used), share(charged));
    assert!((found - due).abs() < 0.1, "a share of {found:.3}, and not {due:.3}");
}

/// spec: O1.4 (CPU time): an item sleeps after a few short items of another queue in the same window. The short items
/// cannot have used most of the window's CPU time, so the queue of the sleeping item is charged for the whole window.
/// The next item has a window of its own.
#[test]
fn an_item_that_sleeps_is_charged_for_its_own_cpu_time() {
    let [before, after] = with_scripted_clocks(|script| {
        (0..1000).for_each(|_| script.burns(0, micros(1)));
        let before = script.charged();
        (0..3).for_each(|_| script.burns(0, micros(1)));
        script.item(1, Course::Interrupted, || {
            burn(micros(1000));
            pause(10 * TICK);
            burn(micros(1000));
        });
        script.burns(0, micros(50));
        [before, script.charged()]
    });
    assert_eq!(before, [micros(1000), micros(0)]);
    assert_eq!(after, [micros(1050), micros(2003)], "the short items of the same window are not told apart");
}

/// spec: B3.2 (queues with backlogs share by their weights): a turn is charged for the CPU time of its own item. A turn
/// whose item does not run is charged for nothing.
#[test]
fn a_turn_is_measured_by_its_item_alone() {
    // The coarse clock ticks during the turn's item only if 350 items come before this item.
    for before in [100, 350] {
        let (turns, charged) = with_scripted_clocks(move |script| {
            (0..before).for_each(|_| script.burns(0, micros(1)));
            script.meter.begins_turn();
            script.burns(1, micros(70));
            let used = script.meter.ends_turn();
            script.meter.begins_turn();
            let not_run = script.meter.ends_turn();
            script.burns(0, micros(30));
            script.meter.begins_turn();
            let after = script.meter.ends_turn();
            ([used, not_run, after], script.charged())
        });
        assert_eq!(turns, [Some(micros(70)), None, None]);
        assert_eq!(charged, [micros(before + 30), micros(70)]);
    }
}
