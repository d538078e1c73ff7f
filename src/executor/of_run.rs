//! The executors of a test on a made-up machine (a simulation). Such a test has a global executor of its own.

use std::sync::{Arc, Weak};

use crate::engine::executor::inner::ExecutorInner;
use crate::executor::Executor;
use crate::executor::builder::ExecutorBuilder;
use crate::sys::machine;
use crate::sys::sync::Mutex;

/// The executors that the threads of a made-up machine have made.
#[derive(Default)]
pub(crate) struct OfRun {
    global: Mutex<Global>,
    all: Mutex<Vec<Weak<ExecutorInner>>>,
}

/// The global executor of a test.
#[derive(Default)]
enum Global {
    #[default]
    None,
    Made(Executor),
    /// A caller has a reference to the executor, so the executor stays in memory until the process ends.
    Leaked(&'static Executor),
}

impl OfRun {
    /// Returns the executors of the calling thread's test. Returns `None` if the thread belongs to no test.
    #[inline]
    pub(crate) fn current() -> Option<Arc<Self>> {
        machine::own(Self::default)
    }

    /// Returns the global executor of the test. Makes the executor if there is none.
    pub(super) fn global(&self) -> Executor {
        self.known().unwrap_or_else(|| {
            // No other thread of the machine runs in the meantime, so no other thread makes a second executor.
            let (executor, ..) = machine::quietly(|| ExecutorBuilder::new().assemble_default());
            *self.global.lock() = Global::Made(executor.clone());
            executor
        })
    }

    fn known(&self) -> Option<Executor> {
        match &*self.global.lock() {
            Global::Made(executor) => Some(executor.clone()),
            Global::Leaked(executor) => Some(Executor::clone(executor)),
            Global::None => None,
        }
    }

    /// Returns a reference to the global executor of the test.
    pub(super) fn global_for_ever(&self) -> &'static Executor {
        let executor = self.global();
        let mut global = self.global.lock();
        if let Global::Leaked(executor) = *global {
            return executor;
        }
        let leaked: &'static Executor = Box::leak(Box::new(executor));
        let before = std::mem::replace(&mut *global, Global::Leaked(leaked));
        drop(global);
        drop(before);
        leaked
    }

    /// Sets the global executor of the test. Returns false if the test already has one.
    pub(super) fn set_global(&self, executor: Executor) -> bool {
        let is_first = !self.has_global();
        if is_first {
            *self.global.lock() = Global::Made(executor);
        }
        is_first
    }

    pub(super) fn has_global(&self) -> bool {
        !matches!(*self.global.lock(), Global::None)
    }

    pub(super) fn is_global(&self, executor: &Executor) -> bool {
        self.known().is_some_and(|global| global == *executor)
    }

    pub(super) fn add(&self, executor: &Executor) {
        let mut all = self.all.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&executor.inner));
    }

    /// Returns the executors of the test that still exist, in the order in which they were made.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "the test kit ends them"))]
    pub(crate) fn all(&self) -> Vec<Arc<ExecutorInner>> {
        self.all.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
