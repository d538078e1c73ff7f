//! The amount of measurement.

use std::time::Duration;

use serde::Serialize;

/// The time for which short work is repeated. In a measurement of a few milliseconds, one lost time slice would
/// dominate.
const LONG: Duration = Duration::from_millis(200);
/// The least number of repetitions, unless the work already takes twice [`LONG`].
const OFTEN: usize = 3;

/// How much of the work that the cases define is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Effort {
    Full,
    /// A tenth of the work.
    Quick,
    /// Hardly any work: a smoke test.
    Tiny,
}

impl Effort {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Quick, Self::Tiny];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
            Self::Tiny => "tiny",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.name() == name)
    }

    /// Returns the part of a number in a definition that this effort keeps. The part is at least one.
    pub(crate) fn of(self, full: usize) -> usize {
        (full / self.part() as usize).max(1)
    }

    /// Returns whether the work has been repeated often enough. All its repetitions together took this time.
    pub(crate) fn is_enough(self, time: Duration, times: usize) -> bool {
        let long = LONG / self.part();
        time >= 2 * long || (time >= long && times >= OFTEN)
    }

    /// Returns a sentence that says which part of the defined work is done.
    pub(crate) fn share(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Quick => Some("Here, a tenth of that."),
            Self::Tiny => Some("Here, hardly any of that."),
        }
    }

    fn part(self) -> u32 {
        match self {
            Self::Full => 1,
            Self::Quick => 10,
            Self::Tiny => 1000,
        }
    }
}
