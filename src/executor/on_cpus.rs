//! Runs a closure on one CPU, or on each CPU, and waits until it has ended.

use std::sync::Arc;

use crate::engine::item::place::Place;
use crate::engine::queue::places::Kept;
use crate::engine::refusal::QueueError;
use crate::error::RunError;
use crate::executor::Executor;
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

impl Executor {
    pub(crate) fn on_cpu<F, T>(&self, cpu: usize, until: Until, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = self.inner.place_on_cpu(cpu)?;
        let item = self.unlimited("run_on_cpu").spawn_at(place, f).map_err(|(error, _f)| error)?;
        Ok(item.join_until(until).map_err(|_detached| RunError::TimedOut)??)
    }

    pub(crate) fn on_each_cpu<F>(&self, until: Until, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        let placement = &self.inner.placement;
        let (queue, f) = (self.unlimited("run_on_each_cpu"), Arc::new(f));
        let spawn = |index| {
            let (cpu, f) = (placement.cpu(index).cpu, Arc::clone(&f));
            // The executor's bound on pending items does not apply, so that the call runs its closure on all CPUs or on
            // none.
            let queue = queue.handle().queue();
            let spawned = queue.spawn_in(Place::Bound(index), Some(Kept::anyway(queue)), move || f(cpu));
            spawned.map(JoinHandle::new).map_err(|(error, _f)| error)
        };
        let items: Vec<_> = (0..placement.len()).map(spawn).collect();
        // The caller waits for every run, even after another run has failed.
        let join = |item: Result<JoinHandle<()>, QueueError>| {
            Ok(item?.join_until(until).map_err(|_detached| RunError::TimedOut)??)
        };
        let results: Vec<Result<(), RunError>> = items.into_iter().map(join).collect();
        results.into_iter().collect()
    }

    /// Makes a queue for one call. The call submits at most one item for each CPU, so no item waits for the queue's
    /// limit on running items (`max_active`). If calls shared a queue, calls that wait for other calls could use up
    /// this limit.
    fn unlimited(&self, name: &str) -> WorkQueue {
        WorkQueue::per_cpu(name).make_on(self).expect("a per-CPU queue with a name can be built").0
    }
}
