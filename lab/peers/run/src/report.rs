//! The failures, their frequency, and whether they were expected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::peer::{Expected, Peer};
use crate::suite::{Kind, Outcome, Suite, Verdict};
use crate::{Failure, Places};

/// How many lines of a failed test's output are shown.
const EXCERPT: usize = 8;
/// The number of runs after which a test does not belong on the list of expected failures, if it has passed in all of
/// them.
const ENOUGH: usize = 10;

/// A peer, and the name of a test.
type Name = (&'static str, String);

#[derive(Default)]
struct Count {
    runs: usize,
    failed: usize,
}

#[derive(Default)]
struct Row {
    managed: Count,
    unbound: Count,
    unfinished: usize,
    ignored: bool,
    /// The log of the last failure.
    log: Option<PathBuf>,
}

impl Row {
    fn failed(&self) -> usize {
        self.managed.failed + self.unbound.failed
    }

    fn runs(&self) -> usize {
        self.managed.runs + self.unbound.runs
    }
}

pub(crate) struct Report {
    expected: BTreeMap<Name, String>,
    rows: BTreeMap<Name, Row>,
}

impl Report {
    pub(crate) fn new(places: &Places, peers: &[&Peer]) -> Result<Self, Failure> {
        let mut expected = BTreeMap::new();
        for peer in peers {
            for Expected { peer, test, reason } in peer.expected(&places.lab)? {
                expected.insert((peer, test), reason);
            }
        }
        Ok(Self { expected, rows: BTreeMap::new() })
    }

    /// Returns an error if a test that is expected to fail does not exist. Documentation examples are not checked,
    /// because they are known only after they have run.
    pub(crate) fn expect_to_exist(&self, suites: &[Suite]) -> Result<(), Failure> {
        let tests: BTreeSet<Name> = suites
            .iter()
            .flat_map(|suite| suite.tests.iter().map(|test| (suite.peer, suite.name(test))))
            .collect();
        let is_example = |name: &Name| name.1.starts_with("published_examples::");
        match self.expected.keys().find(|name| !is_example(name) && !tests.contains(*name)) {
            Some((peer, test)) => Err(format!("{peer} has no test {test}, which is expected to fail").into()),
            None => Ok(()),
        }
    }

    pub(crate) fn add(&mut self, kind: Kind, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            let failed = outcome.failed();
            let row = self.rows.entry((outcome.peer, outcome.test)).or_default();
            let count = match kind {
                Kind::Managed => &mut row.managed,
                Kind::Unbound => &mut row.unbound,
            };
            count.runs += 1;
            count.failed += usize::from(failed);
            row.unfinished += usize::from(outcome.verdict == Verdict::Unfinished);
            row.ignored |= outcome.verdict == Verdict::Ignored;
            if failed {
                row.log = Some(outcome.log);
            }
        }
    }

    pub(crate) fn has_unexpected(&self) -> bool {
        self.unexpected().next().is_some()
    }

    /// Returns whether there is a test that is expected to fail but has passed in all of at least [`ENOUGH`] runs.
    pub(crate) fn is_outdated(&self) -> bool {
        self.surprising().any(|(_, _, row)| row.runs() >= ENOUGH)
    }

    /// Returns the tests that are expected to fail and never failed, with the expected reasons.
    fn surprising(&self) -> impl Iterator<Item = (&Name, &str, &Row)> {
        let row_of = |(name, reason)| Some((name, String::as_str(reason), self.rows.get(name)?));
        self.expected.iter().filter_map(row_of).filter(|(_, _, row)| row.failed() == 0)
    }

    fn unexpected(&self) -> impl Iterator<Item = (&Name, &Row)> {
        self.rows.iter().filter(|(name, row)| row.failed() > 0 && !self.expected.contains_key(*name))
    }

    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24}{:>6}{:>8}{:>8}{:>10}{:>12}",
            "", "tests", "ignored", "passed", "expected", "unexpected"
        )?;
        let peers: BTreeSet<_> = self.rows.keys().map(|(peer, _)| *peer).collect();
        for peer in peers {
            let rows: Vec<_> = self.rows.iter().filter(|((of, _), _)| *of == peer).collect();
            let ignored = rows.iter().filter(|(_, row)| row.ignored).count();
            let failed: Vec<_> = rows.iter().filter(|(_, row)| row.failed() > 0).collect();
            let expected = failed.iter().filter(|(name, _)| self.expected.contains_key(*name)).count();
            let passed = rows.len() - ignored - failed.len();
            let unexpected = failed.len() - expected;
            writeln!(f, "{peer:<24}{:>6}{ignored:>8}{passed:>8}{expected:>10}{unexpected:>12}", rows.len())?;
        }
        Ok(())
    }

    fn failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed: Vec<_> = self.rows.iter().filter(|(_, row)| row.failed() > 0).collect();
        if failed.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:<80}{:>8}{:>8}", "failed", Kind::Managed, Kind::Unbound)?;
        for (name, row) in failed {
            let of = |count: &Count| format!("{}/{}", count.failed, count.runs);
            let (managed, unbound) = (of(&row.managed), of(&row.unbound));
            let test = format!("{} {}", name.0, name.1);
            let reason = match self.expected.get(name) {
                Some(reason) => format!("expected: {reason}"),
                None if row.unfinished > 0 => format!("UNEXPECTED, {} times without an end", row.unfinished),
                None => "UNEXPECTED".to_owned(),
            };
            writeln!(f, "{test:<80}{managed:>8}{unbound:>8}  {reason}")?;
        }
        Ok(())
    }

    fn surprises(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((peer, test), reason, row) in self.surprising() {
            let runs = row.runs();
            let verdict = if runs >= ENOUGH { "OUTDATED: " } else { "" };
            writeln!(f, "\n{verdict}{peer} {test} passed {runs} times, though expected to fail: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary(f)?;
        self.failures(f)?;
        for ((peer, test), row) in self.unexpected() {
            let Some(log) = &row.log else { continue };
            writeln!(f, "\n{peer} {test}, in {}:", log.display())?;
            excerpt(log, test).iter().try_for_each(|line| writeln!(f, "    | {line}"))?;
        }
        self.surprises(f)
    }
}

/// Returns the beginning of a failed test's output, or the end of the log if the log does not have that output.
fn excerpt(log: &Path, test: &str) -> Vec<String> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let is_head =
        |line: &&str| line.starts_with("---- ") && line.contains(test.rsplit("::").next().unwrap_or(test));
    let start = lines.iter().position(is_head).unwrap_or(lines.len().saturating_sub(EXCERPT));
    lines[start..].iter().take(EXCERPT).map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_passes_too_often_does_not_belong_on_the_list() {
        let expected = BTreeMap::from([(("yastl", "a".to_owned()), "it looks at names".to_owned())]);
        let mut report = Report { expected, rows: BTreeMap::new() };
        let run = |report: &mut Report, verdict| {
            let outcome = Outcome { peer: "yastl", test: "a".to_owned(), verdict, log: PathBuf::new() };
            report.add(Kind::Managed, vec![outcome]);
        };
        (1..ENOUGH).for_each(|_| run(&mut report, Verdict::Passed));
        assert!(!report.is_outdated());
        assert!(
            report.to_string().ends_with("a passed 9 times, though expected to fail: it looks at names\n")
        );
        run(&mut report, Verdict::Passed);
        assert!(report.is_outdated() && !report.has_unexpected());
        assert!(report.to_string().contains("\nOUTDATED: yastl a passed 10 times"));
        run(&mut report, Verdict::Failed);
        assert!(!report.is_outdated() && !report.has_unexpected());
    }
}
