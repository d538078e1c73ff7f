//! The time at which a rescuer is called for a queue whose pool cannot have a worker.

use std::sync::Arc;
use std::time::Duration;

use super::setup::{executor, micros, ms};
use crate::sys::clock;
use crate::sys::machine::Mutex;
use crate::sys::machine::{self, Config, burn, pause, run, stand_on};
use crate::{WorkQueue, is_rescuer};

/// spec: P2, P2.3 (the rescuer is called after 10 ms, then every 100 ms)
#[test]
fn a_rescuer_is_called_after_10_ms_and_then_every_100_ms() {
    for seed in 0..20 {
        let config = Config { latency: micros(50), switches: 100, ..Config::new(2) };
        run(config.seed(seed), || {
            let executor = executor("l3:1 core:2 pu:1", |builder| builder);
            let queue = WorkQueue::per_cpu("q").rescuer(true).build_on(&executor).unwrap();
            // From now on, no worker of the first CPU can be made.
            machine::refuse_threads_named("/0:");
            let begins = Arc::new(Mutex::new(Vec::new()));
            let item = || {
                let begins = Arc::clone(&begins);
                move || {
                    assert!(is_rescuer());
                    begins.lock().push(Duration::from_nanos(clock::now().as_nanos()));
                    burn(micros(100));
                }
            };
            stand_on(0);
            (0..3).for_each(|_| assert!(queue.spawn_detached(item()).is_ok()));
            pause(ms(15));
            let first = begins.lock().clone();
            // The rescuer and the manager may be woken late.
            let late = micros(200);
            let all_in_time = first.iter().all(|at| (ms(10)..=ms(10) + micros(200) + late).contains(at));
            assert!(first.len() == 3 && all_in_time, "{first:?}");
            for round in 0..20 {
                let queued = Duration::from_nanos(clock::now().as_nanos());
                assert!(queue.spawn_detached(item()).is_ok());
                queue.flush().unwrap();
                let begin = *begins.lock().last().unwrap();
                assert!(begin - queued <= ms(100) + late, "round {round}: {:?}", begin - queued);
                pause(micros(1370));
            }
            drop(queue);
            executor.shutdown(Duration::MAX).unwrap();
        });
    }
}
