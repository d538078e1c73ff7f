//! An executor of one mode, and facts about its threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use cmwq::{BuildExecutorError, Executor, WorkQueue, WorkQueueBuilder};

use crate::mode::Mode;
use crate::procfs;

/// A time limit that is longer than any operation of this program.
const LONG: Duration = Duration::from_secs(60);

pub(crate) const UNLIMITED: &str = "the queue has no limit";
pub(crate) const NO_PANIC: &str = "no item of this example panics";

pub(crate) struct Bed {
    pub(crate) mode: Mode,
    pub(crate) executor: Executor,
    prefix: String,
    workers: Arc<Workers>,
}

#[derive(Default)]
struct Workers {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Bed {
    /// Makes an executor whose thread names have a unique prefix.
    pub(crate) fn new(mode: Mode) -> Result<Self, BuildExecutorError> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // The prefix is short, because the system shows only 15 characters of a thread's name.
        let prefix = format!("u{}", NUMBER.fetch_add(1, Relaxed));
        let workers = Arc::new(Workers::default());
        let (starting, stopping) = (Arc::clone(&workers), Arc::clone(&workers));
        let executor = mode
            .set(Executor::builder())
            .thread_name_prefix(prefix.clone())
            .on_thread_start(move || starting.started())
            .on_thread_stop(move || stopping.stopped())
            .build()?;
        Ok(Self { mode, executor, prefix, workers })
    }

    pub(crate) fn queue(&self, queue: WorkQueueBuilder) -> WorkQueue {
        queue.build_on(&self.executor).expect("the queue has a name, and its limits are valid")
    }

    /// Returns how many CPUs the executor can keep busy.
    pub(crate) fn cpus(&self) -> usize {
        self.executor.cpus().len()
    }

    pub(crate) fn first_cpu(&self) -> usize {
        self.executor.cpus().first().expect("an executor has a CPU")
    }

    /// Returns the least wall-clock time for this much computing on the executor's CPUs.
    pub(crate) fn ideal(&self, work: Duration) -> Duration {
        let cpus = self.cpus() as f64;
        work.div_f64(self.executor.dump().cpu_quota.map_or(cpus, |quota| quota.min(cpus)))
    }

    /// Returns the peak of the number of threads, which are the workers and the manager.
    pub(crate) fn peak_threads(&self) -> usize {
        self.workers.peak.load(Relaxed) + 1
    }

    /// Returns the CPU time of the manager's thread, if the system reports it.
    pub(crate) fn manager_time(&self) -> Option<Duration> {
        procfs::cpu_time(&format!("{}/manager", self.prefix))
    }

    /// Returns how often threads of this executor left a CPU, if the system reports it.
    pub(crate) fn switches(&self) -> Option<u64> {
        procfs::switches(&format!("{}/", self.prefix))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // The executor ends, so that the next figure has the whole machine. All work of the executor is done, so the
        // report of the shutdown is ignored.
        drop(self.executor.shutdown(LONG));
    }
}

impl Workers {
    fn started(&self) {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(now, Relaxed);
    }

    fn stopped(&self) {
        self.now.fetch_sub(1, Relaxed);
    }
}
