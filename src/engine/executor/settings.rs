//! The settings that an executor's builder has made, and the user code that the builder was given.

use std::time::Duration;
use std::{fmt, io};

use crate::policy::detection::Detection;
use crate::policy::idle_set::IdleLimits;
use crate::policy::watch::Rules;
use crate::sys::probe::Probe;

use crate::engine::carrier::Carrier;
use crate::engine::user_code::{self, report};

use super::reports::{PanicReport, StallReport};

/// The settings of an executor, which its builder has made. The settings never change.
pub(crate) struct Settings {
    pub(crate) idle_limits: IdleLimits,
    pub(crate) max_threads: usize,
    /// The bound on the pending items of all queues. `None` if there is no bound.
    pub(crate) max_pending: Option<usize>,
    /// The bound on the bytes of the pending items of all queues. `None` if there is no bound.
    pub(crate) max_pending_bytes: Option<u64>,
    /// The nice level of the manager, and of normal pools.
    pub(crate) nice: i32,
    pub(crate) name_prefix: String,
    pub(crate) stack_size: Option<usize>,
    pub(crate) hooks: Hooks,
    /// The time after which the progress check reports a stuck pool, in which work waits while no worker is at work or
    /// on its way. `None` if there is no progress check.
    pub(crate) patience: Option<Duration>,
    /// The detection mode in force, which is never [`Detection::Auto`].
    pub(crate) detection: Detection,
    pub(crate) probe: Probe,
    /// The CPU time after which an item counts as a hog. `None` if the manager does not search for hogs.
    pub(crate) hog_threshold: Option<Duration>,
    /// The time after which the watchdog reports a pool that starts no work. `None` if there is no watchdog.
    pub(crate) watchdog_threshold: Option<Duration>,
}

impl Settings {
    /// Returns the rules by which the manager checks pools.
    pub(crate) fn rules(&self) -> Rules {
        let looks = self.detection != Detection::Off;
        Rules {
            sleepers: looks,
            is_told: self.detection == Detection::Switches,
            hogs: self.hog_threshold.filter(|_| looks),
            watchdog: self.watchdog_threshold,
            patience: self.patience,
        }
    }
}

/// The user code that the executor calls on certain events. The executor holds no lock while it calls this code, and
/// catches a panic of this code.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_thread_start: Option<Box<dyn Fn() + Send + Sync>>,
    pub(crate) on_thread_stop: Option<Box<dyn Fn() + Send + Sync>>,
    pub(crate) before_spawn: Option<Box<BeforeSpawn>>,
    pub(crate) panic_handler: Option<Box<PanicHandler>>,
    pub(crate) stall_handler: Option<Box<StallHandler>>,
    /// The hooks that capture values for submissions to carry. Each carrier destroys its own hook, in the same way as
    /// `Hooks::drop` destroys the other hooks.
    pub(crate) carriers: Vec<Carrier>,
}

/// A hook that is called with a thread's name before the thread is made.
pub(crate) type BeforeSpawn = dyn Fn(&str) -> io::Result<()> + Send + Sync;
/// A hook that is called for each panic of an item.
pub(crate) type PanicHandler = dyn Fn(&PanicReport<'_>) + Send + Sync;
/// A hook that is called for each pool that stalls.
pub(crate) type StallHandler = dyn Fn(&StallReport<'_>) + Send + Sync;

impl Drop for Hooks {
    /// Destroys the hooks and the values that they own. The thread that drops the settings destroys the hooks itself,
    /// unless it is a manager's thread. A manager's thread leaves the hooks to the cleaner.
    fn drop(&mut self) {
        destroy_hook(self.on_thread_start.take());
        destroy_hook(self.on_thread_stop.take());
        destroy_hook(self.before_spawn.take());
        destroy_hook(self.panic_handler.take());
        destroy_hook(self.stall_handler.take());
    }
}

fn destroy_hook(hook: Option<impl Send + 'static>) {
    if let Some(hook) = hook {
        user_code::destroy(move || user_code::contain(|| drop(hook)));
    }
}

impl Hooks {
    pub(crate) fn started(&self) {
        self.on_thread_start.iter().for_each(called);
    }

    pub(crate) fn stopped(&self) {
        self.on_thread_stop.iter().for_each(called);
    }

    pub(crate) fn panicked(&self, report: &PanicReport<'_>) {
        self.panic_handler.iter().for_each(|handler| called(|| handler(report)));
    }

    pub(crate) fn stalled(&self, report: &StallReport<'_>) {
        match &self.stall_handler {
            Some(handler) => called(|| handler(report)),
            None => report!(error, "{report}"),
        }
    }

    /// Asks the hook `before_spawn` whether a thread with this name may be made.
    pub(crate) fn may_spawn(&self, name: &str) -> io::Result<()> {
        let Some(hook) = &self.before_spawn else { return Ok(()) };
        let panicked = || Err(io::Error::other(user_code::HookPanicked));
        user_code::call(|| hook(name)).unwrap_or_else(panicked)
    }
}

fn called(hook: impl FnOnce()) {
    user_code::call(hook);
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("idle_limits", &self.idle_limits)
            .field("max_threads", &self.max_threads)
            .field("name_prefix", &self.name_prefix)
            .finish_non_exhaustive()
    }
}
