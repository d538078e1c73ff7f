//! Counts the instructions of cmwq's hot operations, and compares them with a record. So the cost of a change is
//! visible even on machines that are too busy for timing.
//!
//! ```text
//! make bench-check
//! make bench-check UPDATE=1
//! make bench-check ONLY="run guard/default" PROFILE=1
//! make bench-testing
//! ```
//!
//! Callgrind counts each operation in a process of its own, in some rounds of 500 operations (100 for long operations).
//! The program shows the median of the rounds.
//!
//! # The contents of a count
//!
//! A count contains the instructions of one thread in user space. It includes the instructions of cmwq, and those of
//! the standard library, the C library and the allocator that cmwq calls. A count does not include the kernel, and
//! ignores the speed of instructions: an atomic read-modify-write is one instruction, but costs as much as twenty.
//!
//! * The issuer is counted while items hold all workers, and a worker is counted while no thread issues items. So no
//!   count depends on the relative speed of threads. Only `round-trip` counts both sides of a wake-up. The system
//!   decides whether the joiner has to sleep, which makes a fifth of the count and is the same in all rounds of a
//!   process. So `round-trip` is counted in three processes, of which the least count is shown, and its bound is wider.
//!   In the build of `make bench-check`, an idle thread sleeps immediately. Otherwise it would first search for work
//!   for a while, and the length of that search depends on the machine's load.
//! * Two kinds of clock stand still, so that workers read them as often as outside of valgrind; see `clock`. A reading
//!   of such a clock counts as a few instructions, and not as the usual 30 to 40.
//! * Valgrind supports neither restartable sequences nor the vDSO. So `sched_getcpu` is a system call under valgrind,
//!   and takes about 16 instructions more than elsewhere. Each submission calls it once.
//! * The executor has two CPUs in one pod, on every machine, and detection is off.
//!
//! # Why not gungraun
//!
//! gungraun compares a run with the files of a former run. These files are too large for a repository and depend on the
//! machine. gungraun reports totals, and not a number for each item. Its runner has to be installed by `cargo install`
//! in exactly the same version. With gungraun, too, only client requests can start and stop a count in the middle of a
//! worker's loop, and their crates need libclang. So this program starts valgrind itself and reads a line of its
//! output.
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `case`, `bed`, `affinity` | the counted operations, and their setting |
//! | `request`, `clock` | the counted program's requests to valgrind, and its clocks |
//! | `callgrind`, `profile` | the counting process, and its output |
//! | `toolchain`, `record` | former counts, and their toolchain |
//! | `verdict`, `show` | the results |

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

/// The exit status if the command line is wrong or counting failed.
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

/// Returns true unless an operation takes more instructions than permitted.
fn run(args: &Args) -> Result<bool, Box<dyn Error + Send + Sync>> {
    if !request::IS_POSSIBLE {
        return Err(request::ELSEWHERE.into());
    }
    if cfg!(debug_assertions) {
        return Err("debug builds are not counted: use cargo run --release".into());
    }
    let now = Toolchain::here()?;
    let record = Record::read(&args.record)?;
    let mut counts = Vec::new();
    for case in &args.cases {
        progress(&case.name());
        let task = Task { case, idle: args.idle, rounds: args.rounds };
        let mut counted = task.count()?;
        for _ in 1..case.processes() {
            counted = counted.least(task.count()?);
        }
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
    let report = Report::new(counts, record, now, args.bound);
    print(&if args.json { show::json(&report) } else { show::table(&report) })?;
    Ok(report.is_well())
}

/// Shows the progress on standard error, if that is a terminal.
fn progress(what: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r{what:<30}\r");
    }
}

fn print(text: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader of the output has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}
