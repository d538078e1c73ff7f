//! Debounced saves: a document is written to its file when it has not changed for a while, and not at each change.
//!
//! ```text
//! cargo run --release --example delayed                           # plays three bursts of typing
//! cargo run --release --example delayed -- --quiet 200 notes.txt  # saves after 200 ms without a change
//! some-log | cargo run --release --example delayed -- log.txt     # appends the lines of a pipe
//! ```
//!
//! Each change calls `reschedule`, which moves the pending save to a later time. The last change of a burst is never
//! lost, because the save sees all changes that were made before each of the calls. At the end, `flush` runs the
//! pending save immediately, even if the input has failed. If the last save fails, the program fails. A periodic item
//! reports the progress.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

use std::error::Error;
use std::fs;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmwq::{QueueError, Work, WorkQueue, blocking};

const HELP: &str = "usage: delayed [--quiet MILLISECONDS] [FILE]

Appends lines to a document and saves it to FILE (default: notes.txt in a temporary directory) once it has not
changed for 100 ms, or as many as given. Lines come from standard input; at a terminal, a script is played.";

struct Args {
    quiet: Duration,
    file: PathBuf,
}

/// A document and its file.
struct Document {
    lines: Mutex<Vec<String>>,
    file: PathBuf,
    changes: AtomicUsize,
    saves: AtomicUsize,
    /// The error of the last save, or `None` if that save succeeded.
    failure: Mutex<Option<io::Error>>,
}

impl Document {
    /// Writes a new file and renames it over the old file, so that a complete file exists at every moment. Returns the
    /// number of bytes.
    fn save(&self) -> io::Result<usize> {
        let mut text = self.lines.lock().unwrap().join("\n");
        text.push('\n');
        let new = self.file.with_extension("new");
        blocking(|| fs::write(&new, &text).and_then(|()| fs::rename(&new, &self.file)))?;
        self.saves.fetch_add(1, Relaxed);
        Ok(text.len())
    }
}

fn main() -> ExitCode {
    let args = match parse() {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("delayed: {error}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match edit(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("delayed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Args>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut args = Args {
        quiet: Duration::from_millis(100),
        file: std::env::temp_dir().join(format!("cmwq-delayed-{}", std::process::id())).join("notes.txt"),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quiet") => args.quiet = Duration::from_millis(parser.value()?.parse()?),
            Long("help") | Short('h') => return Ok(None),
            Value(file) => args.file = file.into(),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(args))
}

fn edit(args: &Args) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = args.file.parent().filter(|folder| *folder != Path::new("")) {
        fs::create_dir_all(folder)?;
    }
    let document = Arc::new(Document {
        lines: Mutex::default(),
        file: args.file.clone(),
        changes: AtomicUsize::new(0),
        saves: AtomicUsize::new(0),
        failure: Mutex::default(),
    });
    let queue = WorkQueue::new("documents");
    let begun = Instant::now();
    let save = {
        let document = Arc::clone(&document);
        Work::new(move || {
            let saved = document.save();
            match &saved {
                Ok(bytes) => println!("{:6} ms  saved {bytes} bytes", begun.elapsed().as_millis()),
                Err(error) => eprintln!("{}: {error}", document.file.display()),
            }
            *document.failure.lock().unwrap() = saved.err();
        })
    };
    let report = {
        let document = Arc::clone(&document);
        queue
            .item(move || {
                println!(
                    "{:6} ms  {} changes so far",
                    begun.elapsed().as_millis(),
                    document.changes.load(Relaxed)
                );
            })
            .spawn_every(Duration::from_secs(1))?
    };
    let change = |line: String| {
        document.lines.lock().unwrap().push(line);
        document.changes.fetch_add(1, Relaxed);
        queue.item(&save).after(args.quiet).reschedule().map(drop)
    };
    let input = change_by_input(change);
    // A pending save runs now. It also saves the changes that came before an error of the input.
    save.flush()?;
    report.cancel_and_wait()?;
    let (changes, saves) = (document.changes.load(Relaxed), document.saves.load(Relaxed));
    println!("{changes} changes, {saves} saves of {}", args.file.display());
    let failure = document.failure.lock().unwrap().take();
    match failure {
        Some(error) => Err(format!("the last save has failed: {error}").into()),
        None => input,
    }
}

/// Calls `change` with each line of the input, or plays a script at a terminal.
fn change_by_input(change: impl Fn(String) -> Result<(), QueueError>) -> Result<(), Box<dyn Error>> {
    if io::stdin().is_terminal() {
        for (words, pause) in [("the quick brown fox", 400), ("jumps over", 900), ("the lazy dog", 0)] {
            for word in words.split(' ') {
                change(word.to_owned())?;
                std::thread::sleep(Duration::from_millis(25));
            }
            std::thread::sleep(Duration::from_millis(pause));
        }
    } else {
        for line in io::stdin().lock().lines() {
            change(line?)?;
        }
    }
    Ok(())
}
