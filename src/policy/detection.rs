//! The ways in which an executor can notice that an item blocks outside of a guard.

#![forbid(unsafe_code)]

use std::fmt;

/// The way in which an executor notices that an item blocks outside of any [guard](crate#guards).
///
/// The executor watches only pools that have pending work and no free place for another worker. An idle executor
/// watches no pool. Guards, [`may_block`](crate::may_block) and the
/// [watchdog](crate::ExecutorBuilder::watchdog_threshold) work in every mode.
/// [`Snapshot::detection`](crate::observe::Snapshot::detection) is the mode in force, and
/// [`detection_fallback`](crate::observe::Snapshot::detection_fallback) says why this mode differs from the requested
/// mode.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Detection, Executor};
///
/// let executor = Executor::builder().detection(Detection::Sampling).build()?;
/// println!("{}", executor.dump().detection);
///
/// let unwatched = Executor::builder().detection(Detection::Off).build()?;
/// assert_eq!(unwatched.dump().detection, Detection::Off);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Detection {
    /// The executor does not watch threads. The executor learns of blocks only from guards, and treats no item as a
    /// [hog](crate::ExecutorBuilder::hog_threshold). While a managed or per-CPU queue has pending work and no free
    /// place, the manager still wakes up at least every 3 ms, because of [`may_block`](crate::may_block).
    Off,
    /// The executor samples the states of threads every 0.1 to 3 ms, so it notices a block within milliseconds. On
    /// systems other than Linux, the mode is [`Off`](Self::Off) instead. If `/proc` cannot be read, a thread whose CPU
    /// time does not change for 3 ms is treated as asleep.
    Sampling,
    /// The system's scheduler reports each context switch of a watched thread, so the executor notices a block within a
    /// fraction of a millisecond. While all items of a managed queue compute, the manager checks their threads only
    /// every 24 ms. If `perf_event_open` is not permitted, the mode is [`Sampling`](Self::Sampling) instead. On systems
    /// other than Linux, the mode is [`Off`](Self::Off).
    #[doc(alias = "perf_event_paranoid")]
    Switches,
    /// The best mode that the system permits.
    #[default]
    Auto,
}

impl Detection {
    /// Returns the mode that is in force if the system does not permit switch events. If `portable` is true, the crate
    /// knows nothing about threads on this system, so the mode is `Off`.
    pub(crate) fn without_switches(self, portable: bool) -> Self {
        match self {
            Self::Off => Self::Off,
            _ if portable => Self::Off,
            Self::Sampling | Self::Switches | Self::Auto => Self::Sampling,
        }
    }
}

impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Sampling => "sampling",
            Self::Switches => "switches",
            Self::Auto => "auto",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: S1.2: without switch events, the best mode is `Sampling` on Linux, and `Off` on other systems.
    #[test]
    fn sampling_is_the_best_mode_without_switches() {
        use Detection::{Auto, Off, Sampling, Switches};
        for (asked, on_linux) in [(Off, Off), (Sampling, Sampling), (Switches, Sampling), (Auto, Sampling)] {
            assert_eq!(asked.without_switches(false), on_linux, "{asked}");
            assert_eq!(asked.without_switches(true), Off, "{asked}");
        }
        assert_eq!(Detection::default(), Auto);
    }
}
