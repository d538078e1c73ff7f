//! Helpers that all test programs and the unit tests share: skipping a test, running programs, waiting for conditions,
//! and a logger that keeps its lines.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]
#![allow(dead_code, reason = "most test programs need a part of it")]

use std::fmt;
use std::io::{self, Read, Write};
use std::panic::Location;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The environment variable that names the file of skipped tests. Each skipped test adds one line.
pub(crate) const SKIPS: &str = "CMWQ_SKIPS";

/// Longer than any program that a test waits for runs, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Reports that this test, or the rest of it, is skipped because the machine lacks something. `lack` is the word for
/// it: `.ci/skips` permits the skip if `.ci/machine` finds the same lack.
/// Must be called on the test's own thread, because the thread's name is the name of the test.
#[track_caller]
pub(crate) fn skip(lack: &str, because: impl fmt::Display) {
    let program = env!("CARGO_CRATE_NAME");
    let test = match thread::current().name() {
        Some(test) if test != "main" => format!("{program}::{test}"),
        _ => format!("{program}, {}", Location::caller()),
    };
    let because = because.to_string().replace('\n', " ");
    // `eprintln!` would not do: the test harness hides the output of tests that pass.
    let _best_effort = writeln!(io::stderr(), "SKIPPED {test} ({lack}): {because}");
    if let Some(file) = std::env::var_os(SKIPS) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        // One call writes the whole line, because other tests and programs append at the same time. A process of
        // another user may lack the permission.
        let _best_effort =
            file.and_then(|mut file| file.write_all(format!("{test}\t{lack}\t{because}\n").as_bytes()));
    }
}

/// The emulator that runs this program, if there is one: a command and its arguments. `tests/cross/run` sets the
/// variable.
pub(crate) fn emulator() -> Option<String> {
    std::env::var("CMWQ_EMULATOR").ok()
}

/// A command that starts this test program once more, through the emulator if there is one.
pub(crate) fn itself() -> Command {
    let own = std::env::current_exe().expect("a program has a path");
    let Some(emulator) = emulator() else { return Command::new(own) };
    let mut words = emulator.split(' ');
    let mut command = Command::new(words.next().expect("there is one word at least"));
    command.args(words).arg(own);
    command
}

/// Runs a program to its end and returns its output. A program that hangs is killed.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child, PATIENCE)?;
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().expect("a reader does not panic"));
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes)).map(|_| bytes)
    })
}

/// Waits for the end of a program, and kills it after `patience`.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> io::Result<std::process::ExitStatus> {
    let end = Instant::now() + patience;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if Instant::now() > end => {
                child.kill()?;
                return child.wait();
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A generous limit for events that happen at once on a quiet machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Polls until `condition` holds. Returns false if it does not within `patience`.
pub(crate) fn holds_within(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Polls until `condition` holds, and panics if it does not soon.
#[track_caller]
pub(crate) fn eventually(what: impl fmt::Display, condition: impl FnMut() -> bool) {
    assert!(holds_within(SOON, condition), "this never happened: {what}");
}

/// A logger that keeps the lines of the crate, with their levels. A process has one logger.
pub(crate) struct Lines(Mutex<Vec<(log::Level, String)>>);

pub(crate) static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl Lines {
    /// Installs this logger, which from now on keeps the lines of this level and of more severe ones.
    pub(crate) fn keep(&'static self, level: log::LevelFilter) {
        log::set_logger(self).expect("this process has no other logger");
        log::set_max_level(level);
    }

    /// Returns the lines of this level.
    pub(crate) fn of(&self, level: log::Level) -> Vec<String> {
        self.lock().iter().filter(|(of, _)| *of == level).map(|(_, line)| line.clone()).collect()
    }

    /// Returns the lines of this level that contain all of these words.
    pub(crate) fn with(&self, level: log::Level, words: &[&str]) -> Vec<String> {
        let mut lines = self.of(level);
        lines.retain(|line| words.iter().all(|word| line.contains(word)));
        lines
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(log::Level, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target() == "cmwq" {
            self.lock().push((record.level(), record.args().to_string()));
        }
    }

    fn flush(&self) {}
}
