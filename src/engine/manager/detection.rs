//! The choice of the detection mode, and the reason why no better mode is in force.

use crate::policy::detection::Detection;
use crate::sys;
use crate::sys::pause::Pause;
use crate::sys::probe::Probe;
use crate::sys::switches::Readiness;
use crate::sys::sync::Mutex;

/// The detection mode that was chosen when the executor was made.
pub(crate) struct Choice {
    /// The mode in force, which is never [`Detection::Auto`].
    pub(crate) mode: Detection,
    /// The way in which the manager sleeps in this mode.
    pub(crate) pause: Pause,
    pub(crate) shortfall: Shortfall,
    /// While this value exists, a ring (the buffer in which the system records context switches) can be attached to a
    /// thread quickly. The executor keeps the value until the executor ends.
    pub(crate) ready: Option<Readiness>,
}

/// The reason why the detection mode in force is worse than the requested mode, or why it misses some blocks. Only the
/// first reason is kept.
#[derive(Debug, Default)]
pub(crate) struct Shortfall(Mutex<Option<String>>);

/// Chooses the best detection mode that the caller has requested and the system permits.
pub(crate) fn choose(asked: Detection, probe: Probe) -> Choice {
    let mode = asked.without_switches(sys::PORTABLE);
    let shortfall = Shortfall::default();
    if sys::PORTABLE && asked != Detection::Off {
        shortfall.note(|| "this system does not show what threads do".into());
    } else if matches!(asked, Detection::Auto | Detection::Switches) {
        match probe.listening() {
            Ok((pause, ready)) => {
                return Choice { mode: Detection::Switches, pause, shortfall, ready: Some(ready) };
            }
            Err(error) => {
                shortfall.note(|| format!("the system permits no records of context switches: {error}"));
            }
        }
    }
    Choice { mode, pause: Pause::parking(), shortfall, ready: None }
}

impl Shortfall {
    pub(crate) fn note(&self, reason: impl FnOnce() -> String) {
        let mut noted = self.0.lock();
        if noted.is_none() {
            *noted = Some(reason());
        }
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.0.lock().clone()
    }
}
