//! How much is measured.

use std::time::Duration;

use serde::Serialize;

/// What is short is repeated for so long: of a few milliseconds, one lost slice of a CPU would be most.
const LONG: Duration = Duration::from_millis(200);
/// And so often, unless it is slow.
const OFTEN: usize = 3;

/// Counts are those of the definitions, or a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Effort {
    Full,
    /// A tenth.
    Quick,
    /// Hardly anything: shows that it works.
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

    /// So many of what the definition has this number of; one at least.
    pub(crate) fn of(self, full: usize) -> usize {
        (full / self.part() as usize).max(1)
    }

    /// Whether a unit that took so long in all has been repeated enough.
    pub(crate) fn is_enough(self, time: Duration, times: usize) -> bool {
        let long = LONG / self.part();
        time >= 2 * long || (time >= long && times >= OFTEN)
    }

    /// How much less is done than a definition says, in a sentence.
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
