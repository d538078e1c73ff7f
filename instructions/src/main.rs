//! How many instructions the hot operations of cmwq take, against a record: what a change costs is seen on machines on
//! which nothing can be timed.
//!
//! ```text
//! make bench-check
//! make bench-check UPDATE=1
//! make bench-check ONLY="run guard/default" PROFILE=1
//! cargo run --release -p instructions -- run guard/default --json
//! ```
//!
//! Each operation is counted by callgrind in a process of its own, some rounds of 500 (of 100, if they are long), of which
//! the median is shown.
//!
//! # What is in a count
//!
//! Instructions of one thread in user space: those of cmwq, and of the standard and the C library on its behalf (so of the
//! allocator, too). What the kernel does is not in it, and what the processor makes of them neither: an atomic
//! read-modify-write is one instruction, and costs as much as twenty.
//!
//! * The issuer is counted while all workers are held, a worker while nobody issues: nothing depends on who was faster.
//!   Only `round-trip` counts both sides of a wake-up. Whether the joiner has to sleep is up to the system, in all rounds
//!   of a run or in none, and makes a fifth of the count: it has a wider bound.
//! * Two kinds of clock stand, so that workers read them as often as they do outside of valgrind; see `clock`.
//!   A reading of one is a call of a few instructions, which stands for 30 to 40.
//! * Valgrind knows neither restartable sequences nor the vDSO. So `sched_getcpu` is a system call: about 16 instructions
//!   more than elsewhere. There is one in each queueing, and one in each item of a queue whose pods have several CPUs.
//! * The executor has two CPUs in one pod, whatever the machine has, and nobody looks for items that block undeclared.
//!
//! # Why not gungraun
//!
//! It compares a run with a former one's files, which are too large for a repository, and machine dependent; it has
//! totals, where what is wanted is a number for each item; and it asks for `cargo install` of exactly its version. To
//! start and stop counting in the middle of a worker's loop takes client requests there, too, whose crates need libclang.
//! What is left is to start valgrind, and to read a line of its output.
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `case`, `bed`, `affinity` | what is counted, and where |
//! | `request`, `clock` | what the counted program arranges with valgrind |
//! | `callgrind`, `profile` | the counting process, and what it has written |
//! | `toolchain`, `record` | what was counted before, and with what |
//! | `verdict`, `show` | what came of it |
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod affinity;
mod args;
mod bed;
mod callgrind;
mod case;
#[cfg(target_os = "linux")]
mod clock;
mod profile;
mod record;
mod request;
mod show;
mod toolchain;
mod verdict;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use args::{Args, Command};
use callgrind::Task;
use record::Record;
use toolchain::Toolchain;
use verdict::Report;

/// Something was wrong with the command line, or could not be counted.
const TROUBLE: u8 = 2;

fn main() -> ExitCode {
    let done = match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => run(&args),
        Ok(Command::Count(task)) => task.run().map(|()| true),
        Ok(Command::Print(text)) => print(&text).map(|()| true),
        Err(error) => {
            eprintln!("instructions: {error}\nTry 'instructions --help' for more information.");
            return ExitCode::from(TROUBLE);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// True unless something takes more than it may.
fn run(args: &Args) -> Result<bool, Box<dyn Error + Send + Sync>> {
    if !request::IS_POSSIBLE {
        return Err(request::ELSEWHERE.into());
    }
    if cfg!(debug_assertions) {
        return Err("this is a debug build, which nobody wants to be fast: cargo run --release".into());
    }
    let now = Toolchain::here()?;
    let record = Record::read(&args.record)?;
    let mut counts = Vec::new();
    for case in &args.cases {
        progress(&case.name());
        let mut counted = Task { case, idle: args.idle, rounds: args.rounds }.count()?;
        if !args.profile {
            counted.functions.clear();
        }
        counts.push((*case, counted));
    }
    progress("");
    if args.update {
        let is_all = args.cases.len() == case::CASES.len();
        Record::updated(record, now, is_all, &counts)?.write(&args.record)?;
        eprintln!("Recorded in {}", args.record.display());
        return Ok(true);
    }
    let report = Report::new(counts, record, now);
    print(&if args.json { show::json(&report) } else { show::table(&report) })?;
    Ok(report.is_well())
}

/// On a terminal, what goes on.
fn progress(what: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r{what:<30}\r");
    }
}

fn print(text: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}
