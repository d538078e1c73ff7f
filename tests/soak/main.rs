//! A soak test: many threads call all public operations at random, for any length of time, and keep exact accounts.
//!
//! ```text
//! cargo test --release --test soak -- --seconds 600
//! ```
//!
//! The test consists of *rounds*. Each round makes executors, queues and items of its own, and starts driver threads
//! that use them. It stops the drivers, and waits until every accepted item has run, or was cancelled or given back.
//! Then it drops all objects, and all of their threads must end. The seed determines the draws of each thread, but not
//! the interleaving of the threads.
//!
//! | file | contents |
//! |---|---|
//! | `args` | the command line |
//! | `world` | the executors, queues and items of a round |
//! | `books` | the accounts |
//! | `behaviour` | the behaviour of items |
//! | `clock` | how items spend time |
//! | `operations` | the operations of drivers: a table, to which each group adds its part |
//! | `round` | a round from its beginning to its end |
//! | `report` | the progress line, and the summary |
//! | `process` | memory and threads of the process |
//! | `seeds` | the same operations on machines of the test kit, where a seed determines everything |
#![allow(unsafe_code, reason = "unused memory is given back by a call of libc's")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

mod args;
mod behaviour;
mod books;
mod clock;
mod operations;
mod process;
mod random;
mod report;
mod round;
#[cfg(feature = "testing")]
mod seeds;
mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::args::{Args, Command};
use crate::process::Usage;
use crate::random::Random;
use crate::report::Report;

/// Whether this build has the test kit.
const HAS_KIT: bool = cfg!(feature = "testing");

/// The number of seeds that follow a soak of the default length.
const SEEDS: u64 = 300;

/// How long drivers work in one round.
const ROUND: Duration = Duration::from_millis(1000);

fn main() -> ExitCode {
    match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => {
            let is_well = soak(&args);
            match is_well && args.seeds && HAS_KIT {
                true => search(0, SEEDS, Duration::MAX),
                false => ExitCode::from(u8::from(!is_well)),
            }
        }
        Ok(Command::Seeds { first, seeds, time }) => search(first, seeds, time),
        Ok(Command::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Command::Race) => race(),
        Ok(Command::Nothing) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error}; --help says more");
            ExitCode::from(2)
        }
    }
}

/// Shows that a build with ThreadSanitizer detects races. An item and the thread that spawned it write the same word,
/// and no synchronization orders the two writes.
fn race() -> ExitCode {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    static mut WORD: u32 = 0;
    if !cfg!(cmwq_tsan) {
        eprintln!("soak: --race is for builds with ThreadSanitizer");
        return ExitCode::from(2);
    }
    // SAFETY: the pointer leads to a static. The writes race on purpose, and only in builds that report the race.
    let write = |value| unsafe { (&raw mut WORD).write_volatile(value) };
    let item = cmwq::kernel::events().spawn(move || {
        write(1);
        WRITTEN.store(true, Ordering::Relaxed);
    });
    while !WRITTEN.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    write(2);
    item.expect("the queue takes items").join().expect("the item does not panic");
    ExitCode::SUCCESS
}

#[cfg(feature = "testing")]
fn search(first: u64, seeds: u64, time: Duration) -> ExitCode {
    seeds::search(first, seeds, time)
}

#[cfg(not(feature = "testing"))]
fn search(_first: u64, _seeds: u64, _time: Duration) -> ExitCode {
    eprintln!("soak: --seeds needs the feature testing");
    ExitCode::from(2)
}

/// Runs rounds until the time is over or a round fails. Returns whether all rounds passed.
fn soak(args: &Args) -> bool {
    let mut random = Random::new(args.seed);
    let begun = Instant::now();
    let end = begun + args.duration;
    let report = Report::new(args, begun);
    // Threads that exist now do not belong to the test's executors. A sanitizer makes a thread of its own when the
    // program makes its first thread.
    std::thread::spawn(|| ()).join().expect("the thread does nothing");
    let threads_before = Usage::now().threads;
    let mut warm = None;
    let mut failure = None;
    while failure.is_none() && Instant::now() < end {
        let time = ROUND.min(end.saturating_duration_since(Instant::now()));
        failure = round::play(&mut random, args.drivers, time, threads_before, &report).err();
        let usage = Usage::at_rest();
        report.round_ended();
        // During the first fifth, the memory of allocators and thread stacks may still grow.
        if begun.elapsed() < args.duration / 5 || warm.is_none() {
            warm = Some(usage);
        }
        let warm = warm.unwrap_or(usage);
        if args.memory && failure.is_none() && usage.has_grown_since(warm) {
            failure = Some(format!("memory grows: {warm} after the warm-up, {usage} now"));
        }
    }
    report.finish(args, failure.as_deref(), warm.unwrap_or_else(Usage::now));
    failure.is_none()
}
