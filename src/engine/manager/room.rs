//! The executor's cap on threads: which pool waits for one, and which pool gives one up.
//!
//! Policy says which pool gets the next thread ([`Line`](crate::policy::room::Line)); here an idle worker of another pool is sent
//! away for it, or busy ones are asked to give way.

use std::sync::{Arc, Weak};

use crate::policy::room::{Claim, Shortage};
use crate::policy::time::Time;

use super::super::core::Core;
use super::super::pool::Pool;
use super::ManagerThread;

impl ManagerThread {
    /// The cap is reached. If work of the pool waits for a thread, an idle worker of another pool leaves. If there is none,
    /// and the pool starves, a busy one is asked to give way.
    pub(super) fn make_room(&mut self, core: &Core, pool: &Arc<Pool>, now: Time) {
        let Some(claim) = self.claim(core, pool, now) else { return };
        let weak = Arc::downgrade(pool);
        self.schedule.no_room(weak.clone(), |known| known.ptr_eq(&weak), claim, now);
        let others = core.pools().into_iter().filter(|other| !Arc::ptr_eq(other, pool));
        let idle_leaves = || others.into_iter().any(|other| other.give_up_one());
        if claim.starves {
            core.threads.cell.ask(idle_leaves);
        } else {
            let _found = idle_leaves();
            self.settle(core, &weak);
        }
        core.thread_limit_reached();
    }

    /// Another pool gets the next thread. If work of this one waits for a thread, it stands in the line, and that one is tried.
    pub(super) fn wait_its_turn(&mut self, core: &Core, pool: &Arc<Pool>, now: Time) {
        let Some(claim) = self.claim(core, pool, now) else { return };
        let weak = Arc::downgrade(pool);
        self.schedule.waits_its_turn(weak.clone(), |known| known.ptr_eq(&weak), claim, now);
        if !claim.starves {
            self.settle(core, &weak);
        }
    }

    /// There is no thread for the pool. How urgently does its work need one, if it does at all?
    fn claim(&mut self, core: &Core, pool: &Arc<Pool>, now: Time) -> Option<Claim> {
        let shortage = pool.no_room(now);
        if shortage == Shortage::None {
            self.needs_no_room(core, &Arc::downgrade(pool), now);
            return None;
        }
        Some(Claim { starves: shortage == Shortage::Starves, nice: pool.spec.nice })
    }

    /// No work of the pool waits for a thread.
    pub(super) fn needs_no_room(&mut self, core: &Core, pool: &Weak<Pool>, now: Time) {
        self.schedule.unwanted(|known| known.ptr_eq(pool), now);
        self.settle(core, pool);
    }

    /// A worker of the pool is about to be made.
    pub(super) fn has_room(&mut self, core: &Core, pool: &Arc<Pool>, now: Time) {
        let weak = Arc::downgrade(pool);
        pool.has_room();
        self.schedule.served(|known| known.ptr_eq(&weak), now);
        self.settle(core, &weak);
    }

    /// The pool does not starve. If no other one does, no worker needs to give way.
    fn settle(&self, core: &Core, pool: &Weak<Pool>) {
        if !self.schedule.starves() {
            core.threads.cell.withdraw();
        }
        if let Some(pool) = pool.upgrade() {
            pool.starves_no_more();
        }
    }
}
