//! Runs a closure on one CPU, or on each CPU, and waits until it has ended.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::item::place::Place;
use crate::engine::refusal::QueueError;
use crate::error::RunError;
use crate::executor::Executor;
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

impl Executor {
    /// Runs `f` on the given CPU, and waits for the end of `f` under a blocking guard. Returns the result of `f`.
    ///
    /// `f` runs as an item of the CPU's normal pool, after the items that wait there. `f` may block on anything,
    /// including another such call on the same CPU. If the executor does not use the given CPU, another CPU runs `f`,
    /// as with [`Submission::on_cpu`](crate::Submission::on_cpu).
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
    /// Returns [`RunError::Refused`] if the topology has no such CPU, or if the executor is shut down. Then `f`
    /// has not begun. Returns [`RunError::Failed`] if `f` panicked, or if a shutdown dropped it.
    #[doc(alias = "work_on_cpu")]
    pub fn run_on_cpu<F, T>(&self, cpu: usize, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.on_cpu(cpu, Until::FOREVER, f)
    }

    /// Does the same as [`run_on_cpu`](Self::run_on_cpu), but waits for `timeout` at most.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run_on_cpu`](Self::run_on_cpu). Returns [`RunError::TimedOut`] if `f` has not ended
    /// in time. In that case, `f` still begins or goes on.
    pub fn run_on_cpu_timeout<F, T>(&self, cpu: usize, timeout: Duration, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.on_cpu(cpu, Until::after(timeout), f)
    }

    fn on_cpu<F, T>(&self, cpu: usize, until: Until, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = self.inner.place_on_cpu(cpu)?;
        let item = self.unlimited("run_on_cpu").spawn_at(place, f).map_err(|(error, _f)| error)?;
        Ok(item.join_until(until).map_err(|_detached| RunError::TimedOut)??)
    }

    /// Runs `f` once on each of the executor's CPUs, with the CPU's number, and waits under a blocking guard until all
    /// runs have ended. The runs overlap if the CPUs are free.
    ///
    /// `f` runs as items of the CPUs' normal pools, as in [`run_on_cpu`](Self::run_on_cpu).
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
    /// executor.run_on_each_cpu(move |cpu| {
    ///     tell.lock().unwrap().insert(cpu);
    /// })?;
    /// assert_eq!(*seen.lock().unwrap(), *executor.cpus());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`RunError::Refused`] if the executor is shut down. Returns [`RunError::Failed`] if `f`
    /// panicked on a CPU. If `f` panicked on several CPUs, the error carries the panic of the one with the lowest
    /// number. When the call returns, the runs on all other CPUs have ended, too.
    #[doc(alias = "schedule_on_each_cpu")]
    pub fn run_on_each_cpu<F>(&self, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.on_each_cpu(Until::FOREVER, f)
    }

    /// Does the same as [`run_on_each_cpu`](Self::run_on_each_cpu), but waits for `timeout` at most, for all
    /// CPUs together.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run_on_each_cpu`](Self::run_on_each_cpu). Returns [`RunError::TimedOut`]
    /// if not all runs have ended in time. In that case, the remaining runs still begin or go on.
    pub fn run_on_each_cpu_timeout<F>(&self, timeout: Duration, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.on_each_cpu(Until::after(timeout), f)
    }

    fn on_each_cpu<F>(&self, until: Until, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        let placement = &self.inner.placement;
        let (queue, f) = (self.unlimited("run_on_each_cpu"), Arc::new(f));
        let spawn = |slot| {
            let (cpu, f) = (placement.slot_info(slot).cpu, Arc::clone(&f));
            queue.spawn_at(Place::Slot(slot), move || f(cpu)).map_err(|(error, _f)| error)
        };
        let items: Vec<_> = (0..placement.slots()).map(spawn).collect();
        // The caller waits for every run, even after another run has failed.
        let join = |item: Result<JoinHandle<()>, QueueError>| {
            Ok(item?.join_until(until).map_err(|_detached| RunError::TimedOut)??)
        };
        let results: Vec<Result<(), RunError>> = items.into_iter().map(join).collect();
        results.into_iter().collect()
    }

    /// Makes a queue for one call. The queue runs at most one item on each CPU, so no item waits for a slot. If calls
    /// shared a queue, calls that wait for other calls could use up its slots.
    fn unlimited(&self, name: &str) -> WorkQueue {
        WorkQueue::per_cpu(name).make_on(self).expect("a per-CPU queue with a name can be built").0
    }
}
