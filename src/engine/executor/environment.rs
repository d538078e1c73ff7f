//! How the manager looks at the part of the machine that the process may use, and how a change reaches the pools.
//!
//! A change takes effect in this order: the manager writes it down here, under a new number. Then each pool takes it
//! over and binds its workers. If a pool is made meanwhile, either the manager finds it; or the pool is registered
//! later, then asks once more, and finds the change. The number keeps an older change from replacing a newer one.

use std::sync::Arc;

use crate::policy::environment::{Environment, Slot, Vigil};
use crate::policy::time::Time;
use crate::protocol::attention::AttentionCell;
use crate::sys::cgroup::CpuGroups;
use crate::sys::sync::Mutex;
use crate::sys::{affinity, clock};

use crate::engine::manager::bell::Bell;
use crate::engine::user_code::report;

use super::core::Core;

/// The part of the machine that an executor may use, and how a worker that begins to work wakes the manager.
#[derive(Debug)]
pub(crate) struct Watch {
    attention: AttentionCell,
    bell: Arc<Bell>,
    present: Mutex<Present>,
}

/// What the last look has seen.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    /// The number of changes so far.
    pub(crate) number: u64,
    pub(crate) cpus: Arc<Environment>,
}

impl Watch {
    pub(crate) fn new(slots: &[Slot], bell: Arc<Bell>) -> Self {
        let quota = CpuGroups::of_process().quota();
        let cpus = Arc::new(Environment::new(slots, affinity::watched_cpus(), quota));
        Self { attention: AttentionCell::new(), bell, present: Mutex::new(Present { number: 0, cpus }) }
    }

    pub(crate) fn present(&self) -> Present {
        self.present.lock().clone()
    }

    /// Returns whether the process's CPUs have changed since the manager's last look.
    pub(crate) fn is_behind(&self) -> bool {
        affinity::watched_cpus().is_some_and(|allowed| allowed != *self.present().cpus.allowed())
    }

    /// Called by a worker that has begun to do something. Either its phase says so, and it has made a
    /// read-modify-write since; or it has raised its pool's count. Costs one load, and never waits for a lock.
    #[inline]
    pub(crate) fn active(&self) {
        if self.attention.active() {
            self.bell.ring();
        }
    }

    /// The manager's bell.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

/// The manager's side: when it looks.
#[derive(Debug)]
pub(crate) struct Lookout {
    vigil: Vigil,
    /// `None` until they are first read.
    groups: Option<CpuGroups>,
}

impl Lookout {
    pub(crate) fn new() -> Self {
        Self { vigil: Vigil::new(clock::now()), groups: None }
    }

    /// Makes a lookout in place of one that was lost. It looks soon, since it does not know whether the lost one
    /// rested.
    pub(crate) fn again(now: Time) -> Self {
        let mut again = Self::new();
        again.vigil.active(now);
        again
    }

    /// Returns when the next look is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.vigil.next()
    }

    /// Looks at the machine, if a look is due.
    pub(crate) fn look(&mut self, core: &Core, now: Time) {
        let attention = &core.environment.attention;
        if attention.is_asked() {
            attention.watch();
            self.vigil.active(now);
        }
        if !self.vigil.is_due(now) {
            return;
        }
        if !self.vigil.is_owed() && !is_active(core) {
            attention.rest();
            if !is_active(core) {
                return self.vigil.rest();
            }
            attention.watch();
        }
        self.vigil.looked(now);
        let (before, allowed) = (core.environment.present().cpus, affinity::watched_cpus());
        match before.seen(allowed, self.groups.get_or_insert_with(CpuGroups::of_process).quota()) {
            Some(seen) => change(core, seen),
            None if core.denials.affinity_denied() => {}
            // A CPU that went and came back between two looks has changed only what threads are bound to.
            None => core.pools().iter().for_each(|pool| pool.keep_workers_bound()),
        }
    }
}

fn is_active(core: &Core) -> bool {
    core.pools().iter().any(|pool| pool.is_active())
}

fn change(core: &Core, seen: Environment) {
    report!(
        info,
        "the process may use CPUs {} now, with a quota of {}",
        seen.allowed(),
        seen.quota().map_or("none".into(), |quota| format!("{:.2} CPUs", quota.cpus())),
    );
    // An error is ignored: if the system denies this, it denies it to each worker as well, and the worker reports
    // that.
    drop(affinity::pin_to_set(&seen.home()));
    let present = {
        let mut present = core.environment.present.lock();
        *present = Present { number: present.number + 1, cpus: Arc::new(seen) };
        present.clone()
    };
    core.pools().iter().for_each(|pool| pool.adapt(&present));
}
