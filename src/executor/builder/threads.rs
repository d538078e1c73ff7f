//! Settings of an executor's threads.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::executor::builder::ExecutorBuilder;

impl ExecutorBuilder {
    /// Sets the nice level of normal pools, −20 to 19. The default is the nice level of the process.
    pub fn nice(mut self, level: i32) -> Self {
        self.nice_normal = Some(level);
        self
    }

    /// Sets the nice level of high-priority pools, −20 to 19. Default: −20.
    ///
    /// Without the privilege to raise their priority, workers run at the executor's normal level. If the system denies
    /// that level as well, workers run at the level of the thread that made the executor. The executor logs a denial
    /// once, and [`Executor::dump`](crate::Executor::dump) shows it.
    #[doc(alias = "HIGHPRI_NICE_LEVEL")]
    pub fn high_priority_nice(mut self, level: i32) -> Self {
        self.nice_high = level;
        self
    }

    /// Sets how long a surplus worker stays idle before it ends. Default: 300 s. With zero, the worker ends as soon as
    /// it has nothing to do. [`idle_ratio`](Self::idle_ratio) says which workers are surplus.
    #[doc(alias = "IDLE_WORKER_TIMEOUT")]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_limits.idle_timeout = timeout;
        self
    }

    /// Sets the ratio of busy workers to idle workers. In each pool, [`min_idle`](Self::min_idle) idle workers are
    /// never surplus. The pool keeps `n` more idle workers only while more than `n * ratio` of its workers are busy.
    /// Default: 4.
    #[doc(alias = "MAX_IDLE_WORKERS_RATIO")]
    pub fn idle_ratio(mut self, ratio: NonZeroUsize) -> Self {
        self.idle_limits.idle_ratio = ratio.get();
        self
    }

    /// Sets the number of idle workers of each pool that are never surplus. These workers stay as long as the pool
    /// exists. The number must be at least 2, which is the default: one worker takes the next item, and the other
    /// worker replaces the first one if that item blocks. A pool has that many workers only after it has needed them,
    /// unless the executor [prestarts](Self::prestart) them.
    ///
    /// If the executor has reached [`max_threads`](Self::max_threads), and another pool needs a thread, idle workers
    /// end in spite of this setting.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Bursts of four blocking items, minutes apart, find their threads.
    /// let executor = cmwq::Executor::builder().min_idle(5).prestart(true).build()?;
    /// let queue = cmwq::WorkQueue::builder("bursts").build_on(&executor)?;
    /// # drop(queue);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If `threads` is below 2, [`build`](Self::build) returns
    /// [`BuildExecutorError::MinIdle`](crate::BuildExecutorError::MinIdle).
    pub fn min_idle(mut self, threads: usize) -> Self {
        self.idle_limits.min_idle = threads;
        self
    }

    /// Sets whether the threads of a queue are made together with the queue. Default: false. By default, a pool makes
    /// its first worker when it gets its first item. So the first item of a pool waits about 0.1 ms for a new thread.
    ///
    /// If the setting is true and a queue is built, the executor gives each pool of the queue
    /// [`min_idle`](Self::min_idle) workers, one after the other. Building the queue does not wait for these workers. A
    /// per-CPU queue has a pool for each CPU, so with the default of `min_idle`, the executor makes two threads for
    /// each CPU. An unbound queue has a pool for each pod. The number of threads stays within
    /// [`max_threads`](Self::max_threads). If the system refuses a thread, the pool begins without it. A change of a
    /// queue's attributes makes no threads.
    #[doc(alias = "prestartAllCoreThreads")]
    pub fn prestart(mut self, yes: bool) -> Self {
        self.prestart = yes;
        self
    }

    /// Sets the maximum number of worker threads at any time. The number must be at least 1.
    ///
    /// The default is 512, or 8 for each CPU if that is more. But the default is at most half of the tasks that the
    /// process's cgroups (`pids.max`) and its user (`RLIMIT_NPROC`) may have when the executor is built. In any case,
    /// the default is at least 4 for each CPU, which allows a worker and a spare worker at each of the two priorities.
    ///
    /// At the limit, items wait, but not for ever. If a worker of another pool is idle when a pool needs a thread, the
    /// idle worker ends to make room. A worker that becomes idle later ends at once if a pool has work and no running
    /// worker. If the pools that wait for threads have running workers and only lack more of them, up to a second may
    /// pass before the idle worker ends.
    ///
    /// A pool that has work and no running worker gets the thread of a busy worker of another pool when that worker
    /// ends its item. In the first millisecond of the pool's wait, only a worker whose pool has other running workers
    /// gives its thread away. After this millisecond, any worker can. These threads go alternately to the pool that has
    /// waited longest and to the pool of the highest priority. So of the pools that wait, the pool that has waited
    /// `k`-th longest gets one of the next `2k` threads. The wait for each of these threads has up to four parts: a
    /// millisecond, the time until the first item ends, the hook [`on_thread_stop`](Self::on_thread_stop), and the
    /// creation of a thread.
    ///
    /// However, the items of [plain unbound](crate::WorkQueue::unbound) queues seem to run even while they block. So a
    /// pool of plain unbound queues may give away the thread of the only worker that does run. For this reason, a pool
    /// also counts as a pool without a running worker if it waits for a thread and has started no item for a second.
    /// The executor checks this once a second, so the pool may wait for up to two seconds.
    ///
    /// An item keeps its thread while it blocks. So if the number of blocked items reaches `max_threads`, no item
    /// starts until one of the blocked items returns. If all blocked items wait for items that have not begun, they
    /// deadlock. A single queue allows 256 blocked items on each CPU
    /// ([`max_active`](crate::WorkQueueBuilder::max_active)), which is more than 512 on three CPUs. If that many items
    /// can wait for later items, raise `max_threads`, lower `max_active`, or give the queue of the later items a
    /// [rescuer](crate::WorkQueueBuilder::rescuer).
    ///
    /// The default is 512 because a sleeping thread costs tens of kilobytes of memory, and address space for its stack.
    /// Containers often permit a few thousand tasks, and the program needs some of them. Other thread pools for
    /// blocking work have limits of the same order: 512 in tokio, and 256 beyond the parallelism in Java's common
    /// fork-join pool.
    ///
    /// The executor logs once if work waits for a thread. [`Executor::dump`](crate::Executor::dump) and the metrics
    /// show the limit, and whether it was reached. The manager, [rescuers](crate::WorkQueueBuilder::rescuer) and the
    /// cleaner do not count as workers. (The cleaner drops values that the manager must not drop.) `None` means no
    /// limit.
    pub fn max_threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.max_threads = Some(threads.into().unwrap_or(usize::MAX));
        self
    }

    /// Sets the prefix of thread names. Default: `cmwq`.
    ///
    /// Workers have names like the kernel's: `cmwq/0:1` (CPU 0, worker 1), `cmwq/0:1H` (high priority), `cmwq/u8:2`
    /// (unbound pool 8, worker 2). Linux shows the first 15 bytes of a name.
    pub fn thread_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.name_prefix = prefix.into();
        self
    }

    /// Sets the stack size of workers in bytes, from 16 KiB to 1 GiB (64 MiB on 32-bit systems). The default is that of
    /// `std::thread`, 2 MiB.
    ///
    /// The minimum is just enough for a thread to exist. Items need more stack, and so do the reports of their panics.
    /// The signal handlers of the process, which can run on a worker, also need more. If the system cannot provide a
    /// stack of this size, the thread cannot be made. In that case, work waits, and the executor tries again to make
    /// the thread.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }
}
