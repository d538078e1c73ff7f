//! A seed determines the order of the threads' steps. Earlier work of the process does not change this order.
//!
//! Red under: `free-cells-have-points`.

use std::sync::Arc;
use std::time::Duration;

use super::seeds::runs;
use super::setup::{executor, micros};
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::machine::{Config, Mutex, burn, run};
use crate::{Executor, WorkQueue};

/// The number of items. After this many items, the threads' caches of free cells overflow into the global cache.
const ITEMS: usize = 2000;

/// The time at which an item began, and the name of its worker.
type Begin = (Time, String);

/// Queues items, and waits until all of them have begun. Returns the time and the worker of each begin, in order.
fn work(executor: &Executor, body: impl Fn() + Clone + Send + 'static) -> Vec<Begin> {
    let begins = Arc::new(Mutex::new(Vec::new()));
    let queue = WorkQueue::builder("q").build_on(executor).unwrap();
    let mut items = Vec::new();
    for _ in 0..ITEMS {
        let (begins, body) = (Arc::clone(&begins), body.clone());
        let item = move || {
            let worker = std::thread::current().name().unwrap_or_default().to_owned();
            begins.lock().push((clock::now(), worker));
            body();
        };
        items.push(queue.spawn(item).unwrap());
    }
    items.into_iter().for_each(|item| item.join().unwrap());
    assert!(executor.shutdown(Duration::MAX).unwrap().is_complete());
    std::mem::take(&mut begins.lock())
}

fn play(seed: u64) -> Vec<Begin> {
    let config = Config { latency: micros(50), ..Config::new(2).seed(seed) };
    run(config, || work(&executor("core:2 pu:1", |builder| builder), || burn(micros(10))))
}

#[test]
fn a_seed_stands_for_the_same_order_after_other_work_of_the_process() {
    runs(10, |seed, _trace| {
        let first = play(seed);
        assert_eq!(first.len(), ITEMS);
        // This work leaves free cells, which the next run can use.
        work(&Executor::builder().build().unwrap(), || ());
        assert!(first == play(seed), "the second run has another order");
    });
}
