//! The manager's looks at what the process may use of the machine, and how a change reaches the pools.
//!
//! A change takes effect in this order: it is written down here, under a new number; then each pool takes it over and
//! has its workers bound. A pool that is being made meanwhile is found by the manager, or, registered later, asks once
//! more and finds the change. The number keeps the older of two from coming last.

use std::sync::Arc;

use crate::policy::environment::{Environment, Slot, Vigil};
use crate::policy::time::Time;
use crate::protocol::attention::AttentionCell;
use crate::sys::cgroup::CpuGroups;
use crate::sys::sync::Mutex;
use crate::sys::{affinity, clock};

use super::bell::Bell;
use super::core::Core;
use super::user_code::report;

/// What an executor has of the machine, and who is told when somebody works there.
#[derive(Debug)]
pub(crate) struct Watch {
    attention: AttentionCell,
    bell: Arc<Bell>,
    present: Mutex<Present>,
}

/// What was seen last.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    /// Counts the changes.
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

    /// Has something changed that the manager has not seen yet?
    pub(crate) fn is_behind(&self) -> bool {
        affinity::watched_cpus().is_some_and(|allowed| allowed != *self.present().cpus.allowed())
    }

    /// The calling worker has begun to do something: its phase says so, and a read-modify-write came after that, or its
    /// pool's count says so, by one. Costs one load, and never waits for a lock.
    #[inline]
    pub(crate) fn active(&self) {
        if self.attention.active() {
            self.bell.ring();
        }
    }

    /// Of the manager's door.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

/// The manager's side of it.
#[derive(Debug)]
pub(crate) struct Lookout {
    vigil: Vigil,
    /// None: not read so far.
    groups: Option<CpuGroups>,
}

impl Lookout {
    pub(crate) fn new() -> Self {
        Self { vigil: Vigil::new(clock::now()), groups: None }
    }

    /// Another one, in the place of one that is lost. It looks soon, since it does not know whether the other one rested.
    pub(crate) fn again(now: Time) -> Self {
        let mut again = Self::new();
        again.vigil.active(now);
        again
    }

    /// When to come back, whatever happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.vigil.next()
    }

    /// Looks, if it is time to.
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
            // A CPU that went and returned between two looks changed nothing but what threads are bound to.
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
    // Best effort: what is denied here is denied to each worker as well, and told there.
    drop(affinity::pin_to_set(&seen.home()));
    let present = {
        let mut present = core.environment.present.lock();
        *present = Present { number: present.number + 1, cpus: Arc::new(seen) };
        present.clone()
    };
    core.pools().iter().for_each(|pool| pool.adapt(&present));
}
