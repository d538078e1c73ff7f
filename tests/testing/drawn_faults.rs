//! Faults that the seed draws, beside faults that the test has planned.

use std::time::Duration;

use cmwq::testing::{self, FaultKind, Faults, Setup};
use cmwq::{Executor, WorkQueue};

use super::support::{ms, secs};

/// spec: T3.7: while the plan takes one of two CPUs away, no seed takes the other. Some seeds take it later.
#[test]
fn drawn_absences_leave_a_cpu() {
    let run = |seed: u64| {
        let faults = Faults::random(&[FaultKind::Cpus]).no_cpu(1, secs(0)..secs(1));
        Setup::new().faults(faults).seed(seed).run(|| {
            WorkQueue::new("works").for_each(0..4, |_| testing::compute(ms(3))).unwrap();
            testing::advance(secs(300));
            testing::events()
        })
    };
    let goes = |event: &String| event.ends_with("CPUs that are away: 0");
    let others = (0..200).filter(|seed| run(*seed).iter().any(goes));
    assert!(others.count() > 0);
}

/// spec: T3.7: if the test has planned a shutdown, no seed replaces it.
#[test]
fn a_planned_shutdown_is_kept() {
    let run = |faults: Faults, seed: u64| {
        Setup::new().faults(faults.shutdown_at(12, Duration::ZERO)).seed(seed).run(|| {
            let executor = Executor::builder().build_global().unwrap();
            if let Ok(queue) = WorkQueue::builder("mails").build_on(&executor) {
                let mails: Vec<_> = (0..5).map(|_| queue.spawn(|| testing::compute(ms(1)))).collect();
                mails.into_iter().flatten().for_each(|mail| drop(mail.join()));
            }
            testing::events()
        })
    };
    for seed in 0..40 {
        let planned = run(Faults::new(), seed);
        assert!(planned.iter().any(|event| event.contains("fault: shuts the executors down")), "{planned:?}");
        assert_eq!(planned, run(Faults::random(&[FaultKind::Shutdown]), seed), "seed {seed}");
    }
}
