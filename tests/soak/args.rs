//! The command line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lexopt::prelude::*;

const HELP: &str = "\
Usage: soak [--seconds N] [--seed N] [--drivers N] [--json] [--any-memory] [--race]
       soak --seeds N [--first N] [--seconds N]

Drive every public operation of cmwq at random from many threads, and check the accounts.

      --seconds N    the length of the run (default: 5)
      --seed N       draw from this seed (default: the clock); it is printed at the start
      --drivers N    the number of threads that issue operations (default: 6)
      --json         print the summary as JSON
      --any-memory   do not check that memory stays constant; for sanitizers, which keep freed memory
      --race         only make a data race, which ThreadSanitizer reports
      --seeds N      run the small programs of N seeds in virtual time, for `--seconds` at most (default: no limit);
                     if the time is over before all of them have run, this is an error
                     (without `--seconds`, and with the feature testing, some hundred seeds also follow the soak)
      --first N      begin with this seed (default: 0)
  -h, --help         print this help

Exit status: 0 on success, 1 if an item was lost or run twice, memory grew, or seeds are left, 2 for a usage error. A
lost wake-up, which the progress check finds, aborts. On success, the last line shows the accounts.
";

/// The parsed command line.
pub(crate) enum Command {
    Run(Args),
    Print(String),
    Race,
    /// Runs the programs of `seeds` seeds, from the seed `first` on.
    Seeds {
        first: u64,
        seeds: u64,
        /// The longest time that all programs may take together.
        time: Duration,
    },
    /// Does nothing, because the command line names another test or asks for a list of tests. `cargo test` passes such
    /// arguments to all test programs.
    Nothing,
}

/// The settings of a run.
pub(crate) struct Args {
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) drivers: usize,
    pub(crate) json: bool,
    pub(crate) memory: bool,
    /// Whether the programs of some seeds run after the soak test.
    pub(crate) seeds: bool,
}

impl Command {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = now.as_micros() as u64;
        let duration = Duration::from_secs(5);
        let mut args = Args { duration, seed, drivers: 6, json: false, memory: true, seeds: false };
        let (mut seeds, mut first, mut limit) = (None, 0, Duration::MAX);
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(Self::Print(HELP.into())),
                Long("seconds") => {
                    args.duration = Duration::from_secs(parser.value()?.parse()?);
                    limit = args.duration;
                }
                Long("seeds") => seeds = Some(parser.value()?.parse()?),
                Long("first") => first = parser.value()?.parse()?,
                Long("seed") => args.seed = parser.value()?.parse()?,
                Long("drivers") => args.drivers = parser.value()?.parse()?,
                Long("json") => args.json = true,
                Long("any-memory") => args.memory = false,
                Long("race") => return Ok(Self::Race),
                // `cargo test` passes filters to all test programs.
                Value(filter) if "soak".contains(&*filter.to_string_lossy()) => {}
                Value(_) | Long("list") => return Ok(Self::Nothing),
                Long("test-threads" | "skip" | "color" | "format") => drop(parser.value()?),
                Long("nocapture" | "no-capture" | "exact" | "quiet" | "show-output") | Short('q') => {}
                other => return Err(other.unexpected()),
            }
        }
        if args.drivers == 0 {
            return Err("--drivers must be at least 1".into());
        }
        if let Some(seeds) = seeds {
            return Ok(Self::Seeds { first, seeds, time: limit });
        }
        // Without a time, as under `cargo test`, the programs of some seeds follow.
        args.seeds = limit == Duration::MAX && !args.json;
        Ok(Self::Run(args))
    }
}
