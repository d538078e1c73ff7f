//! How the executor learns that an item blocks.

use cmwq::{BuildExecutorError, Detection, Executor};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not at all.
    Off,
    Sampling,
    Switches,
    /// Items tell it; detection is left at what is the default.
    Guards,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::Off, Self::Sampling, Self::Switches, Self::Guards];
    /// Where no item would tell.
    pub(crate) const UNGUARDED: [Self; 3] = [Self::Off, Self::Sampling, Self::Switches];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sampling => "sampling",
            Self::Switches => "switches",
            Self::Guards => "guards",
        }
    }

    pub(crate) fn detection(self) -> Detection {
        match self {
            Self::Off => Detection::Off,
            Self::Sampling => Detection::Sampling,
            Self::Switches => Detection::Switches,
            Self::Guards => Detection::Auto,
        }
    }

    /// Why the system does not let us have it, if so.
    pub(crate) fn denied(self) -> Result<Option<String>, BuildExecutorError> {
        let executor = Executor::builder().detection(self.detection()).thread_name_prefix("probe").build()?;
        let snapshot = executor.snapshot();
        if self == Self::Guards || snapshot.detection == self.detection() {
            return Ok(None);
        }
        Ok(Some(snapshot.detection_fallback.unwrap_or_else(|| "the executor does not say why".into())))
    }

    /// Runs `f`, which may block, and says so if items say so in this mode.
    pub(crate) fn wait<R>(self, f: impl FnOnce() -> R) -> R {
        if self == Self::Guards { cmwq::blocking(f) } else { f() }
    }
}
