//! Compares cmwq with its alternatives on the same work.
//!
//! ```text
//! cargo run --release -p rivals -- --quick
//! cargo run --release -p rivals -- mixed --json
//! cargo run --release -p rivals -- empty/2 --rival rayon --rival 'cmwq*' --rounds 9
//! cargo run --release -p rivals -- --write docs/benchmarks.md
//! ```
//!
//! | module | |
//! |---|---|
//! | `args`, `effort` | the command line, and the amount of measurement |
//! | `rival` | all participants, behind one trait |
//! | `workload` | the workloads, one file each, and their definitions |
//! | `load` | the behaviour of items |
//! | `bed`, `system` | the process in which a rival runs, and the system's figures about it |
//! | `child`, `run` | a process for each measurement, and the rounds of them |
//! | `unit`, `report` | numbers, and all results |
//! | `aims` | the aims of cmwq |
//! | `table`, `json`, `chart`, `page`, `about` | output formats |

mod about;
mod aims;
mod args;
mod bed;
mod chart;
mod child;
mod effort;
mod json;
mod load;
mod page;
mod report;
mod rival;
mod run;
mod system;
mod table;
mod unit;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use about::About;
use args::{Args, Command};
use effort::Effort;
use testkit::conditions::Begin;

fn main() -> ExitCode {
    let done = match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => run(&args),
        Ok(Command::Child(task)) => task.run(),
        Ok(Command::Print(text)) => print(&text),
        Err(error) => {
            eprintln!("rivals: {error}\nTry 'rivals --help' for more information.");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rivals: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> io::Result<()> {
    page::prepare(args)?;
    let begin = Begin::now();
    let reports = run::measure(args);
    let about = About::this_run(args, begin);
    // The aims hold only for the full amount of work.
    let is_full = args.effort == Effort::Full;
    let verdicts = if is_full { aims::verdicts(&reports, about.cpus) } else { Vec::new() };
    // The results are printed even if a file cannot be written.
    let drawn = args.svg.as_ref().map_or(Ok(()), |folder| page::draw(folder, &reports));
    let written = args.write.as_ref().map_or(Ok(()), |file| page::write(file, &about, &reports, &verdicts));
    print(&if args.json {
        json::text(&about, &reports, &verdicts)
    } else {
        page::plain(&about, &reports, &verdicts)
    })?;
    drawn.and(written)
}

/// Prints the text. If the reader closes the output early, that is no error.
fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
