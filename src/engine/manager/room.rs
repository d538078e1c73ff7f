//! The executor's cap on threads: which pool waits for a thread, and which pool gives up a thread.
//!
//! The module `policy` decides which pool gets the next thread ([`Line`](crate::policy::room::Line)). The code here
//! makes room for that thread: it sends an idle worker of another pool away, or asks busy workers to give way.

use std::sync::{Arc, Weak};

use crate::policy::room::{Claim, Shortage};
use crate::policy::time::Time;

use crate::engine::executor::upkeep::Upkeep;
use crate::engine::pool::worker_pool::Pool;

use super::manager_thread::ManagerThread;

impl ManagerThread {
    /// If the pool's work waits for a thread, sends an idle worker of another pool away. If no worker is idle and the
    /// pool starves, asks a busy worker to give way. The manager calls this function when the executor has as many
    /// threads as its cap allows.
    pub(super) fn make_room(&mut self, upkeep: &Upkeep, pool: &Arc<Pool>, now: Time) {
        let Some(claim) = self.claim(upkeep, pool, now) else { return };
        let weak = Arc::downgrade(pool);
        self.schedule.no_room(weak.clone(), |known| known.ptr_eq(&weak), claim, now);
        let others = upkeep.pools.all().into_iter().filter(|other| !Arc::ptr_eq(other, pool));
        let idle_leaves = || others.into_iter().any(|other| other.give_up_one());
        if claim.starves {
            upkeep.core.threads.cell.ask(idle_leaves);
        } else {
            let _found = idle_leaves();
            self.settle(upkeep, &weak);
        }
        upkeep.thread_limit_reached();
    }

    /// If the pool's work waits for a thread, puts the pool in the line of pools that wait for a thread. The manager
    /// calls this when another pool gets the next thread.
    pub(super) fn wait_its_turn(&mut self, upkeep: &Upkeep, pool: &Arc<Pool>, now: Time) {
        let Some(claim) = self.claim(upkeep, pool, now) else { return };
        let weak = Arc::downgrade(pool);
        self.schedule.waits_its_turn(weak.clone(), |known| known.ptr_eq(&weak), claim, now);
        if !claim.starves {
            self.settle(upkeep, &weak);
        }
    }

    /// Returns how urgently the pool's work needs a thread, or `None` if no work waits for a thread. The manager calls
    /// this when there is no thread for the pool.
    fn claim(&mut self, upkeep: &Upkeep, pool: &Arc<Pool>, now: Time) -> Option<Claim> {
        let shortage = pool.no_room(now);
        if shortage == Shortage::None {
            self.needs_no_room(upkeep, &Arc::downgrade(pool), now);
            return None;
        }
        Some(Claim { starves: shortage == Shortage::Starves, nice: pool.spec.nice })
    }

    /// Takes the pool out of the line of pools that wait for a thread, because none of the pool's work waits for a
    /// thread.
    pub(super) fn needs_no_room(&mut self, upkeep: &Upkeep, pool: &Weak<Pool>, now: Time) {
        self.schedule.unwanted(|known| known.ptr_eq(pool), now);
        self.settle(upkeep, pool);
    }

    /// Takes the pool out of the line of pools that wait for a thread, because a worker of the pool is about to be
    /// made.
    pub(super) fn has_room(&mut self, upkeep: &Upkeep, pool: &Arc<Pool>, now: Time) {
        let weak = Arc::downgrade(pool);
        pool.has_room();
        self.schedule.served(|known| known.ptr_eq(&weak), now);
        self.settle(upkeep, &weak);
    }

    /// Notes that the pool does not starve. If no other pool starves either, withdraws the request that asks a busy
    /// worker to give way.
    fn settle(&self, upkeep: &Upkeep, pool: &Weak<Pool>) {
        if !self.schedule.starves() {
            upkeep.core.threads.cell.withdraw();
        }
        if let Some(pool) = pool.upgrade() {
            pool.starves_no_more();
        }
    }
}
