//! The seeds of random runs.

use std::env;

/// Runs as many seeds as `CMWQ_SIM_RUNS` says, or `usual` seeds if this variable is not set. `CMWQ_SIM_SEED` repeats
/// the run of one seed, with a trace. A run that fails prints its seed. Returns whether at least the usual number of
/// seeds was run. After the usual number of runs, all rare events must have happened.
pub(super) fn runs(usual: u64, mut run: impl FnMut(u64, bool)) -> bool {
    let number = |name: &str| {
        env::var(name).ok().map(|value| value.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let mut one = |seed, trace| {
        let seed = Seed(seed);
        run(seed.0, trace);
    };
    if let Some(seed) = number("CMWQ_SIM_SEED") {
        one(seed, true);
        return false;
    }
    let runs = number("CMWQ_SIM_RUNS").unwrap_or(usual);
    (0..runs).for_each(|seed| one(seed, false));
    runs >= usual
}

/// Prints the seed if the run panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this run with CMWQ_SIM_SEED={}", self.0);
        }
    }
}
