//! How many threads an executor has, and what they are like.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::ExecutorBuilder;

impl ExecutorBuilder {
    /// The nice level of normal pools, −20 to 19. Default: that of the process.
    pub fn nice(mut self, level: i32) -> Self {
        self.nice_normal = Some(level);
        self
    }

    /// The nice level of high-priority pools, −20 to 19. Default: −20.
    ///
    /// Without the privilege to raise their priority, workers run at the executor's normal level or, if that is denied
    /// as well, at the level of the thread that made the executor. That is logged once and shown by
    /// [`Executor::dump`](crate::Executor::dump).
    #[doc(alias = "HIGHPRI_NICE_LEVEL")]
    pub fn high_priority_nice(mut self, level: i32) -> Self {
        self.nice_high = level;
        self
    }

    /// How long a superfluous worker stays idle before it leaves. Default: 300 s.
    #[doc(alias = "IDLE_WORKER_TIMEOUT")]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// A pool keeps two idle workers, and one more for so many busy ones. Default: 4.
    #[doc(alias = "MAX_IDLE_WORKERS_RATIO")]
    pub fn idle_ratio(mut self, ratio: NonZeroUsize) -> Self {
        self.idle_ratio = ratio.get();
        self
    }

    /// The most worker threads at any time, at least 1. Default: 512, or 8 for each CPU if that is more; at most half of the
    /// tasks that the process's cgroups (`pids.max`) and its user (`RLIMIT_NPROC`) may have when the executor is built; at
    /// least 4 for each CPU, a worker and a spare at each priority.
    ///
    /// At the limit, items wait, but none for ever. Idle workers of other pools make room. A pool with work and no running
    /// worker gets the thread of a busy worker of another pool, when that worker ends its item: at once if other workers of
    /// that pool run, else after a millisecond. Every second such thread goes to the pool that has waited longest, every other
    /// one to the pool of the highest priority. So of pools that wait, the `k`-th oldest gets one of the next `2k` threads,
    /// each of which takes a millisecond, the rest of the first item to end, the hook
    /// [`on_thread_stop`](Self::on_thread_stop), and the making of a thread. A pool whose items seem to run, as blocked ones of
    /// [plain unbound](crate::WorkQueue::unbound) queues do, counts as one without a running worker when it has begun nothing
    /// for a second.
    ///
    /// An item keeps its thread while it blocks. So with as many items blocked as there may be threads, nothing runs until one
    /// of them returns: if all of them wait for an item that has not begun, that is a deadlock. A single queue allows 256
    /// blocked items on each CPU ([`max_active`](crate::WorkQueueBuilder::max_active)), more than 512 on three CPUs. Where that many
    /// items wait for later ones, raise this limit, lower `max_active`, or give the queue with the later items a
    /// [rescuer](crate::WorkQueueBuilder::rescuer).
    ///
    /// Why 512: a thread that sleeps costs tens of kilobytes of memory, and its stack's size in addresses. Containers often permit a
    /// few thousand tasks, and the program needs some of them. Other pools for work that blocks have limits of that order:
    /// tokio's 512, Java's common fork-join pool 256 beyond its parallelism.
    ///
    /// That work waits for a thread is logged once; the limit, and whether it was reached, are in
    /// [`Executor::dump`](crate::Executor::dump) and among the metrics. The manager,
    /// [rescuers](crate::WorkQueueBuilder::rescuer), and the cleaner, which destroys what the manager must not, are no
    /// workers. `usize::MAX` is no limit.
    pub fn max_threads(mut self, threads: usize) -> Self {
        self.max_threads = Some(threads);
        self
    }

    /// What the names of the threads begin with. Default: `cmwq`.
    ///
    /// Workers are named as the kernel's: `cmwq/0:1` (CPU 0, worker 1), `cmwq/0:1H` (high priority), `cmwq/u8:2`
    /// (unbound pool 8, worker 2). Linux shows 15 bytes of it.
    pub fn thread_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.name_prefix = prefix.into();
        self
    }

    /// The stack size of workers, in bytes, 16 KiB to 1 GiB (64 MiB on 32-bit systems). Default: that of
    /// `std::thread`, 2 MiB.
    ///
    /// The least is what a thread needs to exist; items, and what reports their panics, need more, and so do signal handlers
    /// of the process, which may run on a worker. If the system cannot
    /// give a stack within these bounds, that is a thread that cannot be made: work waits, and it is tried again.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }
}
