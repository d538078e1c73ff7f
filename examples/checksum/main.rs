//! Prints the SHA-512 of every regular file under the given paths, in path order, exactly as `sha512sum` prints them.
//!
//! ```text
//! cargo run --release --example checksum -- /usr/share/doc > a
//! find /usr/share/doc -type f -print0 | LC_ALL=C sort -z | xargs -0 sha512sum > b
//! cmp a b
//! ```
//!
//! This example shows that one item can both block and compute, in code as plain as that of a thread of its own. Reads
//! are under [`cmwq::blocking`]. While one item waits for the disk, another item uses the CPU, and no more items
//! compute than there are CPUs. The program chooses no number of threads.
//!
//! | module | |
//! |---|---|
//! | `args` | the command line |
//! | `walk` | the files in order, reading only the necessary part of the tree |
//! | `hash` | the item that hashes one file |
//! | `pipeline` | many items in flight, results in order |
//! | `check` | `-c` |
//! | `names` | names in listings and messages, in the format of GNU's tools |
//! | `screen` | standard output, messages, the progress bar |
//! | `report` | `--threads-report` |
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod args;
mod check;
mod hash;
mod names;
mod pipeline;
mod report;
mod screen;
mod walk;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use args::{Args, Command};
use cmwq::{Executor, WorkQueue};
use hash::{Hashed, Hasher};
use report::Sampler;
use screen::{Progress, Screen};

/// The status that a shell reports for a program that SIGPIPE has ended. Rust programs ignore SIGPIPE.
const BROKEN_PIPE: u8 = 128 + 13;

fn main() -> ExitCode {
    let args = match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Print(text)) => return print(&text),
        Err(error) => {
            eprintln!("checksum: {error}\nTry 'checksum --help' for more information.");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of the output has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            eprintln!("checksum: write error: {}", screen::reason(&error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the program, and returns true on success. A returned error is an error of standard output. All other errors are
/// printed as messages.
fn run(args: &Args) -> io::Result<bool> {
    let sampler = args.threads_report.then(Sampler::start);
    let progress = Arc::new(Progress::new());
    let mut screen = Screen::new(Arc::clone(&progress));
    let files = Executor::global().cpus().len() + hash::MAX_WAITING_FILES;
    // A queue may have at most 512 active items.
    let queue = WorkQueue::builder("checksum").max_active_total(files.min(512)).build();
    let queue = queue.expect("the name is not empty, and the limit is valid");
    let hasher = Hasher::new(Arc::clone(&progress));

    let good = if args.check {
        check::check(args, &queue, &hasher, &mut screen)?
    } else {
        progress.count(&args.paths);
        list(&args.paths, &queue, &hasher, &mut screen)?
    };

    screen.flush()?;
    progress.finish();
    if let Some(sampler) = sampler {
        eprint!("{}", sampler.finish(progress.files(), progress.bytes()));
    }
    Ok(good)
}

/// Prints the checksum of every regular file under `paths`.
fn list(paths: &[PathBuf], queue: &WorkQueue, hasher: &Hasher, screen: &mut Screen) -> io::Result<bool> {
    let mut good = true;
    let jobs = walk::files(paths).map(|found| {
        let hasher = hasher.clone();
        move || match found {
            Ok(path) => hasher.hash(path),
            Err((path, error)) => Hashed { path, digest: Err(error) },
        }
    });
    pipeline::in_order(queue, jobs, screen, |screen, hashed| {
        match hashed.digest {
            Ok(digest) => screen.print(&names::listing_line(&hex(&digest), &hashed.path)),
            Err(error) => {
                good = false;
                screen.file_error(&hashed.path, &error);
            }
        }
        screen.file_done()
    })?;
    Ok(good)
}

fn hex(digest: &hash::Digest) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(BROKEN_PIPE),
    }
}
