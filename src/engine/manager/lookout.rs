//! The manager's checks of the part of the machine that the process may use. The pools adopt each change that a check
//! finds.

use crate::policy::environment::{Environment, Vigil};
use crate::policy::time::Time;
use crate::sys::cgroup::CpuGroups;
use crate::sys::{affinity, clock};

use crate::engine::executor::upkeep::Upkeep;
use crate::engine::user_code::report;

/// The manager's state for the checks of the machine.
#[derive(Debug)]
pub(crate) struct Lookout {
    vigil: Vigil,
    /// The process's control groups, or `None` before they are first read.
    groups: Option<CpuGroups>,
}

impl Lookout {
    pub(crate) fn new() -> Self {
        Self { vigil: Vigil::new(clock::now()), groups: None }
    }

    /// Makes a new lookout after a panic of the manager, in which the former lookout was lost. The new lookout checks
    /// soon, because it does not know whether the former lookout had suspended the checks.
    pub(crate) fn again(now: Time) -> Self {
        let mut again = Self::new();
        again.vigil.active(now);
        again
    }

    /// Returns the time of the next check, or `None` while the manager has suspended these checks.
    pub(crate) fn next(&self) -> Option<Time> {
        self.vigil.next()
    }

    /// Checks which part of the machine the process may use, if a check is due.
    pub(crate) fn look(&mut self, upkeep: &Upkeep, now: Time) {
        let attention = &upkeep.core.environment.attention;
        if attention.is_asked() {
            attention.watch();
            self.vigil.active(now);
        }
        if !self.vigil.is_due(now) {
            return;
        }
        if !self.vigil.is_owed() && !is_active(upkeep) {
            attention.rest();
            if !is_active(upkeep) {
                return self.vigil.rest();
            }
            attention.watch();
        }
        self.vigil.looked(now);
        let (before, allowed) = (upkeep.core.environment.present().cpus, affinity::watched_cpus());
        let groups = self.groups.get_or_insert_with(|| CpuGroups::of_process(before.quota()));
        match before.seen(allowed, groups.quota()) {
            Some(seen) => change(upkeep, seen),
            None if upkeep.core.denials.affinity_denied() => {}
            // If a CPU was lost and came back between two checks, only the bindings of threads have changed, and are
            // repaired here.
            None => upkeep.pools.all().iter().for_each(|pool| pool.keep_workers_bound()),
        }
    }
}

fn is_active(upkeep: &Upkeep) -> bool {
    upkeep.pools.all().iter().any(|pool| pool.is_active())
}

fn change(upkeep: &Upkeep, seen: Environment) {
    report!(
        info,
        "the process may use CPUs {} now, with a quota of {}",
        seen.allowed(),
        seen.quota().map_or("none".into(), |quota| format!("{:.2} CPUs", quota.cpus())),
    );
    // An error is ignored. If the system denies the binding to this thread, it denies the binding to each worker as
    // well, and the worker reports the denial.
    drop(affinity::pin_to_set(&seen.home()));
    let present = upkeep.core.environment.change(seen);
    upkeep.pools.all().iter().for_each(|pool| pool.adapt(&present));
}
