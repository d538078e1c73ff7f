//! The engine of tokio is tokio's blocking pool behind semaphores. The documentation of `spawn_blocking` advises
//! limiting the number of computations by a semaphore. So at most as many requests compute as there are CPUs.

use tokio::runtime::{Builder, Handle, Runtime};

use super::{Busy, Gate, be_nice};
use crate::Failure;
use crate::setup::{block_limit, compute_limit};
use crate::work::Work;

pub(crate) struct Engine {
    compute: Gate,
    block: Gate,
    /// A second runtime, whose threads have a nice level. It is separate because a runtime's hooks cannot distinguish
    /// its blocking threads from its other threads.
    apart: Option<Runtime>,
}

impl Engine {
    pub(super) fn start(nice: Option<i32>) -> Result<Self, Failure> {
        let runtime = |level| {
            Builder::new_multi_thread().worker_threads(1).on_thread_start(move || be_nice(level)).build()
        };
        let apart = nice.map(runtime).transpose()?;
        Ok(Self { compute: Gate::new(compute_limit()), block: Gate::new(block_limit()), apart })
    }

    pub(super) async fn run(&self, work: Work) -> Result<u64, Busy> {
        let gate = match work {
            Work::Compute { .. } => &self.compute,
            Work::Block { .. } => &self.block,
        };
        let places = gate.enter().await?;
        let pool = self.apart.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone());
        let call = pool.spawn_blocking(move || {
            let result = work.run();
            drop(places);
            result
        });
        call.await.map_err(|_| Busy)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(runtime) = self.apart.take() {
            runtime.shutdown_background();
        }
    }
}
