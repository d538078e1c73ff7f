//! The name of a worker's thread. The thread may bear the name of the queue whose items the worker runs.

use crate::sys;

use crate::engine::queue::workqueue::Queue;

use super::worker_thread::WorkerThread;

impl WorkerThread {
    /// Returns whether an item of this queue may run. If the item may run, and the thread is not lent, also sets the
    /// thread's name for this queue. The worker calls this function only if the queue is unusual, or if the thread
    /// still has the name of another queue.
    #[cold]
    pub(super) fn runs_unusual(&self, queue: &Queue) -> bool {
        if queue.gives_up() {
            return false;
        }
        // A lent thread keeps its name. Often a lent thread is a user's thread, whose name belongs to the user.
        if !self.is_lent() {
            self.take_name_for(Some(queue));
        }
        true
    }

    /// Gives the thread the name of the queue, if the queue asks for this. Otherwise gives the thread its own name
    /// again.
    #[cold]
    pub(super) fn take_name_for(&self, queue: Option<&Queue>) {
        let queue = queue.filter(|queue| queue.spec.names_threads);
        let id = queue.map_or(0, |queue| queue.id);
        if self.named_after.replace(id) == id {
            return;
        }
        match queue {
            Some(queue) => sys::thread::set_name(queue.name()),
            None => sys::thread::take_own_name(),
        }
    }
}
