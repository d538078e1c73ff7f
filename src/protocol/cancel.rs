//! The tree of cancellation: the cancel of a node reaches all nodes below it.
//!
//! A node is a [`Signal`], which is set when the node is cancelled, a list of its children, and a list of alarms. A
//! thread cancels a node in three steps:
//!
//! 1. It *closes* the node and all nodes below it, and so learns which nodes these are.
//! 2. It sets their signals, from the bottom up.
//! 3. It takes the children and the alarms off their lists, wakes the threads that wait, and rings the alarms.
//!
//! **All nodes below a cancelled node are cancelled.** A thread that adds a child, and a thread that closes the node,
//! both take the lock of the lists. If the first thread takes it first, the second one finds the child on the list. If
//! it takes the lock later, it finds the node closed, and the child is cancelled from the beginning. Otherwise this
//! could happen:
//!
//! * canceller: takes note of all children;
//! * other thread: finds the node not cancelled, and adds a child;
//! * canceller: sets the signal. The new child is never cancelled.
//!
//! If the signals were set from the top down, a thread could find a node cancelled and the node's child not. If the
//! children were taken off the list in the first step, this could happen:
//!
//! * canceller of a node: takes the children of the node's child off their list;
//! * canceller of that child: finds no nodes below it, and sets its signal. The nodes below are not cancelled yet.
//!
//! The list holds a strong reference to each child, and a child that is no longer needed is [removed](CancelNode::forget)
//! from the list of its parent. So the memory of a tree depends only on the nodes that are in use.
//!
//! **Alarms.** An alarm of a node may act for good: it cancels another token, or takes a timer. So the alarms are not
//! left in [`wakers`](crate::sys::wakers), where a late ring of an object that is gone reaches the alarms of the next
//! object at its address. They are on a list of the node, and ring only if this node is cancelled.

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
    /// Whether the node is being cancelled. From then on, its children are cancelled from the beginning.
    is_closed: bool,
    /// The number of the last child.
    last: u64,
    children: BTreeMap<u64, Arc<CancelNode>>,
    alarms: BTreeMap<Watcher, Alarm>,
}

impl CancelNode {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { signal: Signal::new(), lists: Mutex::new(Lists::default()) })
    }

    /// Makes a child, which is cancelled with this node at the latest. Also returns the child's number on the list of
    /// this node. If this node is cancelled, the child is cancelled too, and has no number.
    pub(crate) fn child(&self) -> (Arc<Self>, Option<u64>) {
        let child = Self::new();
        let mut lists = self.lists.lock();
        if lists.is_closed {
            drop(lists);
            child.cancel();
            return (child, None);
        }
        lists.last += 1;
        let number = lists.last;
        lists.children.insert(number, child.clone());
        (child, Some(number))
    }

    /// Removes a child that is no longer needed from the list of this node.
    pub(crate) fn forget(&self, number: u64) {
        let child = self.lists.lock().children.remove(&number);
        drop(child);
    }

    /// Cancels this node and all nodes below it. Wakes the threads and rings the alarms that wait for one of them. The
    /// caller holds no lock.
    pub(crate) fn cancel(&self) {
        if self.is_cancelled() {
            return;
        }
        // Chains of nodes may be long, so the nodes below are on a list instead of the stack.
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

    /// Wakes the threads and rings the alarms that wait for this node, which is cancelled.
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

    /// Sleeps until the node is cancelled. Returns false if the time ran out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.signal.wait(until)
    }

    /// Keeps an alarm, which rings when the node is cancelled. The alarm replaces the earlier alarm of the same watcher.
    /// Returns false if the node is cancelled.
    pub(crate) fn watch(&self, watcher: Watcher, alarm: Alarm) -> bool {
        let mut lists = self.lists.lock();
        if self.is_cancelled() {
            drop(lists);
            // A waker's destructor is code of a user, so it runs without the lock.
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

    /// Returns the number of children on the list.
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

    /// spec: I3.10 (a late ring)
    #[test]
    fn a_late_ring_of_an_earlier_object_reaches_no_alarm_of_a_node() {
        let (node, counts) = (CancelNode::new(), std::sync::Arc::new(Counts(AtomicUsize::new(0))));
        let alarm = Alarm { waker: Waker::from(std::sync::Arc::clone(&counts)), ring: Waker::wake };
        assert!(node.watch(Watcher::next(), alarm));
        // Each address inside the node, because a one-shot or a signal may have had any of them.
        let start = std::ptr::from_ref(&*node).addr();
        (start..start + size_of::<CancelNode>()).for_each(wakers::ring);
        assert_eq!(counts.0.load(Ordering::Relaxed), 0);
        node.cancel();
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
    }
}
