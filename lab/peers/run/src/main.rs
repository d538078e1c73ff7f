//! Runs the tests of published pools over cmwq, unchanged.
//!
//! ```text
//! make lab-peers RUNS=3
//! cargo run --manifest-path lab/peers/Cargo.toml -p peers -- --runs 1 --load 0 threadpool yastl
//! ```
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `peer` | the pools, the chosen tests, and the tests that are expected to fail |
//! | `assemble` | shims and published tests, put together below `target/peers` |
//! | `published` | finds tests and examples in a published source |
//! | `suite` | a compiled test program: its tests, and one run of it |
//! | `load` | threads that keep the CPUs busy during the runs |
//! | `report` | the failures, their frequency, and whether they were expected |

mod args;
mod assemble;
mod load;
mod peer;
mod published;
mod report;
mod suite;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use args::Args;
use load::Load;
use report::Report;
use suite::{Kind, Suite};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let done = match Args::parse(lexopt::Parser::from_env()) {
        Ok(Some(args)) => run(&args),
        Ok(None) => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("peers: {error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns the cargo that runs this program, or otherwise the cargo in the search path.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The folders that this program uses.
struct Places {
    /// The folder of the shims, `lab/peers`.
    lab: PathBuf,
    /// The folder of the assembled packages, cargo's output, and the logs.
    home: PathBuf,
}

impl Places {
    fn find() -> Result<Self, Failure> {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        // The manifests name the library by `../../..`. This path is right in both folders, which are equally deep.
        let home = lab.join("../../target").join("peers");
        std::fs::create_dir_all(home.join("logs"))?;
        Ok(Self { lab, home: home.canonicalize()? })
    }
}

/// Runs all tests and prints the table. Returns true if all failures were expected, and no expected failure is
/// outdated.
fn run(args: &Args) -> Result<bool, Failure> {
    let places = Places::find()?;
    let mut report = Report::new(&places, &args.peers)?;
    assemble::assemble(&places, &args.peers)?;
    let suites = suite::build(&places, &args.peers)?;
    suite::expect_all(&args.peers, &suites)?;
    report.expect_to_exist(&suites)?;
    if args.docs {
        eprintln!("documentation tests, once");
        report.add(Kind::Managed, suite::run_docs(&places, &args.peers)?);
    }
    let load = Load::start(args.load);
    for number in 1..=args.runs {
        let kind = if number % 2 == 1 { Kind::Managed } else { Kind::Unbound };
        let outcomes = run_all(&places, &suites, kind, number)?;
        let failed = outcomes.iter().filter(|outcome| outcome.failed()).count();
        eprintln!("run {number} of {}, on {kind} queues: {failed} of {} failed", args.runs, outcomes.len());
        report.add(kind, outcomes);
    }
    drop(load);
    print!("{report}");
    Ok(!report.has_unexpected() && !report.is_outdated())
}

/// Runs each suite once. All suites run at the same time, because their tests mostly sleep.
fn run_all(
    places: &Places,
    suites: &[Suite],
    kind: Kind,
    number: usize,
) -> Result<Vec<suite::Outcome>, Failure> {
    let runs: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            suites.iter().map(|suite| scope.spawn(move || suite.run(places, kind, number))).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends by its result")).collect()
    });
    let mut outcomes = Vec::new();
    for run in runs {
        outcomes.extend(run?);
    }
    Ok(outcomes)
}
