//! Which detection is in force.

use crate::policy::detection::Detection;
use crate::sys;
use crate::sys::sync::Mutex;

/// What the executor does at present to notice what nobody has told it.
#[derive(Debug)]
pub(crate) struct InForce(Mutex<Present>);

#[derive(Clone, Debug)]
pub(crate) struct Present {
    /// Never [`Detection::Auto`].
    pub(crate) mode: Detection,
    /// Why it is not the best that was asked for.
    pub(crate) fallback: Option<String>,
}

impl InForce {
    /// Before anybody has asked what the system permits.
    pub(crate) fn new(asked: Detection) -> Self {
        let portable = sys::PORTABLE && asked != Detection::Off;
        let fallback = portable.then(|| "this system does not show what threads do".to_owned());
        Self(Mutex::new(Present { mode: asked.without_switches(sys::PORTABLE), fallback }))
    }

    pub(crate) fn set(&self, mode: Detection, fallback: Option<String>) {
        let former = std::mem::replace(&mut *self.0.lock(), Present { mode, fallback });
        drop(former);
    }

    pub(crate) fn present(&self) -> Present {
        self.0.lock().clone()
    }
}
