//! [`Setup::explore`]: runs of many seeds.

use std::env;
use std::sync::Arc;

use super::setup::{SEED, Setup};

/// The environment variable that sets the number of runs of each call of [`Setup::explore`].
const RUNS: &str = "CMWQ_TEST_RUNS";

impl Setup {
    /// Runs the closure once with each of this many consecutive seeds. The first seed is 0, or the [`seed`](Self::seed)
    /// of this setup. With some seeds, threads interrupt each other at random moments, and the seed decides how often.
    /// With the other seeds, threads interrupt each other only a few times.
    ///
    /// The environment variable `CMWQ_TEST_RUNS` sets another number of runs, for a long search. `CMWQ_TEST_SEED`
    /// repeats the run of one seed.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::WorkQueue;
    /// use cmwq::testing::Setup;
    ///
    /// Setup::new().cpus(1).explore(20, || {
    ///     let queue = WorkQueue::new("pairs");
    ///     let (one, two) = (queue.spawn(|| 1).unwrap(), queue.spawn(|| 2).unwrap());
    ///     assert_eq!(one.join().unwrap() + two.join().unwrap(), 3);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if a run fails, as [`run`](Self::run) does. The message on standard error has the seed of the failed run
    /// and the order of its events. Later seeds are not run. Also panics if one of these environment variables is not a
    /// number.
    #[track_caller]
    pub fn explore(&self, runs: u64, test: impl Fn() + Send + Sync + 'static) {
        let (first, runs) = match (number(SEED), number(RUNS)) {
            (Some(seed), _) => (seed, 1),
            (None, more) => (self.first(), more.unwrap_or(runs)),
        };
        let test = Arc::new(test);
        for seed in (0..runs).map(|run| first.wrapping_add(run)) {
            let test = Arc::clone(&test);
            let setup = self.clone().seed(seed);
            if let Err(failure) = setup.perform(move || test()) {
                eprintln!("{}", failure.story(&setup));
                failure.panic();
            }
        }
    }
}

/// Returns the number that an environment variable sets.
#[track_caller]
fn number(name: &str) -> Option<u64> {
    let value = env::var_os(name)?;
    let number = value.to_str().and_then(|value| value.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{name} is {value:?}: it must be a number")))
}
