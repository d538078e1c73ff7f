//! Models of [`CancelNode`](crate::protocol::cancel::CancelNode): a node is cancelled while other threads add children,
//! remove children, wait, and leave alarms.
//!
//! In any order of these steps, three things hold. A thread that finds a node cancelled finds all nodes below it
//! cancelled. Each thread that waits for a cancelled node is woken. Each alarm of a cancelled node rings.
//!
//! Red under: `cancel-takes-the-children-first`, `child-is-added-after-the-look`, `cancel-forgets-grandchildren`,
//! `cancel-begins-at-the-top`, `cancel-tells-before-all-are-set`, `cancel-alarm-after-the-look`,
//! `lifted-node-is-forgotten-first`.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::thread;

use super::{Data, Event, check};
use crate::protocol::cancel::CancelNode;
use crate::sys::wait::Until;
use crate::sys::wakers::{Alarm, Watcher};

struct Ring(Event);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

/// spec: I3.2 (a cancel reaches the children)
#[test]
fn a_child_that_is_added_during_a_cancel_is_cancelled() {
    check(4, || {
        let root = CancelNode::new();
        let parent = root.child().0;
        let adds = {
            let parent = parent.clone();
            thread::spawn(move || {
                let (child, number) = parent.child();
                let (grandchild, _) = child.child();
                assert!(number.is_some() || child.is_cancelled(), "a child without a number is cancelled");
                (child, grandchild)
            })
        };
        root.cancel();
        let (child, grandchild) = adds.join().unwrap();
        assert!(parent.is_cancelled() && child.is_cancelled() && grandchild.is_cancelled());
        assert_eq!(parent.children() + child.children(), 0, "a cancelled node keeps no child");
    });
}

/// spec: I3.2 (a cancelled node has only cancelled nodes below it)
#[test]
fn a_thread_that_finds_a_node_cancelled_finds_the_nodes_below_cancelled() {
    check(4, || {
        let root = CancelNode::new();
        let child = root.child().0;
        let grandchild = child.child().0;
        let cancels = {
            let root = root.clone();
            thread::spawn(move || root.cancel())
        };
        if root.is_cancelled() {
            assert!(child.is_cancelled() && grandchild.is_cancelled());
        }
        // When this call returns, the nodes below the child are cancelled, even if the other thread has begun to cancel
        // them first.
        child.cancel();
        assert!(child.is_cancelled() && grandchild.is_cancelled());
        cancels.join().unwrap();
        assert_eq!(root.children() + child.children(), 0, "a cancelled node keeps no child");
    });
}

/// spec: I3.2 (a cancelled node has only cancelled nodes below it), for an alarm that rings during the cancel.
#[test]
fn an_alarm_finds_the_nodes_below_cancelled() {
    struct Looks(CancelNodes, Event);
    type CancelNodes = [crate::sys::sync::Arc<CancelNode>; 2];

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            assert!(self.0.iter().all(|node| node.is_cancelled()));
            self.1.set();
        }
    }

    check(4, || {
        let root = CancelNode::new();
        let child = root.child().0;
        let looks = Arc::new(Looks([child.clone(), child.child().0], Event::new()));
        let alarm = Alarm { waker: Waker::from(Arc::clone(&looks)), ring: Waker::wake };
        assert!(root.watch(Watcher::ONLY, alarm));
        let cancels = {
            let child = child.clone();
            thread::spawn(move || child.cancel())
        };
        root.cancel();
        looks.1.wait();
        cancels.join().unwrap();
    });
}

/// spec: I3.1 (a thread that waits for a node sees what the canceller wrote before it cancelled the node)
#[test]
fn a_thread_waits_for_a_child_while_the_parent_is_cancelled() {
    check(4, || {
        let shared = Arc::new((CancelNode::new(), Data::new(0)));
        let child = shared.0.child().0;
        let cancels = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.write(|data| *data = 7);
                shared.0.cancel();
            })
        };
        assert!(child.wait(Until::FOREVER));
        assert_eq!(shared.1.read(|data| *data), 7);
        cancels.join().unwrap();
    });
}

/// spec: I3.1 (an alarm rings, or the thread that leaves the alarm learns that the node is already cancelled)
#[test]
fn an_alarm_rings_or_comes_too_late() {
    check(4, || {
        let parent = CancelNode::new();
        let child = parent.child().0;
        let cancels = {
            let parent = parent.clone();
            thread::spawn(move || parent.cancel())
        };
        let ring = Arc::new(Ring(Event::new()));
        let alarm = Alarm { waker: Waker::from(Arc::clone(&ring)), ring: Waker::wake };
        if child.watch(Watcher::ONLY, alarm) {
            ring.0.wait();
        }
        assert!(child.is_cancelled());
        cancels.join().unwrap();
    });
}

/// spec: I3.2 (a child that is removed leaves nothing behind in its parent)
#[test]
fn a_child_is_removed_while_its_parent_is_cancelled() {
    check(4, || {
        let parent = CancelNode::new();
        let (child, number) = parent.child();
        let cancels = {
            let parent = parent.clone();
            thread::spawn(move || parent.cancel())
        };
        parent.forget(number.expect("the parent was not cancelled before"));
        drop(child);
        cancels.join().unwrap();
        assert_eq!(parent.children(), 0);
    });
}

/// spec: I3.2 (a cancel reaches the children), while a node moves to its grandparent and gets a child.
#[test]
fn a_node_that_moves_up_during_a_cancel_is_cancelled() {
    check(4, || {
        let root = CancelNode::new();
        let parent = root.child().0;
        let (node, number) = parent.child();
        let moves = {
            let (root, node) = (root.clone(), node.clone());
            thread::spawn(move || {
                let number = number.expect("the parent was not cancelled before");
                let _lifted = CancelNode::lift(&node, &parent, number, &root);
                (node.child().0, parent)
            })
        };
        root.cancel();
        let (child, parent) = moves.join().unwrap();
        assert!(node.is_cancelled() && child.is_cancelled());
        let children = root.children() + parent.children() + node.children();
        assert_eq!(children, 0, "a cancelled node keeps no child");
    });
}
