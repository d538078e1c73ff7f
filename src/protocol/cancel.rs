//! The tree of cancellation nodes. A thread that cancels a node also cancels all nodes below it.
//!
//! A node consists of a [`Signal`], a list of its children, and a list of alarms. The signal is set when the node is
//! cancelled. A thread cancels a node in three steps:
//!
//! 1. The thread *closes* the node and all nodes below it. In this step, the thread learns which nodes are below the
//!    node.
//! 2. The thread sets the signals of all these nodes, from the bottom up.
//! 3. The thread takes the children and the alarms off the nodes' lists, wakes the waiting threads, and rings the
//!    alarms.
//!
//! **All nodes below a cancelled node are cancelled.** A thread that adds a child and a thread that closes the node
//! both take the lock of the node's lists. If the child is added first, the closing thread finds the child on the list.
//! If the node is closed first, the adding thread sees that the node is closed, and cancels the new child. If threads
//! did not close nodes, this could happen:
//!
//! * canceller: reads the list of children;
//! * other thread: finds the node not cancelled, and adds a child;
//! * canceller: sets the signal. The new child is never cancelled.
//!
//! If the signals were set from the top down, a thread could find a node cancelled while a child of that node is not
//! cancelled yet. If a thread took the children off the lists in its first step already, and two threads cancelled a
//! node A and its child B, this could happen:
//!
//! * canceller of A: closes A and B, and takes the children of B off B's list;
//! * canceller of B: finds no nodes below B, and sets B's signal. The nodes below B are not cancelled yet.
//!
//! The list of a node holds a strong reference to each child. A child that is no longer needed is
//! [removed](CancelNode::forget) from this list. If no thread can cancel a node itself any more, the children of this
//! node [move](CancelNode::lift) to its parent. The caller of `lift` decides when a child moves. During its move, a
//! child is on the lists of both its old and its new parent. So a thread that cancels the new parent finds the child. A
//! thread may close a node that is closed already, which has no effect.
//!
//! **Alarms.** The effect of an alarm may be final: it cancels another token, or removes a timer. So each node has a
//! list of its own alarms, which ring only if this node is cancelled. In [`wakers`](crate::sys::wakers), by contrast, a
//! thread finds alarms by the address of an object. So a late ring for a freed object could reach the alarms of the
//! next object at the same address.

use std::collections::BTreeMap;

use crate::sys::sync::{Arc, Mutex};
use crate::sys::wait::Until;
use crate::sys::wakers::{Alarm, Watcher};

use super::signal::Signal;

/// See the module.
#[derive(Debug)]
pub(crate) struct CancelNode {
    signal: Signal,
    lists: Mutex<Lists>,
}

#[derive(Default, Debug)]
struct Lists {
    /// Whether the node is being cancelled. New children of a closed node are cancelled from the beginning.
    is_closed: bool,
    /// The number of the child that was added last. Children are numbered in the order in which they are added.
    last: u64,
    children: BTreeMap<u64, Arc<CancelNode>>,
    alarms: BTreeMap<Watcher, Alarm>,
}

impl CancelNode {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { signal: Signal::new(), lists: Mutex::new(Lists::default()) })
    }

    /// Makes a child. When this node is cancelled, the child is cancelled too, if it was not cancelled before. Also
    /// returns the child's number on the list of this node. If this node is already cancelled, the child is cancelled
    /// from the beginning, and has no number.
    pub(crate) fn child(&self) -> (Arc<Self>, Option<u64>) {
        let child = Self::new();
        let number = self.adopt(&child);
        if number.is_none() {
            child.cancel();
        }
        (child, number)
    }

    /// Puts a node on the list of this node. Returns the node's number, or `None` if this node is being cancelled.
    fn adopt(&self, node: &Arc<Self>) -> Option<u64> {
        let mut lists = self.lists.lock();
        if lists.is_closed {
            return None;
        }
        lists.last += 1;
        let number = lists.last;
        lists.children.insert(number, node.clone());
        Some(number)
    }

    /// Moves a node from the list of its parent, where it has this number, to the list of its grandparent. Returns the
    /// node's number on the grandparent's list. If the grandparent is being cancelled, the node is being cancelled too,
    /// and the result is `None`.
    pub(crate) fn lift(node: &Arc<Self>, parent: &Self, number: u64, grandparent: &Self) -> Option<u64> {
        let lifted = grandparent.adopt(node)?;
        parent.forget(number);
        Some(lifted)
    }

    /// Returns whether the number of this node's children equals the result of `count`. The list does not change during
    /// the call.
    pub(crate) fn has_children(&self, count: impl FnOnce() -> usize) -> bool {
        let lists = self.lists.lock();
        lists.children.len() == count()
    }

    /// Removes a child that is no longer needed from the list of this node.
    pub(crate) fn forget(&self, number: u64) {
        let child = self.lists.lock().children.remove(&number);
        drop(child);
    }

    /// Cancels this node and all nodes below it. Wakes the threads that wait for one of these nodes, and rings the
    /// nodes' alarms. The caller holds no lock.
    pub(crate) fn cancel(&self) {
        if self.is_cancelled() {
            return;
        }
        // A chain of nodes may be long. Recursion could overflow the stack, so this loop collects the nodes in a
        // vector.
        let mut below = self.close();
        let mut next = 0;
        while let Some(node) = below.get(next) {
            let children = node.close();
            below.extend(children);
            next += 1;
        }
        below.iter().rev().for_each(|node| node.set());
        self.set();
        self.tell();
        below.iter().for_each(|node| node.tell());
    }

    /// Closes this node. Returns its children.
    fn close(&self) -> Vec<Arc<Self>> {
        let mut lists = self.lists.lock();
        lists.is_closed = true;
        lists.children.values().cloned().collect()
    }

    fn set(&self) {
        let has_task = self.signal.set_word();
        debug_assert!(!has_task, "the alarms of a node are on its own list");
    }

    /// Wakes the threads that wait for this node, and rings its alarms. The node is cancelled.
    fn tell(&self) {
        let mut lists = self.lists.lock();
        let (children, alarms) = (std::mem::take(&mut lists.children), std::mem::take(&mut lists.alarms));
        drop(lists);
        drop(children);
        self.signal.wake_threads();
        alarms.into_values().for_each(|alarm| (alarm.ring)(alarm.waker));
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.signal.is_set()
    }

    /// Sleeps until the node is cancelled. Returns false if the time runs out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.signal.wait(until)
    }

    /// Stores an alarm, which rings when the node is cancelled. The alarm replaces the earlier alarm of the same
    /// watcher. Returns false if the node is cancelled.
    pub(crate) fn watch(&self, watcher: Watcher, alarm: Alarm) -> bool {
        let mut lists = self.lists.lock();
        if self.is_cancelled() {
            drop(lists);
            // A waker's destructor is user code, so it runs without the lock.
            drop(alarm);
            return false;
        }
        let replaced = lists.alarms.insert(watcher, alarm);
        drop(lists);
        drop(replaced);
        true
    }

    /// Removes an alarm that is no longer needed.
    pub(crate) fn unwatch(&self, watcher: Watcher) {
        let removed = self.lists.lock().alarms.remove(&watcher);
        drop(removed);
    }

    /// Returns the number of this node's children.
    #[cfg(test)]
    pub(crate) fn children(&self) -> usize {
        self.lists.lock().children.len()
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;
    use crate::sys::wakers;

    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// spec: I3.10 (a late ring for an earlier object at the address of a node reaches no alarm of the node)
    #[test]
    fn a_late_ring_of_an_earlier_object_reaches_no_alarm_of_a_node() {
        let (node, counts) = (CancelNode::new(), std::sync::Arc::new(Counts(AtomicUsize::new(0))));
        let alarm = Alarm { waker: Waker::from(std::sync::Arc::clone(&counts)), ring: Waker::wake };
        assert!(node.watch(Watcher::next(), alarm));
        // The test tries each address inside the node, because a former one-shot or signal may have had any of these
        // addresses.
        let start = std::ptr::from_ref(&*node).addr();
        (start..start + size_of::<CancelNode>()).for_each(wakers::ring);
        assert_eq!(counts.0.load(Ordering::Relaxed), 0);
        node.cancel();
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
    }
}
