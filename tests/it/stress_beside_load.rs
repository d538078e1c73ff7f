//! The stress tests again under harder conditions: on one CPU, and beside a busy neighbour.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use testkit::{SKIPS, itself, output};

use crate::support::time_limit;

/// The tests that the child process runs.
const SUBSET: [&str; 6] = [
    "stress::mixed_work_on_all_queues_balances",
    "works::an_item_is_never_entered_twice_however_it_is_queued",
    "concurrency::returning_workers_overshoot_and_are_shed",
    "flush::concurrent_flushes_each_see_their_own_items",
    "guards::",
    "executors::by_default_an_executor_uses_the_cpus_of_the_process",
];

/// Runs these tests in a child process, which inherits the CPUs of the calling thread.
fn own_tests() -> Output {
    let mut command = itself();
    // The child's skips are not recorded, because this process runs the tests that the child skips for lack of a second
    // CPU.
    output(command.args(SUBSET).env("CMWQ_STRESS", "0.5").env_remove(SKIPS)).unwrap()
}

fn check(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok") && !text.contains(" 0 passed"), "{text}");
}

/// spec: C1, C3, W3, F1, E2.1 (the process's own affinity mask): the tests pass even if all pools, with up to eight
/// made-up CPUs, share one real CPU.
#[test]
fn the_stress_passes_on_one_cpu() {
    let _limit = time_limit();
    let cpu = core_affinity::get_core_ids().unwrap()[0];
    let on_one_cpu = std::thread::spawn(move || {
        assert!(core_affinity::set_for_current(cpu));
        own_tests()
    });
    check(&on_one_cpu.join().unwrap());
}

/// spec: C1, C3, W3, F1: the tests pass while other threads keep every CPU busy, in bursts.
#[test]
fn the_stress_passes_beside_a_busy_neighbour() {
    let _limit = time_limit();
    let over = Arc::new(AtomicBool::new(false));
    let neighbours: Vec<_> = core_affinity::get_core_ids()
        .unwrap()
        .into_iter()
        .map(|cpu| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                assert!(core_affinity::set_for_current(cpu));
                let mut random = Rng::with_seed(cpu.id as u64);
                while !over.load(Ordering::Relaxed) {
                    crate::support::burn(std::time::Duration::from_micros(random.u64(..5000)));
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    let output = own_tests();
    over.store(true, Ordering::Relaxed);
    neighbours.into_iter().for_each(|neighbour| neighbour.join().unwrap());
    check(&output);
}
