//! Calls for help: the state that a queue, its rescuer, and pools in distress share. A pool is in distress if its work
//! waits for a worker that cannot be made.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::sys::affinity::ThreadId;
use crate::sys::sync::{Condvar, Mutex};

use crate::engine::executor::core::Core;
use crate::engine::manager::inbox::Request;

use super::worker_pool::Pool;

/// The state that a rescuer's thread, its queue, and pools in distress share.
#[derive(Debug)]
pub(crate) struct Rescuer {
    pub(crate) calls: Mutex<Calls>, // K
    pub(crate) called: Condvar,     // K
    /// The name of the rescuer's thread.
    pub(crate) name: String, // I
    /// The system's id of the rescuer's thread while that thread lives.
    pub(crate) system: Mutex<Option<ThreadId>>, // K
    /// The name of the rescuer's queue.
    pub(crate) queue: String, // I
}

#[derive(Debug)]
pub(crate) struct Calls {
    /// The pools that the rescuer is to serve. Each pool is listed once, and the first pool is served next.
    pub(crate) pools: VecDeque<Arc<Pool>>,
    pub(crate) stop: bool,
}

/// The queue's reference to its rescuer. The rescuer's thread ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct OwnedRescuer(pub(crate) Arc<Rescuer>);

/// An order to the manager to make a rescuer. The thread that builds the rescuer's queue waits for the order's result.
#[derive(Debug)]
pub(crate) struct Order {
    /// The name of the rescuer's thread.
    pub(crate) name: String, // I
    pub(crate) queue: String,                                   // I
    pub(crate) nice: i32,                                       // I
    pub(crate) result: Mutex<Option<io::Result<OwnedRescuer>>>, // K
    pub(crate) done: Condvar,                                   // K
}

impl OwnedRescuer {
    /// Asks the manager to make the rescuer of the queue `name`, and waits for the result. `nice` is the nice level of
    /// the queue's pools.
    ///
    /// # Errors
    ///
    /// Returns an error if the rescuer or the manager cannot be made. Also returns an error if a hook calls this
    /// function on the manager's own thread, because that thread would wait for itself.
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

    /// Tells the rescuer's thread to end, because the rescuer's queue ends. The thread first finishes the item that it
    /// is running. The caller does not wait for the thread.
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

/// Returns the name of the rescuer's thread, in the form of the kernel's names. Replaces null characters in the queue's
/// name, because no thread name can hold them.
fn thread_name(prefix: &str, queue: &str) -> String {
    format!("{prefix}/R-{}", queue.replace('\0', "\u{FFFD}"))
}

impl Order {
    /// Refuses the order, because the executor ends. The manager calls this function.
    pub(crate) fn refuse(&self) {
        *self.result.lock() = Some(Err(io::Error::other("the executor ends")));
        self.done.notify_all();
    }
}

impl Rescuer {
    /// Returns the name of the rescuer's thread.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls `ask` with the id of the rescuer's thread, if that thread lives.
    pub(crate) fn with_thread<R>(&self, ask: impl FnOnce(ThreadId) -> R) -> Option<R> {
        self.system.lock().map(ask)
    }

    /// Adds a pool in distress to the rescuer's list. The pool has work of the rescuer's queue. If the rescuer is awake
    /// or is [called](Self::call), it serves the pool when the pool's turn comes. Returns false if the pool is already
    /// listed, or if the rescuer was told to end.
    pub(crate) fn list(&self, pool: &Arc<Pool>) -> bool {
        let mut calls = self.calls.lock();
        let new = !calls.stop && !calls.pools.iter().any(|listed| Arc::ptr_eq(listed, pool));
        if new {
            calls.pools.push_back(Arc::clone(pool));
        }
        new
    }

    pub(crate) fn others_wait(&self) -> bool {
        !self.calls.lock().pools.is_empty()
    }
}
