//! The bound on the pending items of an executor, while several threads submit at the same moment.

use std::time::Duration;

use super::seeds::runs;
use super::setup::{executor, ms};
use crate::WorkQueue;
use crate::blocking::thread::spawn;
use crate::sys::machine::{Config, pause, run};

/// The number of random runs in an ordinary test run.
const RUNS: u64 = if cfg!(debug_assertions) { 300 } else { 3000 };

const BOUND: usize = 90;

/// Two threads submit a batch each, to two queues. Each batch alone fits within the bound. On a simulated machine, the
/// items of a batch are admitted one by one. So the threads take the places of their batches directly, and queue no
/// items.
///
/// spec: B4.1
#[test]
fn batches_of_several_queues_do_not_take_the_same_room() {
    runs(RUNS, |seed, _trace| {
        run(Config { switches: 300, ..Config::new(2) }.seed(seed), || {
            let executor = executor("core:2 pu:1", |builder| builder.max_pending(BOUND));
            let pending = || executor.dump().pending.unwrap();
            let queues = ["one", "two"].map(|name| WorkQueue::ordered(name).build_on(&executor).unwrap());
            let issuers = queues.map(|queue| {
                spawn(move || {
                    // Both issuers begin at the same moment.
                    pause(ms(1));
                    let taken = queue.handle().queue().take_places(80);
                    (queue, taken)
                })
            });
            let taken = issuers.map(|issuer| issuer.join().unwrap());
            let all = taken.iter().map(|(_, taken)| taken).sum::<usize>();
            assert_eq!(pending(), all);
            assert!(taken.iter().all(|(_, taken)| *taken > 0), "each queue may have one item");
            // Each thread may exceed the bound by one item.
            assert!((80..=BOUND + 2).contains(&all), "{all}");
            taken.iter().for_each(|(queue, taken)| queue.handle().queue().left_pending_many(*taken));
            assert_eq!(pending(), 0);
            drop(taken);
            assert!(executor.shutdown(Duration::MAX).unwrap().is_complete());
        });
    });
}
