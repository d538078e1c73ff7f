//! A compiled test program: its tests, and one run of it.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::peer::{self, Peer};
use crate::{Failure, Places};

/// The time limit of a run, which is several times as long as the sleeps of the slowest suite.
const LIMIT: Duration = Duration::from_secs(300);

/// The number of tests that run at the same time. Tests mostly sleep, so all of them do, as on a machine with many
/// CPUs.
const TEST_THREADS: &str = "64";

/// The kind of queues that the shims use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Managed,
    Unbound,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Managed => "managed",
            Self::Unbound => "unbound",
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    Ignored,
    /// The program ended, or was killed, before the test had a result.
    Unfinished,
}

/// The result of one test in one run.
pub(crate) struct Outcome {
    pub(crate) peer: &'static str,
    pub(crate) test: String,
    pub(crate) verdict: Verdict,
    pub(crate) log: PathBuf,
}

impl Outcome {
    pub(crate) fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed | Verdict::Unfinished)
    }
}

/// A test program.
pub(crate) struct Suite {
    pub(crate) peer: &'static str,
    /// The test file, or `None` for the unit tests.
    file: Option<String>,
    program: PathBuf,
    pub(crate) tests: Vec<String>,
}

/// Builds the test programs of some peers.
pub(crate) fn build(places: &Places, peers: &[&Peer]) -> Result<Vec<Suite>, Failure> {
    let mut cargo = cargo_test(places, peers);
    cargo.args(["--lib", "--tests", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the shims do not compile with the published tests".into());
    }
    let mut suites = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        if let Some(program) = message["executable"].as_str() {
            suites.push(Suite::of(&message, PathBuf::from(program))?);
        }
    }
    suites.retain(|suite| !suite.tests.is_empty());
    Ok(suites)
}

/// Returns an error if the programs of a peer have fewer or more tests than [`Peer::count`].
pub(crate) fn expect_all(peers: &[&Peer], suites: &[Suite]) -> Result<(), Failure> {
    for peer in peers {
        let of_peer = suites.iter().filter(|suite| suite.peer == peer.name);
        let found: usize = of_peer.map(|suite| suite.tests.len()).sum();
        if found != peer.count {
            return Err(format!("{} has {found} tests, and not {}", peer.name, peer.count).into());
        }
    }
    Ok(())
}

fn cargo_test(places: &Places, peers: &[&Peer]) -> Command {
    let mut cargo = crate::cargo();
    cargo.args(["test", "--locked"]).args(peers.iter().flat_map(|peer| ["-p", peer.name]));
    cargo.arg("--manifest-path").arg(places.home.join("Cargo.toml"));
    // The published tests are old, so lints are off.
    cargo.env("RUSTFLAGS", "--cap-lints=allow").env("CARGO_TARGET_DIR", places.home.join("target"));
    cargo
}

impl Suite {
    fn of(message: &Value, program: PathBuf) -> Result<Self, Failure> {
        let manifest = Path::new(message["manifest_path"].as_str().ok_or("a program has a manifest")?);
        let folder = manifest.parent().and_then(Path::file_name).ok_or("a manifest is in a folder")?;
        let peer = peer::find(&folder.to_string_lossy())?.name;
        let is_test = message["target"]["kind"][0] == "test";
        let file = is_test.then(|| message["target"]["name"].as_str().unwrap_or_default().to_owned());
        let output = Command::new(&program).args(["--list", "--format=terse"]).output()?;
        let mut suite = Self { peer, file, program, tests: Vec::new() };
        let list = String::from_utf8(output.stdout)?;
        suite.tests =
            list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
        Ok(suite)
    }

    /// Returns the name of a test among all tests of the peer.
    pub(crate) fn name(&self, test: &str) -> String {
        match &self.file {
            Some(file) => format!("{file}::{test}"),
            None => test.to_owned(),
        }
    }

    pub(crate) fn run(&self, places: &Places, kind: Kind, number: usize) -> Result<Vec<Outcome>, Failure> {
        let file = self.file.as_deref().unwrap_or("unit");
        let log = places.home.join("logs").join(format!("{}-{file}-{number}.log", self.peer));
        let results = log.with_extension("results");
        let output = File::create(&log)?;
        let mut child = Command::new(&self.program)
            .arg(format!("--test-threads={TEST_THREADS}"))
            // On standard output, the results would be mixed with the output of items.
            .arg("--logfile")
            .arg(&results)
            .env("PEERS_QUEUE", kind.to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        wait(&mut child)?;
        let results = fs::read_to_string(&results)?;
        let outcome = |test: &String| {
            let verdict = results.lines().find_map(|line| verdict(line, test)).unwrap_or(Verdict::Unfinished);
            Outcome { peer: self.peer, test: self.name(test), verdict, log: log.clone() }
        };
        Ok(self.tests.iter().map(outcome).collect())
    }
}

/// Returns the verdict in a line of the results, if the line is about `test`. Such a line ends with the test's name.
/// The words before the name may be the last line of a message.
fn verdict(line: &str, test: &str) -> Option<Verdict> {
    let word = line.strip_suffix(test)?.strip_suffix(' ')?;
    Some(match word {
        "ok" => Verdict::Passed,
        _ if word.starts_with("ignored") => Verdict::Ignored,
        _ => Verdict::Failed,
    })
}

/// Waits for the program to end, and kills it at the limit.
fn wait(child: &mut Child) -> Result<(), Failure> {
    let end = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() {
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Runs the examples of the documentation.
pub(crate) fn run_docs(places: &Places, peers: &[&Peer]) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::new();
    for peer in peers {
        let output = cargo_test(places, &[peer]).args(["--doc", "--no-fail-fast"]).output()?;
        let log = places.home.join("logs").join(format!("{}-docs.log", peer.name));
        let text = String::from_utf8_lossy(&output.stdout);
        fs::write(&log, [&output.stdout[..], &output.stderr[..]].concat())?;
        if !text.contains("test result: ") {
            return Err(format!("the examples of {} did not run: see {}", peer.name, log.display()).into());
        }
        outcomes.extend(text.lines().filter_map(example).map(|(test, verdict)| Outcome {
            peer: peer.name,
            test,
            verdict,
            log: log.clone(),
        }));
    }
    Ok(outcomes)
}

/// Returns the name and the result of an example, if the line is about one.
fn example(line: &str) -> Option<(String, Verdict)> {
    let (name, result) =
        line.strip_prefix("test ")?.split_once("/src/published_examples.rs - ")?.1.rsplit_once(" ... ")?;
    let verdict = match result {
        "ok" => Verdict::Passed,
        "ignored" => Verdict::Ignored,
        _ => Verdict::Failed,
    };
    Some((name.to_owned(), verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_results_is_about_the_test_that_it_ends_with() {
        assert_eq!(verdict("ok tests::one", "tests::one"), Some(Verdict::Passed));
        assert_eq!(verdict("ok tests::one", "one"), None);
        assert_eq!(verdict("failed tests::one", "tests::one"), Some(Verdict::Failed));
        assert_eq!(
            verdict("failed: note: it did not panic as expected tests::one", "tests::one"),
            Some(Verdict::Failed)
        );
        assert_eq!(verdict("ignored: it takes long tests::one", "tests::one"), Some(Verdict::Ignored));
    }

    #[test]
    fn a_peer_without_its_tests_is_an_error() {
        let peers = [peer::find("yastl").unwrap(), peer::find("threadpool").unwrap()];
        let suite = |peer: &'static str, tests: usize| {
            let tests = (0..tests).map(|n| n.to_string()).collect();
            Suite { peer, file: None, program: PathBuf::new(), tests }
        };
        let complete = [suite("threadpool", 21), suite("yastl", 10), suite("yastl", 5)];
        expect_all(&peers, &complete).unwrap();
        for (suites, error) in [
            (&complete[..1], "yastl has 0 tests, and not 15"),
            (&complete[..2], "yastl has 10 tests, and not 15"),
            (&complete[1..], "threadpool has 0 tests, and not 21"),
        ] {
            assert_eq!(expect_all(&peers, suites).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn an_example_has_a_name_and_a_verdict() {
        let line = "test yastl/src/published_examples.rs - published_examples::example_0 (line 5) ... ok";
        let name = "published_examples::example_0 (line 5)".to_owned();
        assert_eq!(example(line), Some((name, Verdict::Passed)));
        assert_eq!(example("test result: ok. 1 passed"), None);
    }
}
