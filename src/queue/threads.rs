//! The thread that belongs to a queue (its rescuer), and the names of the threads that run a queue's items.

use crate::blocking;
use crate::engine::pool::calls::OwnedRescuer;
use crate::engine::queue::workqueue::QueueKind;
use crate::error::BuildQueueError;
use crate::executor::Executor;
use crate::queue::builder::WorkQueueBuilder;

impl WorkQueueBuilder {
    /// Sets whether threads have the queue's name while they run its items. Default: false.
    ///
    /// The system's tools then show which queue uses a CPU: `top -H`, `perf`, and the file
    /// `/proc/<process>/task/<thread>/comm`. Linux shows the first 15 bytes of a name. The thread has its own name
    /// again before it sleeps or runs an item of another queue. [`std::thread::Thread::name`] always returns the
    /// thread's own name. On systems other than Linux, this setting does nothing.
    ///
    /// Each change of the name costs a system call. If a thread runs several items of the same queue in a row, it
    /// changes its name only once for all of them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::builder("thumbnails").name_threads(true).build()?;
    /// let name = queue.spawn(|| std::fs::read_to_string("/proc/thread-self/comm"))?.join()?;
    /// println!("{name:?}"); // Ok("thumbnails\n")
    /// # Ok(())
    /// # }
    /// ```
    pub fn name_threads(mut self, yes: bool) -> Self {
        self.name_threads = yes;
        self
    }

    pub(super) fn make_rescuer(
        &self,
        kind: &QueueKind,
        executor: &Executor,
    ) -> Result<OwnedRescuer, BuildQueueError> {
        let executor = &executor.inner;
        let nice = match kind {
            QueueKind::PerCpu { high: true } | QueueKind::Bh { high: true } => executor.nice.high,
            QueueKind::PerCpu { high: false } | QueueKind::Bh { high: false } => executor.nice.normal,
            QueueKind::Unbound(attrs) => attrs.nice,
        };
        blocking(|| OwnedRescuer::make(&executor.core, &self.name, nice))
            .map_err(|error| BuildQueueError::Rescuer { kind: error.kind(), message: error.to_string() })
    }
}
