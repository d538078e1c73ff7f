//! The ways in which the executor learns that an item blocks.

use cmwq::{BuildExecutorError, Detection, Executor, ExecutorBuilder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Detection is off, and items enter no guards.
    Off,
    Sampling,
    Switches,
    /// Items enter guards, and detection has its default.
    Guards,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::Off, Self::Sampling, Self::Switches, Self::Guards];
    /// The modes in which items enter no guards.
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

    /// Returns the reason why the system does not permit the mode, or `None` if it does.
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

    /// Runs `f`, which may block, under a guard if items enter guards in this mode.
    pub(crate) fn wait<R>(self, f: impl FnOnce() -> R) -> R {
        if self == Self::Guards { cmwq::blocking(f) } else { f() }
    }
}
