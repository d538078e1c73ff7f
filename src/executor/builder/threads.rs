//! Settings of an executor's threads.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::executor::builder::ExecutorBuilder;

impl ExecutorBuilder {
    /// Sets the nice level of normal pools, −20 to 19. Default: that of the process.
    pub fn nice(mut self, level: i32) -> Self {
        self.nice_normal = Some(level);
        self
    }

    /// Sets the nice level of high-priority pools, −20 to 19. Default: −20.
    ///
    /// Without the privilege to raise their priority, workers run at the executor's normal level or, if that is denied
    /// as well, at the level of the thread that made the executor. That is logged once, and
    /// [`Executor::dump`](crate::Executor::dump) shows it.
    #[doc(alias = "HIGHPRI_NICE_LEVEL")]
    pub fn high_priority_nice(mut self, level: i32) -> Self {
        self.nice_high = level;
        self
    }

    /// Sets how long a surplus worker stays idle before it ends. Default: 300 s.
    #[doc(alias = "IDLE_WORKER_TIMEOUT")]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets how many busy workers let a pool keep one more idle worker, besides the two that it always keeps. Default:
    /// 4.
    #[doc(alias = "MAX_IDLE_WORKERS_RATIO")]
    pub fn idle_ratio(mut self, ratio: NonZeroUsize) -> Self {
        self.idle_ratio = ratio.get();
        self
    }

    /// Sets how many worker threads may exist at any time, at least 1.
    ///
    /// Default: 512, or 8 for each CPU if that is more. It is at most half of the tasks that the process's cgroups
    /// (`pids.max`) and its user (`RLIMIT_NPROC`) may have when the executor is built. It is at least 4 for each CPU: a
    /// worker and a spare at each priority.
    ///
    /// At the limit, items wait, but not for ever. Idle workers of other pools end to make room. A pool with work and
    /// no running worker gets the thread of a busy worker of another pool when that worker ends its item: at once if
    /// other workers of that pool run, otherwise after a millisecond. Such threads go in turn to the pool that has
    /// waited longest and to the pool of the highest priority. So of the pools that wait, the `k`-th oldest gets one of
    /// the next `2k` threads. Each of these takes a millisecond, the rest of the first item to end, the hook
    /// [`on_thread_stop`](Self::on_thread_stop), and the making of a thread. The items of a pool may only seem to run,
    /// as blocked items of [plain unbound](crate::WorkQueue::unbound) queues do. When such a pool has started nothing
    /// for a second, it counts as one without a running worker.
    ///
    /// An item keeps its thread while it blocks. So if as many items block as there may be threads, nothing starts
    /// until one of them returns. If all of them wait for items that have not begun, they deadlock. A single queue
    /// allows 256 blocked items on each CPU ([`max_active`](crate::WorkQueueBuilder::max_active)), which is more than
    /// 512 on three CPUs. Where that many items wait for later ones, raise this limit, lower `max_active`, or give the
    /// queue with the later items a [rescuer](crate::WorkQueueBuilder::rescuer).
    ///
    /// The default is 512 because a sleeping thread costs tens of kilobytes of memory, and address space for its stack.
    /// Containers often permit a few thousand tasks, and the program needs some of them. Other pools for blocking work
    /// have limits of that order: tokio's 512, Java's common fork-join pool 256 beyond its parallelism.
    ///
    /// The executor logs once that work waits for a thread. [`Executor::dump`](crate::Executor::dump) and the metrics
    /// show the limit, and whether it was reached. The manager, [rescuers](crate::WorkQueueBuilder::rescuer), and the
    /// cleaner, which drops what the manager must not, do not count as workers. `usize::MAX` means no limit.
    pub fn max_threads(mut self, threads: usize) -> Self {
        self.max_threads = Some(threads);
        self
    }

    /// Sets the prefix of thread names. Default: `cmwq`.
    ///
    /// Workers have names like the kernel's: `cmwq/0:1` (CPU 0, worker 1), `cmwq/0:1H` (high priority), `cmwq/u8:2`
    /// (unbound pool 8, worker 2). Linux shows the first 15 bytes.
    pub fn thread_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.name_prefix = prefix.into();
        self
    }

    /// Sets the stack size of workers, in bytes, 16 KiB to 1 GiB (64 MiB on 32-bit systems). Default: that of
    /// `std::thread`, 2 MiB.
    ///
    /// The minimum suffices for a thread to exist. Items need more, and so do the report of their panics and the signal
    /// handlers of the process, which may run on a worker. If the system cannot give a stack of this size, the thread
    /// cannot be made: work waits, and the executor tries again.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }
}
