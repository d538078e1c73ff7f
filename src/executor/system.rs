//! The system queues of an executor.

use std::sync::OnceLock;

use crate::executor::Executor;
use crate::queue::WorkQueue;
use crate::queue::builder::WorkQueueBuilder;
use crate::sys::machine;

/// The system queues that have been made. These queues are kept outside of the executor's shared state
/// (`ExecutorInner`). Each queue keeps that state alive, so a queue inside the state would keep itself alive.
#[derive(Default)]
pub(crate) struct SystemQueues {
    pub(crate) events: OnceLock<WorkQueue>,
    pub(crate) highpri: OnceLock<WorkQueue>,
    pub(crate) long: OnceLock<WorkQueue>,
    pub(crate) unbound: OnceLock<WorkQueue>,
    pub(crate) freezable: OnceLock<WorkQueue>,
    pub(crate) power_efficient: OnceLock<WorkQueue>,
    pub(crate) freezable_power_efficient: OnceLock<WorkQueue>,
    pub(crate) bh: OnceLock<WorkQueue>,
    pub(crate) bh_highpri: OnceLock<WorkQueue>,
}

impl Executor {
    /// Returns a system queue. Makes the queue when it is first used.
    pub(crate) fn system_queue(
        &self,
        which: impl FnOnce(&SystemQueues) -> &OnceLock<WorkQueue>,
        builder: impl FnOnce() -> WorkQueueBuilder,
    ) -> &WorkQueue {
        let queue = which(&self.handles.system);
        let make = || builder().make_on(self).expect("the system queues can be built").0;
        match queue.get() {
            Some(queue) => queue,
            // When the process forked, a thread of the parent may have been making the queue. That thread does not
            // exist in the child. So the child makes a queue of its own instead of waiting for the parent's queue.
            None if self.inner.origin.is_forked() => Box::leak(Box::new(make())),
            // On a made-up machine (a simulation for tests), no other thread may run while this thread makes the queue.
            // Another thread could wait for the `OnceLock`, and the machine does not notice such a wait.
            None => queue.get_or_init(|| machine::quietly(make)),
        }
    }
}
