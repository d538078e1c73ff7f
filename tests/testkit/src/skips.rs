//! Reports of skipped tests.

use std::fmt;
use std::io::{self, Write as _};
use std::panic::Location;
use std::path::Path;
use std::thread;

/// The environment variable that names the file of skipped tests. Each skipped test adds one line.
pub const SKIPS: &str = "CMWQ_SKIPS";

/// Reports that this test, or the rest of it, is skipped because the machine lacks something. `lack` is the word for
/// what it lacks. `.ci/skips` permits the skip only if `.ci/machine` finds the same lack. The caller must be the test's
/// own thread, because this thread has the name of the test.
#[track_caller]
pub fn skip(lack: &str, because: impl fmt::Display) {
    match thread::current().name() {
        Some(test) if test != "main" => skip_test(test, lack, because),
        _ => skip_test(&Location::caller().to_string(), lack, because),
    }
}

/// Reports that a test is skipped, as [`skip`] does, in a program with its own test harness.
pub fn skip_test(test: &str, lack: &str, because: impl fmt::Display) {
    let test = format!("{}::{test}", program());
    let because = because.to_string().replace('\n', " ");
    // `eprintln!` does not help, because the test harness hides the output of tests that pass.
    let _best_effort = writeln!(io::stderr(), "SKIPPED {test} ({lack}): {because}");
    if let Some(file) = std::env::var_os(SKIPS) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        // One call writes the whole line, because other tests and programs append lines at the same time. A process of
        // another user may lack the permission to write, so an error is ignored.
        let _best_effort =
            file.and_then(|mut file| file.write_all(format!("{test}\t{lack}\t{because}\n").as_bytes()));
    }
}

/// Returns the name of the test program: that of its file, without the hash that cargo adds.
fn program() -> String {
    let own = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&own).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.rsplit_once('-') {
        Some((name, end)) if is_hash(end) => name.to_owned(),
        _ => name,
    }
}
