//! The kernel's operations on an executor.

use std::time::Duration;

use crate::error::RunError;
use crate::executor::Executor;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

use super::builders::WorkQueueBuilderExt;
use super::{Sealed, bh};

/// The kernel's operations on an [`Executor`]: its system queues, freezing, and calls on chosen CPUs.
///
/// Any code that holds a handle to the executor can share the system queues if it needs no queue of its own. A system
/// queue is made when it is first used, and lives as long as a handle to the executor exists. Accepted items run even
/// after the last handle is dropped. A separate queue costs no more than a system queue, has its own slots, and can be
/// flushed without waiting for items of other parts of the program. Draining, destroying or freezing a system queue
/// affects every part of the program that uses the queue. So only code that controls the whole program should drain,
/// destroy or freeze a system queue.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::kernel::ExecutorExt;
///
/// let executor = cmwq::Executor::builder().build()?;
/// let answer = executor.events().spawn(|| 6 * 7)?;
/// assert_eq!(answer.join()?, 42);
/// for queue in [
///     executor.events_highpri(),
///     executor.events_long(),
///     executor.events_unbound(),
///     executor.events_freezable(),
///     executor.events_power_efficient(),
///     executor.events_freezable_power_efficient(),
///     executor.events_bh(),
///     executor.events_bh_highpri(),
/// ] {
///     queue.spawn_detached(|| println!("{:?}", cmwq::current_queue_name()))?;
///     queue.flush()?;
/// }
/// # Ok(())
/// # }
/// ```
pub trait ExecutorExt: Sealed {
    /// Returns the per-CPU queue for short items.
    #[doc(alias = "system_percpu_wq")]
    #[doc(alias = "system_wq")]
    #[doc(alias = "schedule_work")]
    #[must_use]
    fn events(&self) -> &WorkQueue;

    /// Returns a queue like [`events`](Self::events), but with high priority.
    #[doc(alias = "system_highpri_wq")]
    #[must_use]
    fn events_highpri(&self) -> &WorkQueue;

    /// Returns a queue like [`events`](Self::events), but for long items. A flush of `events` does not wait for these
    /// items.
    #[doc(alias = "system_long_wq")]
    #[must_use]
    fn events_long(&self) -> &WorkQueue;

    /// Returns the unbound queue, whose items start as soon as possible. At most 512 of the items that were queued on
    /// the same CPU are active at a time.
    #[doc(alias = "system_dfl_wq")]
    #[doc(alias = "system_unbound_wq")]
    #[must_use]
    fn events_unbound(&self) -> &WorkQueue;

    /// Returns a queue like [`events`](Self::events), but freezable.
    #[doc(alias = "system_freezable_wq")]
    #[must_use]
    fn events_freezable(&self) -> &WorkQueue;

    /// Returns a queue like [`events`](Self::events), but unbound if the executor was built as
    /// [`power_efficient`](super::ExecutorBuilderExt::power_efficient).
    #[doc(alias = "system_power_efficient_wq")]
    #[must_use]
    fn events_power_efficient(&self) -> &WorkQueue;

    /// Returns a queue like [`events_power_efficient`](Self::events_power_efficient), but freezable.
    #[doc(alias = "system_freezable_power_efficient_wq")]
    #[must_use]
    fn events_freezable_power_efficient(&self) -> &WorkQueue;

    /// Returns the bh queue, for short items that must not block. See [`bh`](super::bh).
    #[doc(alias = "system_bh_wq")]
    #[must_use]
    fn events_bh(&self) -> &WorkQueue;

    /// Returns a queue like [`events_bh`](Self::events_bh), but with high priority.
    #[doc(alias = "system_bh_highpri_wq")]
    #[must_use]
    fn events_bh_highpri(&self) -> &WorkQueue;

    /// Freezes the queues that were built as [`freezable`](super::WorkQueueBuilderExt::freezable), so that no more of
    /// their items start. Active items continue, and [`freeze_busy`](Self::freeze_busy) tells whether any item is still
    /// active. Frozen queues still accept items, which wait in order until the executor [thaws](Self::thaw). A flush
    /// waits for these items, too. If a freezable queue is built on a frozen executor, the queue is frozen from the
    /// start.
    ///
    /// Freeze the executor while its items must change nothing, for example during a snapshot of the process or a
    /// switch of its storage. The call does nothing if the executor is frozen already. When the last clone of the
    /// executor is dropped, the executor thaws by itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
    /// use cmwq::{Executor, WorkQueue};
    ///
    /// let executor = Executor::builder().build()?;
    /// let writes = WorkQueue::ordered("writes").freezable(true).build_on(&executor)?;
    /// executor.freeze_begin();
    /// let write = writes.spawn(|| "written")?;
    /// assert!(!executor.freeze_busy(), "it has not begun, and will not");
    /// executor.thaw();
    /// assert_eq!(write.join()?, "written");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "freeze_workqueues_begin")]
    fn freeze_begin(&self);

    /// Returns whether an item of a freezable queue is still active. Once this method has returned false, it returns
    /// false until the executor is thawed. There is one exception: after [`destroy_now`](WorkQueue::destroy_now) of a
    /// frozen queue, items that arrive late count as active until a worker reaches and cancels them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::kernel::ExecutorExt;
    /// use std::time::Duration;
    ///
    /// let executor = cmwq::Executor::builder().build()?;
    /// executor.freeze_begin();
    /// while executor.freeze_busy() {
    ///     std::thread::sleep(Duration::from_millis(1));
    /// }
    /// // No item of the freezable queues runs here.
    /// executor.thaw();
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "freeze_workqueues_busy")]
    #[must_use]
    fn freeze_busy(&self) -> bool;

    /// Thaws freezable queues. The items of these queues start again, in order and within the limits, including limits
    /// that were set while the queues were frozen. The items of each queue start in the same order as after
    /// [`set_max_active`](crate::WorkQueue::set_max_active). Does nothing if the executor is not frozen.
    #[doc(alias = "thaw_workqueues")]
    fn thaw(&self);

    /// Runs `f` on the given CPU, and waits for the end of `f` under a blocking guard. Returns the result of `f`.
    ///
    /// `f` runs as an item of the CPU's normal pool, after the items that already wait in this pool. `f` may block on
    /// anything, including another call of `run_on_cpu` for the same CPU. If the executor does not use the given CPU,
    /// another CPU runs `f`, as with [`Submission::on_cpu`](crate::Submission::on_cpu).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::kernel::ExecutorExt;
    ///
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
    /// Returns [`RunError::Refused`] if the topology has no such CPU, or if the executor is shut down. If the method
    /// returns `Refused`, `f` does not run. Returns [`RunError::Failed`] if `f` panicked, or if a shutdown dropped `f`
    /// without a run.
    #[doc(alias = "work_on_cpu")]
    fn run_on_cpu<F, T>(&self, cpu: usize, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// Does the same as [`run_on_cpu`](Self::run_on_cpu), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::kernel::ExecutorExt;
    /// use std::time::Duration;
    ///
    /// let executor = cmwq::Executor::global();
    /// let cpu = executor.cpus().iter().next().expect("an executor has a CPU");
    /// assert_eq!(executor.run_on_cpu_timeout(cpu, Duration::from_secs(60), || 6 * 7)?, 42);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run_on_cpu`](Self::run_on_cpu). Returns [`RunError::TimedOut`] if `f` has not ended in
    /// time. A timeout does not cancel `f`: `f` continues, or begins later.
    fn run_on_cpu_timeout<F, T>(&self, cpu: usize, timeout: Duration, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// Runs `f` once on each of the executor's CPUs, with the CPU's number, and waits under a blocking guard until all
    /// runs have ended. The runs overlap if the CPUs are free.
    ///
    /// `f` runs as items of the CPUs' normal pools, as in [`run_on_cpu`](Self::run_on_cpu). The executor's
    /// [`max_pending`](crate::ExecutorBuilder::max_pending) does not apply to these items.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::kernel::ExecutorExt;
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
    /// panicked on a CPU. If `f` panicked on several CPUs, the error carries the panic of the CPU with the lowest
    /// number. When the call returns, the runs on all other CPUs have ended, too.
    #[doc(alias = "schedule_on_each_cpu")]
    fn run_on_each_cpu<F>(&self, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static;

    /// Does the same as [`run_on_each_cpu`](Self::run_on_each_cpu), but waits for `timeout` at most. The timeout
    /// applies to the runs on all CPUs together.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::kernel::ExecutorExt;
    /// use std::time::Duration;
    ///
    /// cmwq::Executor::global().run_on_each_cpu_timeout(Duration::from_secs(60), |cpu| println!("CPU {cpu}"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run_on_each_cpu`](Self::run_on_each_cpu). Returns [`RunError::TimedOut`] if not all runs
    /// have ended in time. A timeout does not cancel the remaining runs: they continue, or begin later.
    fn run_on_each_cpu_timeout<F>(&self, timeout: Duration, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static;
}

impl Sealed for Executor {}

impl ExecutorExt for Executor {
    fn events(&self) -> &WorkQueue {
        self.system_queue(|queues| &queues.events, || WorkQueue::per_cpu("events"))
    }

    fn events_highpri(&self) -> &WorkQueue {
        self.system_queue(
            |queues| &queues.highpri,
            || WorkQueue::per_cpu("events_highpri").high_priority(true),
        )
    }

    fn events_long(&self) -> &WorkQueue {
        self.system_queue(|queues| &queues.long, || WorkQueue::per_cpu("events_long"))
    }

    fn events_unbound(&self) -> &WorkQueue {
        self.system_queue(|queues| &queues.unbound, || WorkQueue::unbound("events_unbound").max_active(512))
    }

    fn events_freezable(&self) -> &WorkQueue {
        self.system_queue(
            |queues| &queues.freezable,
            || WorkQueue::per_cpu("events_freezable").freezable(true),
        )
    }

    fn events_power_efficient(&self) -> &WorkQueue {
        let builder = || WorkQueue::per_cpu("events_power_efficient").power_efficient(true);
        self.system_queue(|queues| &queues.power_efficient, builder)
    }

    fn events_freezable_power_efficient(&self) -> &WorkQueue {
        let builder =
            || WorkQueue::per_cpu("events_freezable_power_efficient").power_efficient(true).freezable(true);
        self.system_queue(|queues| &queues.freezable_power_efficient, builder)
    }

    fn events_bh(&self) -> &WorkQueue {
        self.system_queue(|queues| &queues.bh, || bh("events_bh"))
    }

    fn events_bh_highpri(&self) -> &WorkQueue {
        self.system_queue(|queues| &queues.bh_highpri, || bh("events_bh_highpri").high_priority(true))
    }

    fn freeze_begin(&self) {
        self.inner.freeze(true);
    }

    fn freeze_busy(&self) -> bool {
        self.inner.freeze_busy()
    }

    fn thaw(&self) {
        self.inner.freeze(false);
    }

    fn run_on_cpu<F, T>(&self, cpu: usize, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.on_cpu(cpu, Until::FOREVER, f)
    }

    fn run_on_cpu_timeout<F, T>(&self, cpu: usize, timeout: Duration, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.on_cpu(cpu, Until::after(timeout), f)
    }

    fn run_on_each_cpu<F>(&self, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.on_each_cpu(Until::FOREVER, f)
    }

    fn run_on_each_cpu_timeout<F>(&self, timeout: Duration, f: F) -> Result<(), RunError>
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.on_each_cpu(Until::after(timeout), f)
    }
}
