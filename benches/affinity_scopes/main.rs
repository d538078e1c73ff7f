//! Affinity scopes on an issuer's workload: the three scenarios of the kernel's documentation, measured on this
//! machine.
//!
//! ```text
//! cargo bench --bench affinity_scopes -- --quick
//! cargo bench --bench affinity_scopes -- --topology 'l3:2 core:1 pu:1'
//! cargo bench --bench affinity_scopes -- --help
//! ```
//!
//! The documentation encrypts the data that `fio` writes and verifies. In this bench, an *issuer* is a thread bound to
//! a CPU that keeps a window of 32 KiB blocks in flight. It fills a block with generated content, queues its SHA-512,
//! and sleeps. When a quarter of its window is done, it compares digests and contents, and fills and queues the same
//! blocks again. So worker and issuer touch the same data, which is faster within one cache. There are few different
//! contents with known digests, so comparing is cheap for the issuer.
//!
//! | scenario | issuers | window |
//! |---|---|---|
//! | 1 | one on every CPU | 64 blocks |
//! | 2 | on a third of the CPUs, one at least | 64 blocks, which saturates the machine |
//! | 3 | on a sixth of the CPUs, one at least | as many blocks in all as there are CPUs: too few, because the issuer has each block part of the time |
//!
//! | row | |
//! |---|---|
//! | `system` | one pod |
//! | `cache`, `cache (strict)` | a pod for each last-level cache |
//! | `cpu`, `cpu (strict)` | if the cache is only one pod: the smallest scope with two or more |
//! | `system, again` | the first row once more, to show the difference between two equal rows |
//! | `static partition` | no queue: the same blocks, divided among CPUs, each with a thread that fills, hashes and compares. This is the limit |
//!
//! Every row has an executor of its own, and all exist at once. A *round* gives each row a slice of time, in random
//! order. From round to round the issuers change their CPUs, alike for all rows, so that each CPU takes its turn. Times
//! are taken from the first submission until the window is done; CPU time is that of the process. A run consists of
//! several rounds, and the tables show five runs. Rows are compared by the ratios of their slices of one round: the
//! geometric mean of the middle half of them, with a 95 % interval by bootstrap. Criterion's report shows each slice as
//! a sample; its iteration is one block.
//!
//! *Placement* looks at items whose pod had a CPU without a known item when they were queued. It shows how many of
//! those started in their pod. An item that started elsewhere counts against the scope if its pod still had a CPU with
//! neither an item nor an awake issuer.
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `plan` | scenarios, rows, and the issuers' CPUs in each round |
//! | `machine` | CPUs, the pods of each scope, CPU time |
//! | `block`, `window`, `placement` | the workload: contents and digests, blocks in flight, places where items start |
//! | `slice`, `measure` | one row for one slice, all rows in turn |
//! | `stats` | means, paired ratios, bootstrap |
//! | `report` | the measurements, as numbers |
//! | `table`, `figures`, `csv`, `svg`, `replay` | output formats; the last one is criterion's |
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

/// Measures, writes the files, and returns the text to print.
fn run(args: &Args) -> Result<String, Box<dyn Error>> {
    let machine = Machine::probe(args.topology.as_deref())?;
    let directory = args.out.clone().unwrap_or_else(|| target().join("affinity_scopes"));
    let writes_files = !args.smoke && !args.csv;
    if writes_files {
        // The folder is made before the measurement, which takes long.
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

/// Returns the folder to which cargo, and so criterion, writes.
fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR");
    named.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from)
}

/// Returns the path relative to the current folder, if it is below that.
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

/// Prints an error. Errors of this crate and of the system name their causes themselves.
fn fail(error: &dyn Error) -> ExitCode {
    eprintln!("affinity_scopes: {error}");
    ExitCode::FAILURE
}
