//! What the queues, pools and threads of one executor share.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, io};

use crate::policy::cpu_set::CpuSet;
use crate::policy::crew::CrewLimits;
use crate::policy::detection::Detection;
use crate::policy::watch::Rules;
use crate::sys;
use crate::sys::fork::Origin;
use crate::sys::probe::Probe;
use crate::sys::switches::Readiness;
use crate::sys::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};

use crate::engine::item::timers::Timers;
use crate::engine::manager::cleaner::Cleaner;
use crate::engine::manager::detection::Shortfall;
use crate::engine::manager::inbox::ManagerHandle;
use crate::engine::manager::offenders::Offenders;
use crate::engine::manager::watchdog::StallReport;
use crate::engine::pool::class::{Class, ClassKey, ClassUser};
use crate::engine::pool::worker_pool::Pool;
use crate::engine::user_code::{self, report};

use super::environment::Watch;
use super::threads::ExecutorThreads;

/// What an executor's builder has set. It never changes.
pub(crate) struct Settings {
    pub(crate) crew_limits: CrewLimits,
    pub(crate) max_threads: usize,
    /// The nice level of the manager, and of normal pools.
    pub(crate) nice: i32,
    pub(crate) name_prefix: String,
    pub(crate) stack_size: Option<usize>,
    pub(crate) hooks: Hooks,
    pub(crate) progress_check: Option<ProgressCheck>,
    /// The detection in force, never [`Detection::Auto`].
    pub(crate) detection: Detection,
    pub(crate) probe: Probe,
    /// CPU time. `None` if hogs are not looked for.
    pub(crate) hog_threshold: Option<Duration>,
    /// `None` if there is no watchdog.
    pub(crate) watchdog_threshold: Option<Duration>,
}

impl Settings {
    /// Returns what the manager looks for.
    pub(crate) fn rules(&self) -> Rules {
        let looks = self.detection != Detection::Off;
        Rules {
            sleepers: looks,
            is_told: self.detection == Detection::Switches,
            hogs: self.hog_threshold.filter(|_| looks),
            watchdog: self.watchdog_threshold,
            patience: self.progress_check.map(|check| check.patience),
        }
    }
}

/// What happens when a pool has work and no worker on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressCheck {
    /// How long this must have lasted before `stuck` is called.
    pub(crate) patience: Duration,
    /// Called on the manager's thread.
    pub(crate) stuck: fn(&Core, &Pool, Duration),
}

/// User code that is called at certain moments, with no lock held. A panic in it is contained.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_thread_start: Option<Box<dyn Fn() + Send + Sync>>,
    pub(crate) on_thread_stop: Option<Box<dyn Fn() + Send + Sync>>,
    pub(crate) before_spawn: Option<Box<BeforeSpawn>>,
    pub(crate) panic_handler: Option<Box<PanicHandler>>,
    pub(crate) stall_handler: Option<Box<StallHandler>>,
}

/// Called with the name of the thread that is about to be made.
pub(crate) type BeforeSpawn = dyn Fn(&str) -> io::Result<()> + Send + Sync;
/// Called for each panic of an item.
pub(crate) type PanicHandler = dyn Fn(&PanicReport<'_>) + Send + Sync;
/// Called for each pool that stalls.
pub(crate) type StallHandler = dyn Fn(&StallReport<'_>) + Send + Sync;

/// A panic of an item, as the panic handler sees it.
///
/// See [`ExecutorBuilder::panic_handler`](crate::ExecutorBuilder::panic_handler).
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PanicReport<'a> {
    /// The name of the queue whose slot the item held.
    pub queue: &'a str,
    /// The type of the item's closure, as the compiler names it.
    pub item_type: &'static str,
    /// The payload of the panic.
    pub payload: &'a (dyn Any + Send),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    /// The process that has made the executor and its threads.
    pub(crate) origin: Origin,
    pub(crate) settings: Settings,
    pub(crate) manager: Arc<ManagerHandle>,
    pub(crate) cleaner: Cleaner,
    pub(crate) timers: Timers,
    pub(crate) denials: Denials,
    pub(crate) environment: Watch,
    pub(crate) shortfall: Shortfall,
    /// Keeps the system ready to record switches.
    _ready: Option<Readiness>,
    pub(crate) offenders: Offenders,
    /// How many stalls the watchdog has reported.
    pub(crate) stalls: AtomicU64,
    /// Each thread owns a share until it is gone.
    pub(crate) threads: Arc<ExecutorThreads>,
    /// Whether work had to wait because there were as many workers as `max_threads` permits. Reported once.
    limit_reached: AtomicBool,
    /// Lock order: this lock first, then those of classes.
    register: Mutex<Register>,
    /// The number of the next unbound pool; per-CPU pools come before.
    next_unbound_id: AtomicUsize,
}

#[derive(Debug, Default)]
struct Register {
    all: Vec<Weak<Pool>>,
    classes: HashMap<ClassKey, Weak<Class>>,
}

/// What the system did not permit. Each denial is reported once, and shown in dumps.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    nice: AtomicBool,
    affinity: AtomicBool,
}

impl Core {
    /// `first_unbound_id`: how many per-CPU pools are numbered before the unbound ones.
    pub(crate) fn new(
        settings: Settings,
        first_unbound_id: usize,
        environment: Watch,
        (shortfall, ready): (Shortfall, Option<Readiness>),
    ) -> Self {
        Self {
            origin: Origin::here(),
            shortfall,
            _ready: ready,
            offenders: Offenders::new(settings.hog_threshold.unwrap_or_default()),
            settings,
            stalls: AtomicU64::new(0),
            manager: Arc::new(ManagerHandle::new(Arc::clone(environment.bell()))),
            cleaner: Cleaner::default(),
            timers: Timers::new(),
            denials: Denials::default(),
            environment,
            threads: Arc::new(ExecutorThreads::new()),
            limit_reached: AtomicBool::new(false),
            register: Mutex::new(Register::default()),
            next_unbound_id: AtomicUsize::new(first_unbound_id),
        }
    }

    pub(crate) fn register(&self, pool: &Arc<Pool>) {
        let mut register = self.register.lock();
        register.all.retain(|known| known.strong_count() > 0);
        register.all.push(Arc::downgrade(pool));
    }

    /// The pools that exist at the moment.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.register.lock().all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns a user of the class with this key, and makes the class if there is none. The caller calls
    /// [`attend`](Class::attend) on it, with no lock held.
    pub(crate) fn class(&self, key: ClassKey, make: impl FnOnce(ClassKey) -> Class) -> ClassUser {
        let mut register = self.register.lock();
        let known = register.classes.get(&key).and_then(Weak::upgrade);
        if let Some(user) = known.and_then(|class| class.open()) {
            return user;
        }
        register.classes.retain(|_, class| class.strong_count() > 0);
        let class = Arc::new(make(key.clone()));
        register.classes.insert(key, Arc::downgrade(&class));
        class.open().expect("no other thread knows the class yet, so it has not ended")
    }

    /// Returns a number for a new unbound pool.
    pub(crate) fn next_unbound_id(&self) -> usize {
        self.next_unbound_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether there are rescuers. Without any, a pool in distress calls none.
    pub(crate) fn has_rescuers(&self) -> bool {
        self.threads.load().rescuers() > 0
    }

    /// Returns how many workers have not left or are being made.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load().workers() as usize
    }

    /// Reports that work waits for a thread because there are as many workers as `max_threads` permits. Only the
    /// first call does.
    pub(crate) fn thread_limit_reached(&self) {
        if !self.limit_reached.swap(true, Ordering::Relaxed) {
            let (prefix, most) = (&self.settings.name_prefix, self.settings.max_threads);
            report!(
                warn,
                "work waits for a thread: the executor {prefix:?} has {most} workers, as many as max_threads permits"
            );
        }
    }

    /// Returns whether work had to wait because of `max_threads`.
    pub(crate) fn was_thread_limit_reached(&self) -> bool {
        self.limit_reached.load(Ordering::Relaxed)
    }
}

impl Denials {
    pub(crate) fn nice(&self, granted: bool, nice: i32) {
        if !granted && !sys::PORTABLE && !self.nice.swap(true, Ordering::Relaxed) {
            report!(
                warn,
                "workers cannot have nice level {nice} (it needs CAP_SYS_NICE or a higher \
                RLIMIT_NICE). They keep the manager's level: the executor's normal level or, if that was denied as \
                well, the level of the thread that started the manager"
            );
        }
    }

    pub(crate) fn affinity(&self, granted: bool, cpus: &CpuSet) {
        if !granted && !sys::PORTABLE && !self.affinity.swap(true, Ordering::Relaxed) {
            report!(warn, "workers cannot be bound to CPUs {cpus}: they run wherever the system puts them");
        }
    }

    pub(crate) fn nice_denied(&self) -> bool {
        self.nice.load(Ordering::Relaxed)
    }

    pub(crate) fn affinity_denied(&self) -> bool {
        self.affinity.load(Ordering::Relaxed)
    }
}

impl Drop for Hooks {
    /// Destroys the hooks and what they own. The thread that drops the executor last does so; if that is a manager's,
    /// another thread does.
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

    /// Asks the hook `before_spawn` whether a thread of this name may be made.
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
            .field("crew_limits", &self.crew_limits)
            .field("max_threads", &self.max_threads)
            .field("name_prefix", &self.name_prefix)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PanicReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicReport")
            .field("queue", &self.queue)
            .field("item_type", &self.item_type)
            .finish_non_exhaustive()
    }
}
