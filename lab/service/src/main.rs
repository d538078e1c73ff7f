//! One HTTP service whose background work runs on cmwq, on tokio's blocking pool, or on rayon, under overload.
//!
//! ```text
//! cargo run --release -- --quick
//! cargo run --release -- --engine cmwq --engine rayon --rounds 3
//! cargo run --release -- --write ../../docs/service.md
//! cargo run --release -- --check                              # fails if a figure is missed
//! cargo run --release -- serve --engine cmwq --hashes 100     # only the service, until its input ends
//! ```
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `setup` | the amounts: work, limits, rates, times |
//! | `work` | the computation and the blocking of a request |
//! | `engine` | the engines: each admits the same requests, and runs the same work |
//! | `serve` | the service, a process of its own |
//! | `load`, `http` | the load generator, a process of its own |
//! | `roundtrip` | the time to await an empty item, in a process of its own |
//! | `run` | rounds of these processes, in which the engines take turns |
//! | `report`, `page` | the results, their figures, and the page with its charts |

mod args;
mod engine;
mod http;
mod load;
mod page;
mod report;
mod roundtrip;
mod run;
mod serve;
mod setup;
mod work;

use std::error::Error;
use std::process::ExitCode;

use args::{Args, Role};
use testkit::conditions::Begin;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let role = match Role::parse(lexopt::Parser::from_env()) {
        Ok(role) => role,
        Err(error) => {
            eprintln!("service-lab: {error}\nTry 'service-lab --help' for more information.");
            return ExitCode::from(2);
        }
    };
    let done = match role {
        Role::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
        Role::Measure(args) => measure(&args),
        Role::Serve(task) => serve::serve(&task),
        Role::Load(task) => load::load(&task),
        Role::Roundtrip(task) => roundtrip::roundtrip(&task),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("service-lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<(), Failure> {
    let begin = Begin::now();
    if let Some(file) = &args.write {
        page::prepare(file)?;
    }
    let report = run::measure(args)?;
    let about = page::about(args, &report, begin);
    print!("{}", page::plain(&about, &report));
    if let Some(file) = &args.write {
        page::write(file, &about, &report)?;
    }
    let missed = report.missed();
    if args.check && !missed.is_empty() {
        return Err(format!("missed: {}", missed.join("; ")).into());
    }
    Ok(())
}
