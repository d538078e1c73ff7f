//! The changes of operations since they were recorded.

use serde::Serialize;

use crate::callgrind::Counts;
use crate::case::Case;
use crate::record::Record;
use crate::toolchain::Toolchain;

/// The least difference that is reported for any operation, because the compiler may move an instruction.
const LEAST: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Same,
    /// The operation takes so many instructions less that its count should be recorded. Otherwise the gain could be
    /// lost again unnoticed.
    Less,
    TooMany,
    /// The operation was not recorded.
    New,
}

impl Verdict {
    pub(crate) fn of(now: f64, recorded: Option<f64>, bound: f64) -> Self {
        let Some(recorded) = recorded else { return Self::New };
        let allowed = (recorded * bound / 100.0).max(LEAST);
        if now > recorded + allowed {
            Self::TooMany
        } else if now < recorded - allowed {
            Self::Less
        } else {
            Self::Same
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) operation: String,
    pub(crate) definition: &'static str,
    pub(crate) recorded: Option<f64>,
    pub(crate) now: f64,
    pub(crate) difference_percent: Option<f64>,
    pub(crate) bound_percent: f64,
    pub(crate) verdict: Verdict,
    pub(crate) rounds: Vec<f64>,
    /// The functions with the most instructions, the largest number first. Empty if no profile is requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) functions: Vec<(String, f64)>,
}

impl Row {
    fn new(case: &Case, counts: Counts, record: Option<&Record>, bound: Option<f64>) -> Self {
        let (operation, now) = (case.name(), median(&counts.rounds));
        let bound = case.bound(bound);
        let recorded = record.and_then(|record| record.instructions.get(&operation).copied());
        Self {
            operation,
            definition: case.definition,
            recorded,
            now,
            difference_percent: recorded.map(|recorded| 100.0 * (now - recorded) / recorded),
            bound_percent: bound,
            verdict: Verdict::of(now, recorded, bound),
            rounds: counts.rounds,
            functions: counts.functions,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) toolchain: Toolchain,
    /// The differences from the record's toolchain. If there are any, higher counts may not come from the sources.
    pub(crate) differences: Vec<String>,
    pub(crate) operations: Vec<Row>,
}

impl Report {
    pub(crate) fn new(
        counts: Vec<(&Case, Counts)>,
        record: Option<Record>,
        now: Toolchain,
        bound: Option<f64>,
    ) -> Self {
        let row = |(case, counts): (&Case, Counts)| Row::new(case, counts, record.as_ref(), bound);
        Self {
            operations: counts.into_iter().map(row).collect(),
            differences: record.as_ref().map_or(Vec::new(), |record| now.differences(&record.toolchain)),
            toolchain: now,
        }
    }

    pub(crate) fn is_well(&self) -> bool {
        !self.differences.is_empty() || self.with(Verdict::TooMany) == 0
    }

    pub(crate) fn with(&self, verdict: Verdict) -> usize {
        self.operations.iter().filter(|row| row.verdict == verdict).count()
    }
}

/// Returns the median of the rounds, of which there must be at least one.
pub(crate) fn median(rounds: &[f64]) -> f64 {
    let mut rounds = rounds.to_vec();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::case::CASES;
    use crate::toolchain::example;

    #[test]
    fn more_than_the_bound_is_too_many() {
        for (now, recorded, expected) in [
            (104.9, 100.0, Verdict::Same),
            (105.1, 100.0, Verdict::TooMany),
            (95.1, 100.0, Verdict::Same),
            (94.9, 100.0, Verdict::Less),
            // Five per cent of this small count are less than an instruction.
            (12.0, 10.0, Verdict::Same),
            (12.1, 10.0, Verdict::TooMany),
        ] {
            assert_eq!(Verdict::of(now, Some(recorded), 5.0), expected, "{now} after {recorded}");
        }
        assert_eq!(Verdict::of(12.0, None, 5.0), Verdict::New);
    }

    #[test]
    fn a_single_round_that_differs_does_not_count() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[3.0, 900.0, 2.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 3.0);
    }

    fn report(now: f64, toolchain: Toolchain) -> Report {
        bounded(now, toolchain, None)
    }

    fn bounded(now: f64, toolchain: Toolchain, bound: Option<f64>) -> Report {
        let instructions = BTreeMap::from([(CASES[0].name(), 200.0)]);
        let record = Record { toolchain: example(), instructions };
        let counts = |count| Counts { rounds: vec![count], functions: Vec::new() };
        Report::new(vec![(&CASES[0], counts(now)), (&CASES[1], counts(7.0))], Some(record), toolchain, bound)
    }

    #[test]
    fn too_many_fail_with_the_same_toolchain_only() {
        assert!(report(200.0, example()).is_well(), "a new operation does not fail");
        let slow = report(250.0, example());
        assert!(!slow.is_well());
        assert_eq!(slow.operations[0].difference_percent, Some(25.0));
        assert_eq!((slow.with(Verdict::TooMany), slow.with(Verdict::New)), (1, 1));
        assert!(report(205.0, example()).is_well() && !bounded(205.0, example(), Some(2.0)).is_well());
        let other = report(250.0, Toolchain { libc: "glibc 2.41".into(), ..example() });
        assert!(other.is_well());
        assert_eq!(other.differences.len(), 1);
    }
}
