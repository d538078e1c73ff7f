//! The engine of rayon computes in rayon's pool, and a oneshot channel sends the result back to the request. Work that
//! blocks would stop rayon's threads, so it goes to tokio's blocking pool.

use ::tokio::sync::oneshot;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Busy, Gate, be_nice, tokio};
use crate::Failure;
use crate::setup::compute_limit;
use crate::work::Work;

pub(crate) struct Engine {
    pool: ThreadPool,
    compute: Gate,
    block: tokio::Engine,
}

impl Engine {
    pub(super) fn start(nice: Option<i32>) -> Result<Self, Failure> {
        let limit = compute_limit();
        let pool = ThreadPoolBuilder::new().num_threads(limit.running);
        let pool = match nice {
            Some(level) => pool.start_handler(move |_| be_nice(level)).build()?,
            None => pool.build()?,
        };
        Ok(Self { pool, compute: Gate::new(limit), block: tokio::Engine::start(nice)? })
    }

    pub(super) async fn run(&self, work: Work) -> Result<u64, Busy> {
        let Work::Compute { .. } = work else { return self.block.run(work).await };
        // Admitted requests wait in rayon's queue. That queue is first-in, first-out for calls from other threads.
        let places = self.compute.admit()?;
        let (tell, told) = oneshot::channel();
        self.pool.spawn_fifo(move || {
            let result = work.run();
            drop(places);
            // If the request does not exist any more, its result is dropped.
            let _ = tell.send(result);
        });
        told.await.map_err(|_| Busy)
    }
}
