//! Running something on a certain CPU, or on each, and waiting for it.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::placement::Place;
use crate::sys::wait::Until;
use crate::{Executor, JoinHandle, QueueError, RunOnCpuError, WorkQueue};

impl Executor {
    /// Runs `f` on this CPU and returns what it returns, under a blocking guard meanwhile.
    ///
    /// It runs as an item of the CPU's normal pool, after what waits there, and may itself wait for anything, also for
    /// another such call on the same CPU. A CPU that the executor does not use is served by one near it, as in
    /// [`WorkQueue::queue_on`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::global();
    /// let cpu = executor.cpus().first().unwrap();
    /// let name = executor.run_on_cpu(cpu, || std::thread::current().name().map(str::to_owned))?;
    /// assert!(name.unwrap().starts_with(&format!("cmwq/{cpu}:")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunOnCpuError::Refused`] if there is no such CPU, or the executor accepts nothing any more: `f` has not begun.
    /// [`RunOnCpuError::Failed`] if it panicked, or was dropped by a shutdown.
    #[doc(alias = "work_on_cpu")]
    pub fn run_on_cpu<F, T>(&self, cpu: usize, f: F) -> Result<T, RunOnCpuError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.on_cpu(cpu, Until::FOREVER, f)
    }

    /// As [`run_on_cpu`](Self::run_on_cpu), waiting for so long at most.
    ///
    /// # Errors
    ///
    /// As [`run_on_cpu`](Self::run_on_cpu), and [`RunOnCpuError::TimedOut`]: `f` runs, or goes on, all the same.
    pub fn run_on_cpu_timeout<F, T>(&self, cpu: usize, timeout: Duration, f: F) -> Result<T, RunOnCpuError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.on_cpu(cpu, Until::after(timeout), f)
    }

    fn on_cpu<F, T>(&self, cpu: usize, until: Until, f: F) -> Result<T, RunOnCpuError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = self.inner.place_on_cpu(cpu)?;
        let item = self.unlimited("run_on_cpu").spawn_at(place, f).map_err(|refused| refused.error)?;
        Ok(item.join_until(until).map_err(|_detached| RunOnCpuError::TimedOut)??)
    }

    /// Runs `f` once on each of the executor's CPUs, at the same time where they are free for it, and waits until all
    /// are done, under a blocking guard. `f` gets the CPU's number.
    ///
    /// It runs as items of the CPUs' normal pools, as in [`run_on_cpu`](Self::run_on_cpu).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::{Arc, Mutex};
    ///
    /// let executor = cmwq::Executor::global();
    /// let seen = Arc::new(Mutex::new(cmwq::CpuSet::new()));
    /// let tell = Arc::clone(&seen);
    /// executor.schedule_on_each_cpu(move |cpu| {
    ///     tell.lock().unwrap().insert(cpu);
    /// })?;
    /// assert_eq!(*seen.lock().unwrap(), *executor.cpus());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunOnCpuError::Refused`] if the executor accepts nothing any more, [`RunOnCpuError::Failed`] if `f` panicked
    /// on some CPU: the first such, in their order. It has run to its end on every other CPU that had accepted it.
    pub fn schedule_on_each_cpu<F>(&self, f: F) -> Result<(), RunOnCpuError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.on_each_cpu(Until::FOREVER, f)
    }

    /// As [`schedule_on_each_cpu`](Self::schedule_on_each_cpu), waiting for so long at most, for all of them together.
    ///
    /// # Errors
    ///
    /// As [`schedule_on_each_cpu`](Self::schedule_on_each_cpu), and [`RunOnCpuError::TimedOut`]: `f` runs on the other
    /// CPUs all the same.
    pub fn schedule_on_each_cpu_timeout<F>(&self, timeout: Duration, f: F) -> Result<(), RunOnCpuError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.on_each_cpu(Until::after(timeout), f)
    }

    fn on_each_cpu<F>(&self, until: Until, f: F) -> Result<(), RunOnCpuError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        let placement = &self.inner.placement;
        let (queue, f) = (self.unlimited("schedule_on_each_cpu"), Arc::new(f));
        let spawn = |slot| {
            let (cpu, f) = (placement.slot_info(slot).cpu, Arc::clone(&f));
            queue.spawn_at(Place::Slot(slot), move || f(cpu)).map_err(|refused| refused.error)
        };
        let items: Vec<_> = (0..placement.slots()).map(spawn).collect();
        // Each is waited for, whatever became of the others.
        let join = |item: Result<JoinHandle<()>, QueueError>| {
            Ok(item?.join_until(until).map_err(|_detached| RunOnCpuError::TimedOut)??)
        };
        let results: Vec<Result<(), RunOnCpuError>> = items.into_iter().map(join).collect();
        results.into_iter().collect()
    }

    /// A queue for one call. It runs no more than one item on a CPU, so none of them ever waits for a slot: calls that
    /// wait for calls could use up those of a queue that they share.
    fn unlimited(&self, name: &str) -> WorkQueue {
        WorkQueue::per_cpu(name).make_on(self).expect("a per-CPU queue with a name can be built").0
    }
}
