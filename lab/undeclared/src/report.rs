//! All measurements.

use crate::figure::{Offenders, Outcome, Value};
use crate::figures::Figure;
use crate::mode::Mode;

pub(crate) struct Report {
    pub(crate) cpus: usize,
    pub(crate) quick: bool,
    /// The requested modes, including those that the system does not permit.
    pub(crate) modes: Vec<Mode>,
    pub(crate) denied: Vec<(Mode, String)>,
    /// The percentage of all CPU time that other programs used, if the system reports it.
    pub(crate) others: Option<f64>,
    pub(crate) figures: Vec<&'static Figure>,
    /// The name of a figure, a mode, and the figure's outcome in that mode.
    pub(crate) outcomes: Vec<(&'static str, Mode, Outcome)>,
}

impl Report {
    /// Returns the values of a figure in a mode. There are none if the figure was not measured in that mode.
    pub(crate) fn values(&self, figure: &Figure, mode: Mode) -> &[Value] {
        let found = self.outcomes.iter().find(|(name, of, _)| *name == figure.name && *of == mode);
        found.map_or(&[], |(_, _, outcome)| &outcome.values)
    }

    pub(crate) fn offenders(&self) -> impl Iterator<Item = (Mode, &Offenders)> {
        self.outcomes.iter().filter_map(|(_, mode, outcome)| Some((*mode, outcome.offenders.as_ref()?)))
    }

    /// Returns the missed aims, in words.
    pub(crate) fn missed(&self) -> Vec<String> {
        let missed = self.outcomes.iter().flat_map(|(figure, mode, outcome)| {
            let values = outcome.values.iter().filter(|value| value.is_missed());
            values.map(move |value| {
                let (unit, aim) = (value.unit, value.at_most.unwrap_or_default());
                let space = if unit.name().is_empty() { "" } else { " " };
                format!(
                    "{figure}, {}: {} is {}{space}{}, may be {} at most",
                    mode.name(),
                    value.what,
                    value.text().trim_end_matches(" !"),
                    unit.name(),
                    unit.text(aim)
                )
            })
        });
        missed.collect()
    }
}
