//! A queue's rescuer: a thread that is made with the queue, and runs the queue's items while their pools cannot have
//! a worker.
//!
//! It sleeps until a pool in distress calls it. It serves the calling pools in turn, one item at a time, through the
//! same code as a worker. It counts in no pool, and `max_threads` does not limit rescuers.
//!
//! The thread shares the [`Rescuer`] with its queue. It reaches the queue only through an entry that it holds. When
//! it completes the last entry, it may free the queue. That stops the rescuer, and no thread waits for its end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::policy::rescue::gives_way;
use crate::sys::affinity::ThreadId;
use crate::sys::sync::{Condvar, Mutex};

use crate::engine::executor::core::Core;
use crate::engine::executor::threads::Place;
use crate::engine::item::entry::Entry;
use crate::engine::manager::inbox::Request;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::route;
use crate::engine::trace;

use super::worker_thread::{self, WorkerThread};

/// What the thread, its queue and pools in distress share.
#[derive(Debug)]
pub(crate) struct Rescuer {
    calls: Mutex<Calls>,
    called: Condvar,
    /// The name of its thread.
    name: String,
    /// The thread as the system knows it, while it lives.
    system: Mutex<Option<ThreadId>>,
    /// The name of its queue.
    queue: String,
}

#[derive(Debug)]
struct Calls {
    /// Each pool once. The first one is served next.
    pools: VecDeque<Arc<Pool>>,
    stop: bool,
}

/// The queue's side of its rescuer. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnedRescuer(Arc<Rescuer>);

/// An order for a rescuer. The thread that builds its queue waits for the result.
#[derive(Debug)]
pub(crate) struct Order {
    /// The name of its thread.
    name: String,
    queue: String,
    nice: i32,
    result: Mutex<Option<io::Result<OwnedRescuer>>>,
    done: Condvar,
}

impl OwnedRescuer {
    /// Makes the rescuer of the queue `name`: asks the manager for it, and waits. `nice`: the nice level of the
    /// queue's pools.
    ///
    /// # Errors
    ///
    /// If the rescuer or the manager cannot be made. Also if a hook calls this on the manager's own thread, which
    /// would wait for itself.
    pub(crate) fn make(core: &Core, name: &str, nice: i32) -> io::Result<Self> {
        if core.manager.is_current_thread() {
            let because = "a hook on the manager's thread cannot wait for a thread that the manager makes";
            return Err(io::Error::new(io::ErrorKind::Deadlock, because));
        }
        let order = Arc::new(Order {
            name: thread_name(&core.settings.name_prefix, name),
            queue: name.to_owned(),
            nice,
            result: Mutex::new(None),
            done: Condvar::new(),
        });
        if !core.manager.ask(Request::Rescuer(Arc::clone(&order))) {
            let because = "the manager's thread is missing; it is tried again within a second";
            return Err(io::Error::other(because));
        }
        let mut result = order.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => order.done.wait(&mut result),
            }
        }
    }

    /// Stops the thread, because its queue ends. The thread ends after the item that it runs. The caller does not
    /// wait for that.
    pub(crate) fn stop(&self) {
        let mut calls = self.0.calls.lock();
        calls.stop = true;
        let left = std::mem::take(&mut calls.pools);
        drop(calls);
        drop(left);
        self.0.called.notify_all();
    }

    pub(crate) fn shared(&self) -> &Arc<Rescuer> {
        &self.0
    }
}

impl Drop for OwnedRescuer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the name of the thread, formed as in the kernel. Null characters are replaced, since no thread name can
/// hold them.
fn thread_name(prefix: &str, queue: &str) -> String {
    format!("{prefix}/R-{}", queue.replace('\0', "\u{FFFD}"))
}

impl Order {
    /// Makes the rescuer, and wakes the thread that waits for it. Called by the manager.
    pub(crate) fn fulfil(&self, core: &Arc<Core>) {
        let result = self.spawn(core);
        *self.result.lock() = Some(result);
        self.done.notify_all();
    }

    /// Refuses the order, because the executor ends. Called by the manager.
    pub(crate) fn refuse(&self) {
        *self.result.lock() = Some(Err(io::Error::other("the executor ends")));
        self.done.notify_all();
    }

    fn spawn(&self, core: &Arc<Core>) -> io::Result<OwnedRescuer> {
        let rescuer = Arc::new(Rescuer {
            calls: Mutex::new(Calls { pools: VecDeque::new(), stop: false }),
            called: Condvar::new(),
            name: self.name.clone(),
            system: Mutex::new(None),
            queue: self.queue.clone(),
        });
        let (shared, its_core, nice) = (Arc::clone(&rescuer), Arc::clone(core), self.nice);
        Place::of_rescuer(core).spawn(core, self.name.clone(), move || shared.live(&its_core, nice))?;
        Ok(OwnedRescuer(rescuer))
    }
}

impl Rescuer {
    /// Wakes the rescuer for a pool that was listed.
    pub(crate) fn call(&self, pool: &Pool) {
        // Traced first, so that this event comes before those of the rescuer.
        trace::mayday(&self.queue, pool);
        self.called.notify_all();
    }

    /// The name of its thread.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls `ask` with the thread's number, if the thread lives.
    pub(crate) fn with_thread<R>(&self, ask: impl FnOnce(ThreadId) -> R) -> Option<R> {
        self.system.lock().map(ask)
    }

    /// Lists a pool in distress that has work of the queue. The rescuer serves the pool in its turn, if it is
    /// [called](Self::call) or awake. Returns false if the pool is listed already, or the rescuer ends.
    pub(crate) fn list(&self, pool: &Arc<Pool>) -> bool {
        let mut calls = self.calls.lock();
        let new = !calls.stop && !calls.pools.iter().any(|listed| Arc::ptr_eq(listed, pool));
        if new {
            calls.pools.push_back(Arc::clone(pool));
        }
        new
    }

    fn others_wait(&self) -> bool {
        !self.calls.lock().pools.is_empty()
    }

    /// Runs the thread from its beginning to its end.
    fn live(self: Arc<Self>, core: &Core, nice: i32) {
        *self.system.lock() = Some(ThreadId::current());
        worker_thread::set_nice(core, nice);
        core.settings.hooks.started();
        while let Some(pool) = self.next_call() {
            worker_thread::lend(pool, &self, |worker| self.serve(worker));
        }
        core.settings.hooks.stopped();
        *self.system.lock() = None;
    }

    /// Sleeps until a pool calls. Returns `None` if the queue ends.
    fn next_call(&self) -> Option<Arc<Pool>> {
        let mut calls = self.calls.lock();
        loop {
            if calls.stop {
                return None;
            }
            if let Some(pool) = calls.pools.pop_front() {
                return Some(pool);
            }
            self.called.wait(&mut calls);
        }
    }

    /// Runs the queue's items in one pool, until the pool needs no more help or it is another pool's turn.
    fn serve(self: &Arc<Self>, worker: &WorkerThread) {
        let mut rescued = 0;
        while let Some(entry) = worker.pool.take_for(self) {
            if !entry.is_marker() {
                entry.shard().events.rescued.raise();
                trace::rescued(&entry, &worker.pool);
            }
            worker.execute(entry);
            rescued += 1;
            if gives_way(rescued, self.others_wait()) {
                self.list(&worker.pool);
                break;
            }
        }
        worker.pool.relieved();
    }

    /// Submits an entry that got its slot from one that the rescuer has completed, while it serves `pool`. If the
    /// entry's pool is another one and in distress, the rescuer lists that pool itself, and so serves it without a
    /// call.
    #[cold]
    pub(crate) fn hand_on(&self, next: Entry, pool: &Pool) {
        let home = next.shard().pool().shared();
        route::submit(next);
        if !std::ptr::eq(&*home, pool) && home.needs_help() {
            self.list(&home);
        }
    }
}
