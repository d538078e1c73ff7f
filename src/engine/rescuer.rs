//! A queue's rescuer: a thread that was made with the queue, and runs its items while their pools cannot have a worker.
//!
//! It sleeps until a pool in distress calls it, and serves the pools that did in turn, one item at a time, through the
//! same code as a worker. It counts in no pool, and is none of the threads that `max_threads` permits.
//!
//! The thread shares the [`Rescuer`] with the queue, and never touches the queue but by an entry in its hands: the last
//! one may free it. That stops the rescuer, and nobody waits for its end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::policy::rescue::gives_way;
use crate::sys::affinity::ThreadId;
use crate::sys::sync::{Condvar, Mutex};

use super::core::Core;
use super::entry::Entry;
use super::manager::Request;
use super::pool::Pool;
use super::route;
use super::threads::Place;
use super::trace;
use super::worker::{self, WorkerThread};

/// What the thread, its queue and pools in distress share.
#[derive(Debug)]
pub(crate) struct Rescuer {
    calls: Mutex<Calls>,
    called: Condvar,
    /// The name of its thread.
    name: String,
    /// Its thread, as long as that lives.
    system: Mutex<Option<ThreadId>>,
    /// The name of its queue.
    queue: String,
}

#[derive(Debug)]
struct Calls {
    /// Each pool once, the first to be served next.
    pools: VecDeque<Arc<Pool>>,
    stop: bool,
}

/// The queue's side of its rescuer: the thread ends with it.
#[derive(Debug)]
pub(crate) struct OwnedRescuer(Arc<Rescuer>);

/// A rescuer that somebody waits for.
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
    /// Has the rescuer of the queue `name` made by the manager, and waits for it. `nice`: the level of the queue's
    /// pools.
    ///
    /// # Errors
    ///
    /// If it, or the manager, cannot be made; and on the manager's own thread, in a hook: it would wait for itself.
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
            return Err(io::Error::other("the manager's thread cannot be made"));
        }
        let mut result = order.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => order.done.wait(&mut result),
            }
        }
    }

    /// Its queue is done with: the thread ends after the item that it runs. Nobody waits for that.
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

/// As the kernel forms it. What no thread name can hold is replaced.
fn thread_name(prefix: &str, queue: &str) -> String {
    format!("{prefix}/R-{}", queue.replace('\0', "\u{FFFD}"))
}

impl Order {
    /// On the manager's thread: makes the rescuer, and tells who waits.
    pub(crate) fn fulfil(&self, core: &Arc<Core>) {
        let result = self.spawn(core);
        *self.result.lock() = Some(result);
        self.done.notify_all();
    }

    /// On the manager's thread, which ends.
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
    /// This pool has listed itself.
    pub(crate) fn call(&self, pool: &Pool) {
        // Told first: the rescuer tells of what it does.
        trace::mayday(&self.queue, pool);
        self.called.notify_all();
    }

    /// The name of its thread.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Asks something about its thread, if that lives.
    pub(crate) fn with_thread<R>(&self, ask: impl FnOnce(ThreadId) -> R) -> Option<R> {
        self.system.lock().map(ask)
    }

    /// A pool in distress has work of the queue: it is served in its turn, if the rescuer is [called](Self::call) or awake.
    /// False if it waits for the rescuer already, or nobody will come any more.
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

    /// The whole life of the thread.
    fn live(self: Arc<Self>, core: &Core, nice: i32) {
        *self.system.lock() = Some(ThreadId::current());
        worker::set_nice(core, nice);
        core.settings.hooks.started();
        while let Some(pool) = self.next_call() {
            worker::lend(pool, &self, |worker| self.serve(worker));
        }
        core.settings.hooks.stopped();
        *self.system.lock() = None;
    }

    /// Sleeps until a pool calls. `None` if the queue is done with.
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

    /// Runs the queue's items in one pool as long as that needs help, or until it is another one's turn.
    fn serve(self: &Arc<Self>, worker: &WorkerThread) {
        let mut rescued = 0;
        while let Some(entry) = worker.pool.take_for(self) {
            if !route::is_marker(&entry) {
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

    /// The entry that got the slot of one that the rescuer has completed, while it serves `pool`. It takes its place in
    /// line; if that is in another pool in distress, the rescuer goes there without being called.
    #[cold]
    pub(crate) fn hand_on(&self, next: Entry, pool: &Pool) {
        let home = next.shard().pool().shared();
        route::submit(next);
        if !std::ptr::eq(&*home, pool) && home.needs_help() {
            self.list(&home);
        }
    }
}
