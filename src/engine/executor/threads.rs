//! The threads of an executor. Each thread is counted before it is made, and stays counted until it is gone.
//!
//! A thread ends in three steps:
//!
//! 1. The thread's own code ends, and the thread *leaves*: it no longer counts towards `max_threads`.
//! 2. The thread's thread-local destructors run. These destructors are user code, and may wait for items of the same
//!    executor.
//! 3. The thread puts its handle on the list of threads that have *ended*, and counts as *gone*. If the handle does not
//!    exist yet, the thread that is making this thread does this step instead.
//!
//! A shutdown waits until all threads are gone, and joins the threads on the list. The third step comes after all user
//! code as long as the system runs destructors in the order that `sys::thread` relies on. The join of a thread does not
//! rely on the order of destructors, because a joined thread runs no code at all.
//!
//! When a thread ends, it joins each thread on the list that no longer runs any code. The ending thread does not wait
//! for threads on the list that still run code. Because of these joins, the list stays short, and the stacks of culled
//! threads are freed. When the executor is dropped, the threads that are still on the list are detached.

use std::cell::Cell;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, ptr};

use crossbeam_utils::CachePadded;

use crate::policy::threads::{Kind, Threads};
use crate::protocol::threads::ThreadsCell;
use crate::sys::sync::Mutex;
use crate::sys::thread::{self, SignalMask};
use crate::sys::wait::Until;

use crate::engine::manager::inbox::Request;

use super::core::Core;

thread_local! {
    /// The address of the `ExecutorThreads` to which the calling thread belongs. The address is only compared, never
    /// dereferenced. The calling thread holds a reference to these `ExecutorThreads` until all of its thread-local
    /// destructors have run. So no other executor's `ExecutorThreads` can have the same address.
    static OWNER: Cell<*const ExecutorThreads> = const { Cell::new(ptr::null()) };
}

/// The threads of one executor: their counts, and the list of threads that have ended.
#[derive(Debug)]
pub(crate) struct ExecutorThreads {
    /// The counts of threads. Each worker reads these counts between its items. So the counts have a cache line of
    /// their own, apart from fields that are written more often.
    pub(crate) cell: CachePadded<ThreadsCell>, // A
    /// The threads whose thread-local destructors have run, but which have not been joined yet.
    ended: Mutex<Vec<JoinHandle<()>>>, // K
    /// The fallback signal mask for threads that run user code. Such a thread uses this mask if it cannot read the mask
    /// of the main thread when it begins.
    signals: SignalMask, // I
}

/// One thread's place in the executor's counts. The place is taken before the thread is made, and given back when the
/// thread leaves.
#[derive(Debug)]
pub(crate) struct ThreadPlace {
    threads: Arc<ExecutorThreads>,
    /// The reference is weak because a manager may outlive its executor. For a cleaner, the reference is empty.
    core: Weak<Core>,
    kind: Kind,
    /// Whether the thread exists.
    is_made: bool,
}

impl ExecutorThreads {
    pub(crate) fn new() -> Self {
        Self {
            cell: CachePadded::new(ThreadsCell::new()),
            ended: Mutex::new(Vec::new()),
            signals: SignalMask::of_main_thread().unwrap_or_else(|_| SignalMask::of_this_thread()),
        }
    }

    /// Returns the counts of threads. These counts may already be out of date when the caller uses them.
    pub(crate) fn load(&self) -> Threads {
        self.cell.load()
    }

    /// Returns whether the calling thread belongs to this executor. The answer is also true inside the thread's hooks
    /// and thread-local destructors.
    pub(crate) fn has_current_thread(&self) -> bool {
        ptr::eq(OWNER.get(), self)
    }

    /// Waits until all threads have ended. Returns the number of threads that have not ended when the time runs out.
    pub(crate) fn wait(&self, until: Until) -> usize {
        let alive = self.cell.wait(until) as usize;
        // Each thread is on the list before it counts as gone, so `join_ended` misses no thread.
        alive + self.join_ended(until)
    }

    /// Joins the threads on the list of ended threads. Returns the number of these threads that still run when the time
    /// runs out.
    fn join_ended(&self, until: Until) -> usize {
        let ended = std::mem::take(&mut *self.ended.lock());
        let left: Vec<_> = ended.into_iter().filter_map(|ended| thread::join(ended, until).err()).collect();
        let count = left.len();
        self.ended.lock().extend(left);
        count
    }

    /// Counts a thread as gone after its thread-local destructors have run. `own` is the thread's handle.
    fn gone(&self, own: JoinHandle<()>) {
        self.join_ended(Until::after(Duration::ZERO));
        self.ended.lock().push(own);
        self.cell.gone();
    }

    /// Gives the calling thread the signal mask for threads that run user code. Programs and threads that the user code
    /// starts inherit this mask.
    pub(super) fn take_on_signals(&self) {
        SignalMask::of_main_thread().unwrap_or(self.signals).take_on();
    }
}

impl ThreadPlace {
    /// Counts a worker that is about to be made. Returns `None` if there are already as many workers as `max_threads`
    /// permits. After such a refusal, a worker that leaves later tells the manager that there is room for a worker.
    pub(crate) fn of_worker(core: &Arc<Core>) -> Option<Self> {
        let comes = core.threads.cell.worker_comes(core.settings.max_threads as u64);
        comes.then(|| Self::new(core, Kind::Worker))
    }

    /// Counts a rescuer that is about to be made.
    pub(crate) fn of_rescuer(core: &Arc<Core>) -> Self {
        core.threads.cell.rescuer_comes();
        Self::new(core, Kind::Rescuer)
    }

    /// Counts a manager that is about to be made.
    pub(crate) fn of_manager(core: &Arc<Core>) -> Self {
        core.threads.cell.other_comes();
        Self::new(core, Kind::Manager)
    }

    /// Counts a cleaner that is about to be made. The executor may be gone already. The calling thread is one of the
    /// executor's threads, and has not ended.
    pub(crate) fn of_cleaner(threads: &Arc<ExecutorThreads>) -> Self {
        threads.cell.other_comes();
        Self { threads: Arc::clone(threads), core: Weak::new(), kind: Kind::Cleaner, is_made: false }
    }

    fn new(core: &Arc<Core>, kind: Kind) -> Self {
        Self { threads: Arc::clone(&core.threads), core: Arc::downgrade(core), kind, is_made: false }
    }

    /// Makes the thread, unless the hook `before_spawn` forbids it.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be made, or if the hook forbids it. In both cases the thread is no longer
    /// counted.
    pub(crate) fn spawn(
        self,
        core: &Core,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        core.settings.hooks.may_spawn(&name)?;
        self.start(name, core.settings.stack_size, body)
    }

    /// Makes the thread without asking the hook `before_spawn`. `stack_size` applies only to threads that run user
    /// code.
    pub(crate) fn start(
        mut self,
        name: String,
        stack_size: Option<usize>,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let runs_user_code = self.kind != Kind::Manager;
        let stack_size = stack_size.filter(|_| runs_user_code);
        let threads = Arc::clone(&self.threads);
        let end = {
            let threads = Arc::clone(&threads);
            move |own: JoinHandle<()>| threads.gone(own)
        };
        let life = move || {
            self.is_made = true;
            OWNER.set(Arc::as_ptr(&threads));
            if runs_user_code {
                threads.take_on_signals();
            }
            drop(threads);
            body();
            drop(self);
        };
        thread::spawn_to_the_end(name, stack_size, life, end).map(drop)
    }
}

impl Drop for ThreadPlace {
    fn drop(&mut self) {
        let makes_room = self.threads.cell.leaves(self.kind);
        if !self.is_made {
            self.threads.cell.gone();
        }
        if makes_room {
            self.core.upgrade().inspect(|core| _ = core.manager.ask(Request::Room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, TopologySource, WorkQueue};
    use std::cell::RefCell;
    use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

    const LONG: Duration = Duration::from_secs(60);

    thread_local! {
        /// A sender that is dropped with the thread's other thread-local values. The receiver notices the drop.
        static SAYS: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
    }

    /// spec: E5.1, C8: workers end one after another, and a thread that ends later joins those that have ended. The
    /// joins matter because an ended thread keeps its stack until it is joined.
    #[test]
    fn threads_that_have_ended_are_joined_by_threads_that_end_later() {
        const ROUNDS: usize = 50;
        let machine = TopologySource::Synthetic("core:1 pu:1".into());
        let executor = Executor::builder().topology(machine).build().unwrap();
        let threads = Arc::clone(&executor.inner.core.threads);
        for _ in 0..ROUNDS {
            let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
            let (say, said) = channel();
            queue.spawn(move || SAYS.set(Some(say))).unwrap().join().unwrap();
            // When the queue is dropped, its pool is closed, and the pool's workers end.
            drop(queue);
            assert!(said.recv_timeout(LONG).is_err_and(|error| error == RecvTimeoutError::Disconnected));
        }
        // Threads that end at the same time cannot join each other.
        let ended = threads.ended.lock().len();
        assert!(ended <= ROUNDS / 2, "{ended} threads were not joined");
        assert!(executor.shutdown(LONG).unwrap().is_complete());
        assert_eq!((threads.load().alive(), threads.ended.lock().len()), (0, 0));
    }
}
