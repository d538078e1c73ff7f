//! Objects that the engine makes on first use, when several threads ask for the same object at the same time.
//!
//! The thread that makes such an object may wait for a lock. If other threads waited for the object in a cell of the
//! standard library, the simulated machine would not notice, and the run would hang.

use std::sync::Arc;
use std::time::Duration;

use super::seeds::runs;
use super::setup::executor;
use crate::WorkQueue;
use crate::sys::machine::{Config, run};
use crate::sys::thread::{self, spawn};
use crate::sys::wait::Until;

/// The number of random runs in an ordinary test run.
const RUNS: u64 = if cfg!(debug_assertions) { 300 } else { 3000 };

/// spec: T1.3, I3.2 (tokens), X2 (pools)
#[test]
fn pools_and_tokens_are_made_by_several_threads() {
    runs(RUNS, |seed, _trace| {
        run(Config::new(2).seed(seed), || {
            let executor = Arc::new(executor("core:2 pu:1", |builder| builder));
            let issuer = |number: usize| {
                let executor = Arc::clone(&executor);
                let issue = move || {
                    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
                    let ask = || crate::cancel_token().is_cancelled();
                    let items = [0, 1].map(|cpu| queue.item(ask).on_cpu(cpu).spawn().unwrap());
                    assert_eq!(items.map(|item| item.join().unwrap()), [false; 2]);
                };
                spawn(format!("issuer {number}"), None, issue).unwrap()
            };
            let issuers: Vec<_> = (0..3).map(issuer).collect();
            issuers.into_iter().for_each(|issuer| thread::join(issuer, Until::FOREVER).unwrap());
            assert!(executor.shutdown(Duration::MAX).unwrap().is_complete());
        });
    });
}
