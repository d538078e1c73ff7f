//! The engine itself, on a machine whose CPUs and time are made up.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::detection::Detection;
use crate::sys::clock;
use crate::sys::machine::{Config, burn, pause, run};
use crate::sys::sync::Mutex;
use crate::{Executor, TopologySource, WorkQueue, WorkQueueBuilder, blocking};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn millis() -> u64 {
    clock::now().as_nanos() / 1_000_000
}

/// An executor with all CPUs of a machine of so many.
fn executor(cpus: usize) -> Executor {
    let topology = TopologySource::Synthetic(format!("l3:1 core:{cpus} pu:1"));
    Executor::builder().topology(topology).detection(Detection::Sampling).build().unwrap()
}

/// When each item of the documents' example starts and ends: `w0` goes to the first queue, `w1` and `w2` to the last one.
fn timeline(queues: &[WorkQueueBuilder]) -> Vec<(u64, &'static str)> {
    run(Config::new(1), || {
        let executor = executor(1);
        let queues: Vec<_> = queues.iter().map(|queue| queue.clone().build_on(&executor).unwrap()).collect();
        let log = Arc::new(Mutex::new(Vec::new()));
        let item = |name: [&'static str; 2], again: bool| {
            let log = Arc::clone(&log);
            move || {
                log.lock().push((millis(), name[0]));
                burn(ms(5));
                blocking(|| pause(ms(10)));
                if again {
                    burn(ms(5));
                }
                log.lock().push((millis(), name[1]));
            }
        };
        let last = queues.last().unwrap();
        let items = [
            queues[0].spawn(item(["w0 starts", "w0 ends"], true)),
            last.spawn(item(["w1 starts", "w1 ends"], false)),
            last.spawn(item(["w2 starts", "w2 ends"], false)),
        ];
        items.into_iter().for_each(|item| item.unwrap().join().unwrap());
        executor.shutdown(Duration::MAX).unwrap();
        drop(queues);
        std::mem::take(&mut *log.lock())
    })
}

/// spec: C6.1 (a)
#[test]
fn with_max_active_1_the_items_run_one_after_the_other() {
    let expected = [
        (0, "w0 starts"),
        (20, "w0 ends"),
        (20, "w1 starts"),
        (35, "w1 ends"),
        (35, "w2 starts"),
        (50, "w2 ends"),
    ];
    assert_eq!(timeline(&[WorkQueue::per_cpu("q").max_active(1)]), expected);
}

/// spec: C6.1 (b)
#[test]
fn with_max_active_256_each_item_starts_when_the_one_before_sleeps() {
    let expected = [
        (0, "w0 starts"),
        (5, "w1 starts"),
        (10, "w2 starts"),
        (20, "w0 ends"),
        (20, "w1 ends"),
        (25, "w2 ends"),
    ];
    assert_eq!(timeline(&[WorkQueue::per_cpu("q")]), expected);
}
