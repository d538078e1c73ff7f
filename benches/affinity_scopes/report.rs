//! The measurements, and the numbers of the tables.

use super::block::BYTES;
use super::placement::Placed;
use super::plan::{Role, Row, Scenario};
use super::stats::{Ratio, Spread};

/// The measurement of one row in one slice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Slice {
    pub(crate) blocks: u64,
    /// The time from the first submission until the window was done.
    pub(crate) seconds: f64,
    /// The part of the time of all CPUs that the process used.
    pub(crate) utilisation: f64,
    pub(crate) placed: Placed,
}

/// The slices of all rows of a scenario, in the order of rounds.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) scenario: Scenario,
    /// The number of rounds of each run.
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<(Row, Vec<Slice>)>,
}

/// The table of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) scenario: Scenario,
    pub(crate) runs: usize,
    pub(crate) lines: Vec<Line>,
}

/// A row in numbers.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) row: Row,
    /// The MiB/s of the runs.
    pub(crate) bandwidth: Spread,
    /// The percentages of the runs.
    pub(crate) utilisation: Spread,
    /// The ratio to the best competing row, or `None` for that row itself.
    pub(crate) to_best: Option<Ratio>,
    /// The ratio to the first row. For the repeated row, this ratio shows the machine's noise.
    pub(crate) to_first: Ratio,
    /// The ratio to the static partition.
    pub(crate) to_limit: Option<Ratio>,
    pub(crate) placed: Placed,
}

impl Slice {
    /// Returns MiB/s.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.blocks as f64 * BYTES as f64 / f64::from(1 << 20) / self.seconds
    }
}

impl Table {
    pub(crate) fn new(measured: &Measured) -> Self {
        let bandwidths: Vec<Vec<f64>> =
            measured.rows.iter().map(|(_, slices)| slices.iter().map(Slice::bandwidth).collect()).collect();
        let rows = || 0..measured.rows.len();
        let against = |row: usize, other: usize| Ratio::of_pairs(&bandwidths[row], &bandwidths[other]);
        let to_first: Vec<Ratio> = rows().map(|row| against(row, 0)).collect();
        let best = rows()
            .filter(|row| measured.rows[*row].0.role == Role::Competes)
            .max_by(|one, other| to_first[*one].estimate.total_cmp(&to_first[*other].estimate));
        let limit = rows().find(|row| measured.rows[*row].0.role == Role::Limit);
        let line = |row: usize| {
            let (of, slices) = &measured.rows[row];
            let runs: Vec<&[Slice]> = slices.chunks(measured.rounds).collect();
            let mut placed = Placed::default();
            slices.iter().for_each(|slice| placed += slice.placed);
            Line {
                row: of.clone(),
                bandwidth: Spread::of(&runs.iter().map(|run| bandwidth_of(run)).collect::<Vec<_>>()),
                utilisation: Spread::of(&runs.iter().map(|run| utilisation_of(run)).collect::<Vec<_>>()),
                to_best: best.filter(|best| *best != row).map(|best| against(row, best)),
                to_first: to_first[row],
                to_limit: limit.filter(|limit| *limit != row).map(|limit| against(row, limit)),
                placed,
            }
        };
        let runs = measured.rows[0].1.len() / measured.rounds;
        Self { scenario: measured.scenario.clone(), runs, lines: rows().map(line).collect() }
    }

    /// Returns the two lines of the finest scope that divides the machine. In the first, items may leave their pod, and
    /// the second is strict.
    pub(crate) fn divided(&self) -> Option<(&Line, &Line)> {
        let strict = self.lines.iter().rev().find(|line| line.row.strict)?;
        let free = self.lines.iter().find(|line| line.row.scope == strict.row.scope && !line.row.strict)?;
        Some((free, strict))
    }
}

/// Returns the bandwidth of a run, which is the number of all blocks divided by the time of all slices.
fn bandwidth_of(run: &[Slice]) -> f64 {
    let whole = Slice {
        blocks: run.iter().map(|slice| slice.blocks).sum(),
        seconds: run.iter().map(|slice| slice.seconds).sum(),
        ..run[0]
    };
    whole.bandwidth()
}

/// Returns the utilisation of a run, in percent.
fn utilisation_of(run: &[Slice]) -> f64 {
    100.0 * run.iter().map(|slice| slice.utilisation).sum::<f64>() / run.len() as f64
}

impl Placed {
    /// Returns the part of the items that started in their pod. Only items for which their pod had room all the time
    /// count.
    pub(crate) fn share(&self) -> Option<f64> {
        let counted = self.home + self.away;
        (counted > 0).then(|| self.home as f64 / counted as f64)
    }
}
