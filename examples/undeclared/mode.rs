//! How the executor learns that an item blocks.

use cmwq::{BuildExecutorError, Detection, Executor, ExecutorBuilder};

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

    pub(crate) fn set(self, executor: ExecutorBuilder) -> ExecutorBuilder {
        match self {
            Self::Off => executor.detection(Detection::Off),
            Self::Sampling => executor.detection(Detection::Sampling),
            Self::Switches => executor.detection(Detection::Switches),
            Self::Guards => executor,
        }
    }

    /// Why the system does not let us have it, if so.
    pub(crate) fn denied(self) -> Result<Option<String>, BuildExecutorError> {
        let snapshot = self.set(Executor::builder()).build()?.dump();
        let denied = match self {
            Self::Off | Self::Guards => false,
            Self::Sampling => snapshot.detection != Detection::Sampling,
            Self::Switches => snapshot.detection != Detection::Switches,
        };
        let why = || snapshot.detection_fallback.unwrap_or_else(|| "the executor does not say why".into());
        Ok(denied.then(why))
    }

    /// Runs `f`, which may block, and says so if items say so in this mode.
    pub(crate) fn wait<R>(self, f: impl FnOnce() -> R) -> R {
        if self == Self::Guards { cmwq::blocking(f) } else { f() }
    }
}
