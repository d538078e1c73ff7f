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

pub(crate) fn main() -> ExitCode {
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
