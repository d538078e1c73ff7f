//! A measured value, and its aim.

use std::time::Duration;

use cmwq::{Executor, Offender};

use crate::mode::Mode;

/// The result of a figure in one mode.
pub(crate) struct Outcome {
    pub(crate) values: Vec<Value>,
    /// The offenders (item types that lack a guard) that the executor has found. `None` unless the figure shows them.
    pub(crate) offenders: Option<Offenders>,
}

/// The executor's lists of item types that block without a guard, and of item types that compute for long.
pub(crate) struct Offenders {
    pub(crate) blockers: Vec<Offender>,
    pub(crate) hogs: Vec<Offender>,
}

impl Outcome {
    pub(crate) fn of(values: Vec<Value>) -> Self {
        Self { values, offenders: None }
    }

    pub(crate) fn is_missed(&self) -> bool {
        self.values.iter().any(Value::is_missed)
    }

    pub(crate) fn with_offenders_of(mut self, executor: &Executor) -> Self {
        self.offenders = Some(Offenders { blockers: executor.undeclared_blockers(), hogs: executor.hogs() });
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    Milliseconds,
    /// A multiple of the ideal time.
    Times,
    Percent,
    Count,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Times => "x",
            Self::Percent => "%",
            Self::Count => "",
        }
    }

    /// Formats a number with a suitable number of digits.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Count => format!("{value:.0}"),
            Self::Milliseconds if value >= 100.0 => format!("{value:.0}"),
            Self::Milliseconds if value >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        }
    }
}

/// One value of a figure, in one mode.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    /// The number, or `None` if the system does not report it.
    pub(crate) value: Option<f64>,
    /// Whether the event had not happened when the measurement gave up.
    pub(crate) given_up: bool,
    pub(crate) at_most: Option<f64>,
}

impl Value {
    pub(crate) fn new(what: &'static str, unit: Unit, value: f64) -> Self {
        Self { what, unit, value: Some(value), given_up: false, at_most: None }
    }

    pub(crate) fn unknown(what: &'static str, unit: Unit) -> Self {
        Self { what, unit, value: None, given_up: false, at_most: None }
    }

    /// Sets the aim for the modes that have detection and no guards.
    pub(crate) fn aim(self, mode: Mode, at_most: f64) -> Self {
        self.aims(mode, at_most, at_most)
    }

    /// Sets an aim for each way of detection.
    pub(crate) fn aims(mut self, mode: Mode, sampling: f64, switches: f64) -> Self {
        self.at_most = match mode {
            Mode::Off | Mode::Guards => None,
            Mode::Sampling => Some(sampling),
            Mode::Switches => Some(switches),
        };
        self
    }

    pub(crate) fn given_up(mut self, given_up: bool) -> Self {
        self.given_up = given_up;
        self
    }

    /// Returns whether the aim is not reached. An unknown value reaches no aim.
    pub(crate) fn is_missed(&self) -> bool {
        let above = |at_most| self.given_up || self.value.is_none_or(|value| value > at_most);
        self.at_most.is_some_and(above)
    }

    /// Formats the value for the table.
    pub(crate) fn text(&self) -> String {
        let Some(value) = self.value else { return if self.is_missed() { "? !" } else { "?" }.into() };
        format!(
            "{}{}{}",
            if self.given_up { "> " } else { "" },
            self.unit.text(value),
            if self.is_missed() { " !" } else { "" }
        )
    }
}

/// Measured times in ascending order, from which percentiles are taken.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "something was measured");
        times.sort();
        Self(times)
    }

    /// Returns the least measured time that this percentage of the times does not exceed, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        milliseconds(self.0[rank - 1])
    }

    pub(crate) fn longest(&self) -> f64 {
        self.percentile(100)
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
