//! Affinity scopes in the three scenarios of the kernel's documentation, measured on this machine.
//!
//! ```text
//! cargo bench --bench affinity_scopes -- --quick
//! cargo bench --bench affinity_scopes -- --topology 'l3:2 core:1 pu:1'
//! cargo bench --bench affinity_scopes -- --help
//! ```
//!
//! An affinity scope divides the CPUs into *pods*, whose CPUs share the workers of a queue. The documentation measures
//! encryption of the data that `fio` writes and verifies. In this bench, an *issuer* is a thread that is bound to a CPU
//! and keeps a window of 32 KiB blocks in flight. It fills blocks with generated content, queues their SHA-512, and
//! sleeps. When a quarter of its window is done, it compares digests and contents, and fills and queues the same blocks
//! again. So worker and issuer touch the same data, which is faster within one cache. There are few different contents,
//! and their digests are known, so comparing is cheap for the issuer. In scenario 3 there are too few blocks to keep
//! all CPUs busy, because each block is with its issuer for a part of the time.
//!
//! | scenario | issuers | window |
//! |---|---|---|
//! | 1 | one on every CPU | 64 blocks |
//! | 2 | on a third of the CPUs, one at least | 64 blocks, which saturates the machine |
//! | 3 | on a sixth of the CPUs, one at least | as many blocks in all as there are CPUs, which are too few |
//!
//! | row | |
//! |---|---|
//! | `system` | one pod |
//! | `cache`, `cache (strict)` | a pod for each last-level cache |
//! | `cpu`, `cpu (strict)` | the smallest scope with two or more pods, if the cache is only one pod |
//! | `system, again` | the first row once more, to show the difference between two equal rows |
//! | `static partition` | the limit, without a queue: a thread on each CPU fills, hashes and compares its blocks |
//!
//! Every row has an executor of its own, and all executors exist at the same time. A *round* gives each row a slice of
//! time, in random order. In each round the issuers run on other CPUs than before, which are the same for all rows. So
//! each CPU takes its turn. Times are taken from the first submission until the window is done, and CPU time is that of
//! the process. A run consists of several rounds, and the tables show five runs. Two rows are compared by the ratios of
//! their slices of the same round. The tables show the geometric mean of the middle half of these ratios, with a 95 %
//! interval by bootstrap. Criterion's report shows each slice as a sample, whose iterations are blocks.
//!
//! *Placement* counts only items whose pod had fewer items than CPUs when they were queued. It shows how many of these
//! items started in their pod. An item that started elsewhere counts against the scope if at that moment its pod still
//! had a CPU with neither an item nor an awake issuer.
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `plan` | scenarios, rows, and the issuers' CPUs in each round |
//! | `machine` | CPUs, the pods of each scope, CPU time |
//! | `block`, `window`, `placement` | contents and digests, blocks in flight, and the places where items start |
//! | `slice`, `measure` | one row for one slice, all rows in turn |
//! | `stats` | means, paired ratios, bootstrap |
//! | `report` | the measurements, as numbers |
//! | `table`, `figures`, `csv`, `svg`, `replay` | output formats, of which `replay` is criterion's |
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod args;
mod block;
mod csv;
mod figures;
mod machine;
mod measure;
mod placement;
mod plan;
mod replay;
mod report;
mod slice;
mod stats;
mod svg;
mod table;
mod window;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use args::{Args, Command};
use machine::Machine;
use report::Table;

fn main() -> ExitCode {
    let args = match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Print(text)) => return finish(io::stdout().write_all(text.as_bytes())),
        Err(error) => {
            eprintln!("affinity_scopes: {error}\nTry 'cargo bench --bench affinity_scopes -- --help'.");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(text) => finish(io::stdout().write_all(text.as_bytes())),
        Err(error) => fail(&*error),
    }
}

/// Does the measurement, writes the files, and returns the text to print.
fn run(args: &Args) -> Result<String, Box<dyn Error>> {
    let machine = Machine::probe(args.topology.as_deref())?;
    let directory = args.out.clone().unwrap_or_else(|| target().join("affinity_scopes"));
    let writes_files = !args.smoke && !args.csv;
    if writes_files {
        // The folder is made before the long measurement, so that an error shows early.
        fs::create_dir_all(&directory).map_err(|error| cannot("make", &directory, &error))?;
    }
    let measured = measure::all(&machine, args)?;
    let tables: Vec<Table> = measured.iter().map(Table::new).collect();
    if !writes_files {
        return Ok(if args.csv { csv::summary(&tables) } else { table::markdown(&tables) });
    }
    replay::report(&measured);
    let about = machine.about(&args.line);
    let mut text = format!("\n{about}\n{}\n{}\n", table::markdown(&tables), figures::text(&tables));
    for (name, content) in [
        ("tables.md", format!("{about}\n{}", table::markdown(&tables))),
        ("tables.csv", csv::summary(&tables)),
        ("slices.csv", csv::slices(&measured)),
        ("tables.svg", svg::picture(&tables)),
    ] {
        let path = directory.join(name);
        fs::write(&path, content).map_err(|error| cannot("write", &path, &error))?;
        text += &format!("wrote {}\n", relative(&path).display());
    }
    Ok(text)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {}: {error}", relative(path).display()))
}

/// Returns the folder to which cargo and criterion write.
fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR");
    named.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from)
}

/// Returns the path relative to the current folder, if the path is below that folder.
fn relative(path: &Path) -> &Path {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}

fn finish(written: io::Result<()>) -> ExitCode {
    match written {
        // If the reader closes the output early, the exit status stays the same.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error),
        _ => ExitCode::SUCCESS,
    }
}

/// Prints an error. The texts of this crate's and of the system's errors contain their causes.
fn fail(error: &dyn Error) -> ExitCode {
    eprintln!("affinity_scopes: {error}");
    ExitCode::FAILURE
}
