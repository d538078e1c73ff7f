//! Tests of the time, the CPUs and the waits of a simulated machine.

use std::sync::Arc;

use super::*;
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::thread::{self, Sleeper, spawn};
use crate::sys::wait::Until;
use crate::sys::{clock, sync, wait};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn millis() -> u64 {
    clock::now().as_nanos() / 1_000_000
}

/// Makes threads with these bodies, and waits until all of these threads have ended.
fn all<const N: usize>(bodies: [Box<dyn FnOnce() + Send>; N]) {
    let threads = bodies.map(|body| spawn("t".to_owned(), None, body).unwrap());
    threads.into_iter().for_each(|own| thread::join(own, Until::FOREVER).unwrap());
}

#[test]
fn time_passes_when_all_threads_wait() {
    let hours = Duration::from_secs(7200);
    let ends = run(Config::new(1), || {
        let ends = Arc::new(sync::Mutex::new(Vec::new()));
        let sleeper = |time| {
            let ends = Arc::clone(&ends);
            Box::new(move || {
                pause(time);
                ends.lock().push(millis());
            }) as Box<dyn FnOnce() + Send>
        };
        all([sleeper(hours), sleeper(ms(5)), sleeper(ms(7))]);
        Arc::into_inner(ends).unwrap().into_inner()
    });
    assert_eq!(ends, [5, 7, 7_200_000]);
    assert_eq!(now(), None, "this thread belongs to no machine any more");
}

#[test]
fn threads_share_their_cpus() {
    let burns = || Box::new(|| burn(ms(10))) as Box<dyn FnOnce() + Send>;
    for (cpus, expected) in [(1, 40), (2, 20), (4, 10), (8, 10)] {
        let took = run(Config::new(cpus), || {
            all([burns(), burns(), burns(), burns()]);
            millis()
        });
        assert_eq!(took, expected, "{cpus} CPUs");
    }
}

#[test]
fn a_bound_thread_stays_on_its_cpu() {
    let burns = |cpu: usize| {
        Box::new(move || {
            assert_eq!(bind(current().unwrap(), &CpuSet::single(cpu)), Some(true));
            assert_eq!(current_cpu(), Some(cpu));
            burn(ms(10));
            assert_eq!(current_cpu(), Some(cpu));
            assert_eq!(cpu_time(current().unwrap()), Some(ms(10)));
        }) as Box<dyn FnOnce() + Send>
    };
    let took = run(Config::new(4), || {
        all([burns(1), burns(1), burns(3)]);
        assert_eq!(bind(current().unwrap(), &CpuSet::single(4)), Some(false), "there is none");
        millis()
    });
    assert_eq!(took, 20);
}

#[test]
fn another_process_takes_a_cpu_at_once() {
    let took = run(Config::new(2), || {
        let burns = || Box::new(|| burn(ms(10))) as Box<dyn FnOnce() + Send>;
        let director = Box::new(|| {
            claim();
            pause(ms(3));
            take_cpu(0, ms(50));
            take_cpu(1, ms(5));
        });
        all([burns(), director]);
        millis()
    });
    assert_eq!(took, 15, "the thread goes on where it can");
}

#[test]
fn a_thread_with_a_claim_goes_first() {
    let ends = run(Config::new(1), || {
        let ends = Arc::new(sync::Mutex::new(Vec::new()));
        let burner = |claims: bool| {
            let ends = Arc::clone(&ends);
            Box::new(move || {
                if claims {
                    claim();
                }
                pause(ms(1));
                burn(ms(5));
                ends.lock().push((claims, millis()));
            }) as Box<dyn FnOnce() + Send>
        };
        all([burner(false), burner(false), burner(true)]);
        Arc::into_inner(ends).unwrap().into_inner()
    });
    assert_eq!(ends[0], (true, 6));
    assert_eq!(ends[2], (false, 16));
}

#[test]
fn threads_are_refused_by_their_names() {
    run(Config::new(1), || {
        refuse_threads_named("/u0:");
        assert!(spawn("a/u0:1".to_owned(), None, || ()).is_err());
        thread::join(spawn("a/u1:0".to_owned(), None, || ()).unwrap(), Until::FOREVER).unwrap();
    });
}

/// Lets two threads add to a number, each with a load and a store. Returns the sum.
fn sum(config: Config, locked: bool) -> u64 {
    run(config, || {
        let (number, lock) = (Arc::new(AtomicU64::new(0)), Arc::new(sync::Mutex::new(())));
        let adds = || {
            let (number, lock) = (Arc::clone(&number), Arc::clone(&lock));
            Box::new(move || {
                for _ in 0..10 {
                    let _locked = locked.then(|| lock.lock());
                    number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
            }) as Box<dyn FnOnce() + Send>
        };
        all([adds(), adds()]);
        number.load(Ordering::Relaxed)
    })
}

#[test]
fn a_seed_is_an_order_and_a_lock_excludes() {
    let sums: Vec<_> = (0..50).map(|seed| sum(Config::new(2).seed(seed), false)).collect();
    assert!(sums.iter().any(|sum| *sum < 20), "{sums:?}");
    let again: Vec<_> = (0..50).map(|seed| sum(Config::new(2).seed(seed), false)).collect();
    assert_eq!(sums, again);
    assert!((0..50).all(|seed| sum(Config::new(2).seed(seed), true) == 20));
    assert_eq!(sum(Config::new(2), false), 20, "without a seed, threads do not interrupt each other");
}

/// Lets three threads take 20 steps each. Returns how many times one of these threads interrupted another.
fn interruptions(seed: u64, falls: &[u64]) -> usize {
    let config = Config { fine: false, order: Order::Ranks { falls: falls.to_vec() }, ..Config::new(4) };
    let steps = Arc::new(sync::Mutex::new(Vec::new()));
    let of_main = Arc::clone(&steps);
    run(config.seed(seed), move || {
        let body = |number: usize| {
            let steps = Arc::clone(&of_main);
            Box::new(move || {
                for _ in 0..20 {
                    steps.lock().push(number);
                    step();
                }
            }) as Box<dyn FnOnce() + Send>
        };
        all([body(1), body(2), body(3)]);
    });
    let steps = steps.lock();
    assert_eq!(steps.len(), 60);
    steps.windows(2).filter(|pair| pair[0] != pair[1]).count() - 2
}

/// spec: T2.2 (bounded preemption): ranked threads interrupt each other only at the chosen points.
#[test]
fn ranked_threads_are_interrupted_at_chosen_points_only() {
    for seed in 0..50 {
        assert_eq!(interruptions(seed, &[]), 0);
        assert!(interruptions(seed, &[5]) <= 1 && interruptions(seed, &[5, 17, 30]) <= 3);
    }
    assert!((0..50).any(|seed| interruptions(seed, &[5, 17, 30]) == 3));
}

#[test]
fn waits_of_all_kinds_end_by_a_wake_up_or_in_time() {
    for seed in 0..20 {
        run(Config::new(2).seed(seed), || {
            let (flag, condition) = (Arc::new(sync::Mutex::new(false)), Arc::new(sync::Condvar::new()));
            let main = Sleeper::current();
            let other = {
                let (flag, condition) = (Arc::clone(&flag), Arc::clone(&condition));
                spawn("other".to_owned(), None, move || {
                    pause(ms(3));
                    *flag.lock() = true;
                    condition.notify_one();
                    pause(ms(3));
                    main.unpark();
                    pause(ms(3));
                    wait::wake_all(77);
                })
            };
            let mut seen = flag.lock();
            while !*seen {
                condition.wait(&mut seen);
            }
            assert_eq!(millis(), 3);
            thread::park();
            assert_eq!(millis(), 6);
            assert!(wait::sleep(77, || true, Until::after(ms(60))));
            assert_eq!(millis(), 9);
            assert!(!wait::sleep(77, || true, Until::after(ms(60))));
            assert!(!thread::park_timeout(ms(1)));
            assert!(wait::sleep(77, || false, Until::FOREVER));
            assert_eq!(millis(), 70);
            thread::join(other.unwrap(), Until::FOREVER).unwrap();
        });
    }
}

#[test]
#[should_panic(expected = "main waits for Parked(0)")]
fn a_wait_that_never_ends_is_told() {
    run(Config::new(2), thread::park);
}

/// The run fails if a thread gives the baton away while it holds a lock. In builds for users' tests, the crate's locks
/// rely on this rule.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a thread gives the baton away while it holds the lock Last of ")]
fn a_thread_that_gives_the_baton_away_holds_no_lock() {
    run(Config { fine: false, ..Config::new(1) }, || {
        let lock = sync::Mutex::new(());
        let _guard = lock.lock();
        nap(Duration::from_millis(1));
    });
}

#[test]
fn a_sleeper_that_outlives_its_machine_does_not_keep_it() {
    let (number, sleeper) = run(Config::new(1), || (number(), Sleeper::current()));
    assert!(number > 0 && baton::Machine::by_number(number).is_none());
    sleeper.unpark();
}
