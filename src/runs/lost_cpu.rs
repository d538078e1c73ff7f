//! Strict items while the process loses a CPU. The bound is the number that the documentation promises.
//!
//! Red under: `lost-cpu-is-found-late`, `lost-pod-leaves-its-queue`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::setup::{executor, micros, ms};
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::machine::{self, Absence, Config, Mutex, Plan, Tid, burn, pause, run, stand_on};
use crate::{AffinityScope, Attrs, CpuSet, WorkQueue};

/// Strict items may begin outside of their pod for at most this long after a CPU is lost.
const LONGEST: Duration = Duration::from_millis(400);

/// The CPUs of the first cache, where the issuer is.
const HOME: Range<usize> = 0..2;

/// The lost CPU, which belongs to the issuer's pod.
const LOST: usize = 1;

/// The time of the first item. From then on, the pod always has work.
const START: Duration = Duration::from_millis(390);

/// The time between two items. This time is a little shorter than the run of an item, so a single CPU of the pod would
/// not suffice.
const PERIOD: Duration = Duration::from_millis(1);

/// The time at which an item began, and the CPU.
type Begin = (Duration, usize);

fn now() -> Duration {
    clock::now().since(Time::default())
}

/// Queues strict items on a queue with these CPUs, until some time after the bound has passed. Returns when and where
/// the items began. The process loses a CPU of the pod at the time `lost`, and gets it back after the time `away`. At
/// the time `lost`, the system moves the pod's workers to the CPUs `elsewhere`.
fn begins(lost: Duration, away: Duration, cpus: &str, elsewhere: &str) -> Vec<Begin> {
    let [cpus, elsewhere] = [cpus, elsewhere].map(|list| list.parse::<CpuSet>().unwrap());
    run(Config { fine: false, ..Config::new(4) }, || {
        let absence = Absence { cpu: LOST, times: lost..lost + away };
        machine::carry_out(Plan { absences: vec![absence], ..Plan::default() });
        let executor = executor("l3:2 core:2 pu:1", |builder| builder);
        let attrs = Attrs::new().scope(AffinityScope::Cache).strict(true).cpus(cpus);
        let queue = WorkQueue::builder("q").attrs(attrs).build_on(&executor).unwrap();
        let begins = Arc::new(Mutex::new(Vec::<Begin>::new()));
        let workers = Arc::new(Mutex::new(BTreeSet::<Tid>::new()));
        stand_on(HOME.start);
        let mut at = START;
        while at < lost + LONGEST + ms(20) {
            pause(at.saturating_sub(now()));
            if at == lost {
                let known = workers.lock().clone();
                known.into_iter().for_each(|worker| _ = machine::bind(worker, &elsewhere));
            }
            let (begins, workers) = (Arc::clone(&begins), Arc::clone(&workers));
            let item = move || {
                workers.lock().insert(machine::current().expect("a worker of the machine"));
                begins.lock().push((now(), machine::current_cpu().expect("a worker has a CPU")));
                burn(PERIOD + micros(200));
            };
            assert!(queue.spawn_detached(item).is_ok());
            at += PERIOD;
        }
        queue.flush().unwrap();
        executor.shutdown(Duration::MAX).unwrap();
        std::mem::take(&mut *begins.lock())
    })
}

/// spec: A2.3 (for at most 400 ms of running time after a CPU is lost): the pod keeps one of its CPUs. At its next
/// check, the manager binds the workers to their pod again, whether the lost CPU is back by then or not. Until this
/// check, strict items begin where the system has put the workers.
#[test]
fn strict_items_are_in_their_pod_again_400_ms_after_a_cpu_was_lost() {
    // The manager checks at 400, 800 and 1200 ms. If it checked less often, one of these losses would be noticed late.
    for lost in (401..=801).step_by(50).map(ms) {
        for away in [ms(1), ms(2000)] {
            let begins = begins(lost, away, "0-3", "2-3");
            let is_away = |(_, cpu): &Begin| !HOME.contains(cpu);
            let strays: Vec<Begin> = begins.iter().copied().filter(is_away).collect();
            assert!(!strays.is_empty(), "the system has moved no worker that begins an item, at {lost:?}");
            let in_time = lost..=lost + LONGEST;
            let is_late = |(at, _): &Begin| !in_time.contains(at);
            let late: Vec<Begin> = strays.into_iter().filter(is_late).collect();
            assert!(late.is_empty(), "lost at {lost:?} for {away:?}: {late:?}");
            assert!(begins.iter().any(|(at, _)| *at > lost + LONGEST), "items go on after the bound");
        }
    }
}

/// spec: A2.3, A5.6: the queue may not use CPU 0, so the queue's first pod has only CPU 1, which is lost. After at most
/// 400 ms, the pod's items begin only on the other CPUs of the queue.
#[test]
fn strict_items_of_a_pod_without_cpus_are_on_the_cpus_of_their_queue_after_400_ms() {
    for lost in [401, 600, 799].map(ms) {
        let begins = begins(lost, ms(2000), "1-3", "0");
        let (before, after): (Vec<Begin>, Vec<Begin>) = begins.iter().partition(|(at, _)| *at < lost);
        assert!(!before.is_empty() && before.iter().all(|(_, cpu)| *cpu == LOST), "{before:?}");
        assert!(after.iter().any(|(_, cpu)| *cpu == 0), "the system has moved no worker that begins an item");
        let late: Vec<&Begin> = after.iter().filter(|(at, _)| *at > lost + LONGEST).collect();
        assert!(!late.is_empty(), "items go on after the bound");
        assert!(late.iter().all(|(_, cpu)| *cpu > LOST), "lost at {lost:?}: {late:?}");
    }
}
