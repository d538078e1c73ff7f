//! The tree of cancellation: the cancel of a node reaches all nodes below it.
//!
//! A node is a [`Signal`], which is set when the node is cancelled, and a list of its children. A thread that cancels a
//! node first sets the signal, and then takes all children off the list and cancels them. A thread that adds a child
//! checks the signal while it holds the lock of the list:
//!
//! * If it takes the lock before the canceller does, the canceller finds the child on the list.
//! * If it takes the lock later, it finds the signal set, because the lock orders the two threads. The child is then
//!   cancelled from the beginning.
//!
//! If the canceller took the children off first, or if the check were made before the lock is taken, this could happen:
//!
//! * canceller: takes all children off the list;
//! * other thread: finds the signal not set, and adds a child;
//! * canceller: sets the signal. The new child is never cancelled.
//!
//! The list holds a strong reference to each child, and a child that is no longer needed is [removed](CancelNode::forget)
//! from the list of its parent. So the memory of a tree depends only on the nodes that are in use.

use std::collections::BTreeMap;

use crate::sys::sync::{Arc, Mutex};
use crate::sys::wait::Until;
use crate::sys::wakers::{Alarm, Watcher};

use super::signal::Signal;

/// See the module.
#[derive(Debug)]
pub(crate) struct CancelNode {
    signal: Signal,
    children: Mutex<Children>,
}

#[derive(Default, Debug)]
struct Children {
    last: u64,
    by_number: BTreeMap<u64, Arc<CancelNode>>,
}

impl CancelNode {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { signal: Signal::new(), children: Mutex::new(Children::default()) })
    }

    /// Makes a child, which is cancelled with this node at the latest. Also returns the child's number on the list of
    /// this node. If this node is cancelled, the child is cancelled too, and has no number.
    pub(crate) fn child(&self) -> (Arc<Self>, Option<u64>) {
        let child = Self::new();
        let mut children = self.children.lock();
        if self.is_cancelled() {
            drop(children);
            child.signal.set();
            return (child, None);
        }
        children.last += 1;
        let number = children.last;
        children.by_number.insert(number, child.clone());
        (child, Some(number))
    }

    /// Removes a child that is no longer needed from the list of this node.
    pub(crate) fn forget(&self, number: u64) {
        let child = self.children.lock().by_number.remove(&number);
        drop(child);
    }

    /// Cancels this node and all nodes below it. Wakes the threads and rings the alarms that wait for one of them. The
    /// caller holds no lock.
    pub(crate) fn cancel(&self) {
        let mut below = self.cancel_alone();
        // Chains of nodes may be long, so the nodes below are on a list instead of the stack.
        while let Some(node) = below.pop() {
            below.extend(node.cancel_alone());
        }
    }

    /// Cancels this node. Returns its children, which the caller cancels.
    fn cancel_alone(&self) -> Vec<Arc<Self>> {
        if !self.is_cancelled() {
            self.signal.set();
        }
        let children = std::mem::take(&mut self.children.lock().by_number);
        children.into_values().collect()
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.signal.is_set()
    }

    /// Sleeps until the node is cancelled. Returns false if the time ran out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.signal.wait(until)
    }

    /// Keeps an alarm, which rings when the node is cancelled. Returns false if the node is cancelled.
    pub(crate) fn watch(&self, watcher: Watcher, alarm: Alarm) -> bool {
        self.signal.watch(watcher, alarm)
    }

    /// Removes an alarm that is no longer needed.
    pub(crate) fn unwatch(&self, watcher: Watcher) {
        self.signal.unwatch(watcher);
    }

    /// Returns the number of children on the list.
    #[cfg(test)]
    pub(crate) fn children(&self) -> usize {
        self.children.lock().by_number.len()
    }
}
