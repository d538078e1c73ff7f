//! The four timelines of the kernel's documentation, measured on real threads beside the documented ones.
//!
//! ```text
//! cargo run --release -p timelines
//! cargo run --release -p timelines -- --check
//! cargo run --release -p timelines -- --svg pictures
//! ```
//!
//! Three items share one CPU. Each item burns (computes for) 5 ms and sleeps 10 ms, and then the first item burns 5 ms
//! more. The total time depends on how well the burns of other items fill each sleep. Filling them is the purpose of a
//! workqueue's concurrency management.
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `scenario` | the documented timelines (in the library, for the bench `timelines`) |
//! | `measure` | one run on real threads (also in the library) |
//! | `judge` | decides whether a measurement agrees with the documents |
//! | `table`, `json`, `svg` | three formats of the report |

mod args;
mod json;
mod judge;
mod svg;
mod table;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use args::{Args, Command};
use timelines::measure::{self, Bed, Guards, Measured};
use timelines::scenario::{TIMELINES, Timeline};

/// All measurements.
pub(crate) struct Report {
    pub(crate) cpu: usize,
    pub(crate) runs: usize,
    pub(crate) timelines: Vec<(&'static Timeline, Measured)>,
    /// The makespan of (b) without guards and without detection, if requested.
    pub(crate) unguarded: Option<f64>,
}

/// How often a check measures a timeline that does not agree with the documents.
const ATTEMPTS: usize = 3;

fn main() -> ExitCode {
    let args = match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Print(text)) => {
            return finish(io::stdout().write_all(text.as_bytes()), ExitCode::SUCCESS);
        }
        Err(error) => {
            eprintln!("timelines: {error}\nTry 'timelines --help' for more information.");
            return ExitCode::from(2);
        }
    };
    let report = match measure(&args) {
        Ok(report) => report,
        Err(error) => return fail(&*error),
    };
    if let Some(directory) = &args.svg
        && let Err(error) = write_pictures(directory, &report)
    {
        return fail(&io::Error::new(error.kind(), format!("{}: {error}", directory.display())));
    }
    let objections = judge::judge(&report);
    let text = if args.json { json::text(&report, &objections) } else { table::text(&report, &objections) };
    let verdict = if args.check && !objections.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    finish(io::stdout().write_all(text.as_bytes()), verdict)
}

fn measure(args: &Args) -> Result<Report, Box<dyn Error>> {
    let mut report = Report { cpu: measure::cpu(), runs: args.runs, timelines: Vec::new(), unguarded: None };
    for timeline in &TIMELINES {
        report.timelines.push((timeline, held(timeline, args)?));
        if args.check && timeline.key == 'b' {
            let bed = Bed::new(timeline, Guards::LeftOut)?;
            report.unguarded = Some(bed.measure(args.runs).makespan);
        }
    }
    Ok(report)
}

/// Measures a timeline with guards. For a check, the first measurement that agrees with the documents counts. Other
/// programs can disturb a measurement, but they cannot make a wrong timeline agree.
fn held(timeline: &Timeline, args: &Args) -> Result<Measured, Box<dyn Error>> {
    let bed = Bed::new(timeline, Guards::Held)?;
    let mut measured = bed.measure(args.runs);
    for _ in 1..if args.check { ATTEMPTS } else { 1 } {
        if judge::objections(timeline, &measured).is_empty() {
            break;
        }
        measured = bed.measure(args.runs);
    }
    Ok(measured)
}

fn write_pictures(directory: &Path, report: &Report) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (timeline, measured) in &report.timelines {
        let path = directory.join(format!("timeline-{}.svg", timeline.key));
        fs::write(&path, svg::picture(timeline, measured, report.runs))?;
        eprintln!("timelines: wrote {}", path.display());
    }
    Ok(())
}

fn finish(written: io::Result<()>, verdict: ExitCode) -> ExitCode {
    match written {
        // If the reader closes the output early, the verdict stays the same.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error),
        _ => verdict,
    }
}

fn fail(error: &dyn Error) -> ExitCode {
    eprint!("timelines: {error}");
    let mut source = error.source();
    while let Some(error) = source {
        eprint!(": {error}");
        source = error.source();
    }
    eprintln!();
    ExitCode::FAILURE
}
