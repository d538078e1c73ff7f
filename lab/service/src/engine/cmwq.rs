//! The engine of cmwq has a queue for each kind of work, on the pools of one executor. A permit of the queue admits a
//! request, and the request awaits the handle of its item.

use cmwq::{Attrs, WorkQueue};

use super::Busy;
use crate::Failure;
use crate::setup::{Limit, block_limit, compute_limit};
use crate::work::Work;

pub(crate) struct Engine {
    compute: WorkQueue,
    block: WorkQueue,
}

impl Engine {
    pub(super) fn start(nice: Option<i32>) -> Result<Self, Failure> {
        let queue = |name: &str, limit: Limit| {
            // `max_pending` counts the items that have not begun.
            WorkQueue::builder(name)
                .max_active_total(limit.running.min(512))
                .max_pending(limit.admitted - limit.running)
        };
        let compute = queue("compute", compute_limit());
        // Only the queue of computations gets a nice level. So each of the two queues has workers of its own, and no
        // worker that has just slept for a request computes.
        let compute = match nice {
            Some(level) => compute.attrs(Attrs::new().nice(level)),
            None => compute,
        };
        Ok(Self { compute: compute.build()?, block: queue("block", block_limit()).build()? })
    }

    pub(super) async fn run(&self, work: Work) -> Result<u64, Busy> {
        match work {
            Work::Compute { .. } => {
                let permit = self.compute.try_reserve().map_err(|_| Busy)?;
                permit.spawn(move || work.run()).map_err(|_| Busy)?.await.map_err(|_| Busy)
            }
            Work::Block { .. } => {
                let permit = self.block.try_reserve().map_err(|_| Busy)?;
                let item = permit.spawn(move || cmwq::blocking(|| work.run()));
                item.map_err(|_| Busy)?.await.map_err(|_| Busy)
            }
        }
    }
}
