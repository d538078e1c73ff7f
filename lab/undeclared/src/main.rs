//! Items that block, spin and compute for long without a guard, and the delays of other items.
//!
//! ```text
//! cargo run --release -p undeclared
//! cargo run --release -p undeclared -- --quick --mode sampling
//! cargo run --release -p undeclared -- --only service
//! cargo run --release -p undeclared -- --check
//! ```
//!
//! Each figure (a measured value) is measured without detection, with each way of detection that the system permits,
//! and with guards. The last figure is a small service. At its end the executor's lists show which functions lack a
//! guard.
//!
//! | module | |
//! |---|---|
//! | `args`, `effort` | the command line, and the amount of measurement |
//! | `mode` | off, sampling, switches, guards |
//! | `bed` | an executor of one mode |
//! | `figures` | the figures, one file each |
//! | `service`, `pages` | the service |
//! | `load` | the behaviour of items |
//! | `procfs`, `others` | facts about threads, and about the load by other programs |
//! | `figure`, `report` | values and their aims |
//! | `table`, `json` | two formats of the report |

mod args;
mod bed;
mod effort;
mod figure;
mod figures;
mod json;
mod load;
mod mode;
mod others;
mod pages;
mod procfs;
mod report;
mod service;
mod table;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use args::{Args, Command};
use cmwq::Executor;
use figure::Outcome;
use figures::Figure;
use indicatif::{ProgressBar, ProgressStyle};
use mode::Mode;
use others::Others;
use report::Report;

/// How often a check measures a figure that misses its aim.
const ATTEMPTS: usize = 3;

fn main() -> ExitCode {
    let args = match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Print(text)) => {
            return finish(io::stdout().write_all(text.as_bytes()), ExitCode::SUCCESS);
        }
        Err(error) => {
            eprintln!("undeclared: {error}\nTry 'undeclared --help' for more information.");
            return ExitCode::from(2);
        }
    };
    let report = match measure(&args) {
        Ok(report) => report,
        Err(error) => return fail(&*error),
    };
    let text = if args.json { json::text(&report) } else { table::text(&report) };
    let failed = args.check && !(report.missed().is_empty() && report.denied.is_empty());
    let verdict = if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    finish(io::stdout().write_all(text.as_bytes()), verdict)
}

fn measure(args: &Args) -> Result<Report, Box<dyn Error>> {
    let mut report = Report {
        cpus: Executor::builder().build()?.cpus().len(),
        quick: args.effort.quick,
        modes: args.modes.clone(),
        denied: Vec::new(),
        others: None,
        figures: args.figures.clone(),
        outcomes: Vec::new(),
    };
    for mode in &args.modes {
        report.denied.extend(mode.denied()?.map(|reason| (*mode, reason)));
    }
    let permitted: Vec<Mode> = {
        let denied = |mode: &Mode| report.denied.iter().any(|(denied, _)| denied == mode);
        args.modes.iter().copied().filter(|mode| !denied(mode)).collect()
    };
    let plan: Vec<_> = args
        .figures
        .iter()
        .flat_map(|figure| permitted.iter().map(move |mode| (*figure, *mode)))
        .filter(|(figure, mode)| figure.modes.contains(mode))
        .collect();
    let others = Others::watch();
    let progress = progress(plan.len() as u64);
    for (figure, mode) in plan {
        progress.set_message(format!("{}, {}", figure.name, mode.name()));
        report.outcomes.push((figure.name, mode, outcome(figure, mode, args)?));
        progress.inc(1);
    }
    report.others = others.share();
    progress.finish_and_clear();
    Ok(report)
}

/// Measures a figure. For a check, the first measurement that reaches the aim counts. Other programs can delay items,
/// but they cannot make items start sooner.
fn outcome(figure: &Figure, mode: Mode, args: &Args) -> Result<Outcome, Box<dyn Error>> {
    let mut outcome = (figure.measure)(mode, args.effort)?;
    for _ in 1..if args.check { ATTEMPTS } else { 1 } {
        if !outcome.is_missed() {
            break;
        }
        outcome = (figure.measure)(mode, args.effort)?;
    }
    Ok(outcome)
}

/// A progress bar on standard error, if that is a terminal. It moves only once a second, because drawing takes CPU
/// time.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}: {msg}, {elapsed}");
    let bar = ProgressBar::new(steps).with_style(style.expect("the template is well-formed"));
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_secs(1));
    }
    bar
}

fn finish(written: io::Result<()>, verdict: ExitCode) -> ExitCode {
    match written {
        // If the reader closes the output early, the verdict stays the same.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error),
        _ => verdict,
    }
}

fn fail(error: &dyn Error) -> ExitCode {
    eprintln!("undeclared: {error}");
    ExitCode::FAILURE
}
