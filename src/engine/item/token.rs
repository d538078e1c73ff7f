//! Tokens, which tell items that they should stop.
//!
//! A token is a node of a tree ([`CancelNode`]), and may have a deadline. A token counts as cancelled if its own node
//! or a node above is cancelled, or if its deadline has passed. A child's deadline is never later than its parent's
//! deadline, so a check of a token needs no other deadline than the token's own. A token needs no timer for its
//! deadline. A thread that checks the token compares the token's deadline with the clock. A thread that waits for the
//! cancel of the token waits at most until the token's deadline.
//!
//! A token keeps its parent in memory. When the last handle to a token is dropped, the token leaves its parent's list.
//! A token that has lost its handles stays in memory only because of its children. Each of these children moves to its
//! grandparent when the child, or a near descendant of the child, gets a child of its own. Without these moves, the
//! tokens of items that submit each other would form a chain without an end.

#![allow(unsafe_code, reason = "a fork knows the token of its item by address")]

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::policy::time::Time;
use crate::protocol::cancel::CancelNode;
use crate::sys::fork::Origin;
use crate::sys::machine;
use crate::sys::sync::{self, Mutex};
use crate::sys::wait::{self, Until};
use crate::sys::wakers::{Alarm, Watcher};
use crate::sys::{clock, wakers};

use crate::engine::refusal::{Cancelled, WaitError};
use crate::engine::user_code;

use super::timers::TimerName;

/// A handle to a token. All clones are the same token.
#[derive(Clone, Debug)]
pub(crate) struct Token(Arc<Owned>);

/// The address of a token that another thread keeps in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptToken(*const Owned);

#[derive(Debug)]
struct Owned {
    node: sync::Arc<CancelNode>, // A, K
    parent: Mutex<Parent>,       // K
    /// From this time on, the token counts as cancelled.
    deadline: Time, // I
    origin: Origin,              // I
}

/// The parent of a token.
#[derive(Debug)]
enum Parent {
    None,
    Of(Link),
    /// A thread that has a handle to the token is moving the token to its grandparent.
    Moving,
}

/// A token's parent, and the token's number on the parent's list. While the number is on the list, the link holds a
/// reference to the parent's `Arc`. So if the reference count of the parent's `Arc` is the length of the list, only
/// children hold handles to the parent. No thread can then cancel the parent directly any more.
type Link = (Token, u64);

impl Parent {
    fn token(&self) -> Option<Token> {
        match self {
            Self::Of((parent, _)) => Some(parent.clone()),
            Self::None | Self::Moving => None,
        }
    }

    fn take(&mut self) -> Option<Link> {
        match std::mem::replace(self, Self::None) {
            Self::Of(link) => Some(link),
            Self::None | Self::Moving => None,
        }
    }
}

/// The largest number of tokens that leave their dropped parents when a token gets a child. These tokens are the token
/// that gets the child, and its nearest ancestors. So a chain of tokens grows without end only if more items than this
/// number overlap at each link of the chain.
const ANCESTORS: usize = 8;

impl KeptToken {
    /// Returns a handle to the token.
    ///
    /// # Safety
    ///
    /// Another thread keeps a handle to the token during this call.
    pub(crate) unsafe fn token(self) -> Token {
        // SAFETY: the address comes from an `Arc`, and the handle that the caller promises keeps the token in memory.
        unsafe { Arc::increment_strong_count(self.0) };
        // SAFETY: the address comes from an `Arc`, which the promised handle keeps in memory. The new `Arc` has the
        // count that was just added.
        Token(unsafe { Arc::from_raw(self.0) })
    }
}

impl Token {
    /// Makes a token without a parent.
    pub(crate) fn new(deadline: Time) -> Self {
        Self::with_node(CancelNode::new(), Parent::None, deadline, Origin::here())
    }

    fn with_node(node: sync::Arc<CancelNode>, parent: Parent, deadline: Time, origin: Origin) -> Self {
        Self(Arc::new(Owned { node, parent: Mutex::new(parent), deadline, origin }))
    }

    /// Makes a child of this token. The child's deadline is `deadline` or the deadline of this token, whichever is
    /// earlier. If this token belongs to the process from which this process was forked, the new token only copies the
    /// state that this token had at the fork.
    pub(crate) fn child(&self, deadline: Time) -> Self {
        let deadline = deadline.min(self.0.deadline);
        if self.is_forked() {
            let child = Self::new(deadline);
            if self.0.node.is_cancelled() {
                child.0.node.cancel();
            }
            return child;
        }
        self.leave_dropped_parents();
        // The parent is cloned before the child gets its number, as `Link` requires.
        let parent = self.clone();
        let (node, number) = self.0.node.child();
        let parent = number.map_or(Parent::None, |number| Parent::Of((parent, number)));
        Self::with_node(node, parent, deadline, self.0.origin)
    }

    /// Makes this token and its nearest ancestors leave parents that have lost their handles.
    fn leave_dropped_parents(&self) {
        let mut token = self.clone();
        for _ in 0..ANCESTORS {
            token.leave_dropped_parent();
            let parent = token.0.parent.lock().token();
            let Some(parent) = parent else { break };
            token = parent;
        }
    }

    /// Moves the token to its grandparent, if only children hold handles to the token's parent. Repeats this step with
    /// each new parent.
    fn leave_dropped_parent(&self) {
        let taken = std::mem::replace(&mut *self.0.parent.lock(), Parent::Moving);
        let mut link = match taken {
            Parent::Of(link) => link,
            // Another thread makes the token leave its parent.
            Parent::Moving => return,
            Parent::None => {
                *self.0.parent.lock() = Parent::None;
                return;
            }
        };
        let left = loop {
            let (parent, number) = &link;
            if !parent.0.node.has_children(|| Arc::strong_count(&parent.0)) {
                break Parent::Of(link);
            }
            let (above, moves) = {
                let above = parent.0.parent.lock();
                (above.token(), matches!(*above, Parent::Moving))
            };
            if moves {
                // Since the check above, another thread has got a handle to the parent through another child of the
                // parent.
                break Parent::Of(link);
            }
            let Some(above) = above else {
                parent.0.node.forget(*number);
                break Parent::None;
            };
            match CancelNode::lift(&self.0.node, &parent.0.node, *number, &above.0.node) {
                Some(lifted) => link = (above, lifted),
                None => break Parent::Of(link),
            }
        };
        *self.0.parent.lock() = left;
    }

    /// Cancels this token and all tokens below it. A forked process does not cancel a token of the parent process,
    /// because a thread of the parent may have held a lock of the tree at the fork.
    pub(crate) fn cancel(&self) {
        if !self.is_forked() {
            self.0.node.cancel();
        }
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.node.is_cancelled() || self.is_late()
    }

    /// Returns the reason why the token counts as cancelled. Returns `None` if it does not count as cancelled.
    pub(crate) fn reason(&self) -> Option<Cancelled> {
        if self.0.node.is_cancelled() {
            Some(Cancelled::Requested)
        } else {
            self.is_late().then_some(Cancelled::DeadlinePassed)
        }
    }

    fn is_late(&self) -> bool {
        self.0.deadline < Time::NEVER && self.0.deadline <= clock::now()
    }

    /// Returns the delay of an item that is submitted with the delay `after`. If this delay ends after the deadline,
    /// the item cannot begin in time. So the item's timer fires at the deadline, and the item is given up then. Even if
    /// the deadline has passed, a delayed item keeps a delay, because an item without a delay needs room.
    pub(crate) fn delay(&self, after: Duration) -> Duration {
        const SHORTEST: Duration = Duration::from_nanos(1);
        after.min(self.deadline().since(clock::now()).max(SHORTEST))
    }

    pub(crate) fn deadline(&self) -> Time {
        self.0.deadline
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.0.origin.is_forked()
    }

    /// Returns the token's address. This call costs less than a clone, because a clone changes a word that all CPUs may
    /// share.
    #[inline]
    pub(crate) fn kept(&self) -> KeptToken {
        KeptToken(Arc::as_ptr(&self.0))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sleeps until the token counts as cancelled.
    pub(crate) fn wait(&self, until: Until) -> Result<(), WaitError> {
        let _says = machine::waits_for("the cancel of a token");
        loop {
            if self.is_cancelled() {
                return Ok(());
            }
            if self.is_forked() {
                return Err(WaitError::Forked);
            }
            if until.is_over() {
                return Err(WaitError::TimedOut);
            }
            let _cancelled = self.0.node.wait(until.or_at(self.0.deadline));
        }
    }

    /// Registers a waker that the cancel of the token calls. The waker stays registered as long as the returned value
    /// lives. When the token's deadline passes, no waker is called. Returns `None` if the token is already cancelled,
    /// or if it belongs to the process from which this process was forked.
    pub(crate) fn on_cancel(&self, waker: Waker) -> Option<CancelWatch> {
        if self.is_forked() {
            return None;
        }
        let watch = CancelWatch { token: self.clone(), watcher: Watcher::next() };
        watch.renew(waker).then_some(watch)
    }

    /// Registers a waker like [`on_cancel`](Self::on_cancel). While the returned value lives, a cancel of the token
    /// wakes the threads that [sleep](wait::sleep) on `key`.
    pub(crate) fn nudge_on_cancel(&self, key: usize) -> Option<CancelWatch> {
        self.on_cancel(Waker::from(Arc::new(Nudge(key))))
    }

    /// Returns an alarm that cancels this token.
    pub(crate) fn alarm(&self) -> Alarm {
        Alarm { waker: Waker::from(Arc::new(Follower(self.clone()))), ring }
    }

    /// Makes this token follow the other token: while the returned value lives, a cancel of the other token also
    /// cancels this token.
    pub(crate) fn follow(&self, other: &Self) -> Option<CancelWatch> {
        let follower = other.on_cancel(Waker::from(Arc::new(Follower(self.clone()))));
        if follower.is_none() {
            self.cancel();
        }
        follower
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut link = self.parent.get_mut().take();
        // A chain of tokens may be long. This loop drops the tokens one after the other, because nested drops could
        // overflow the stack.
        while let Some((parent, number)) = link {
            if !parent.is_forked() {
                parent.0.node.forget(number);
            }
            link = Arc::into_inner(parent.0).and_then(|mut owned| owned.parent.get_mut().take());
        }
    }
}

fn ring(waker: Waker) {
    user_code::call(|| waker.wake());
}

/// A waker on the list of a token. A thread that cancels the token calls the waker.
#[derive(Debug)]
pub(crate) struct CancelWatch {
    token: Token,
    watcher: Watcher,
}

impl CancelWatch {
    /// Replaces the waker. Returns false if the token is cancelled.
    pub(crate) fn renew(&self, waker: Waker) -> bool {
        self.token.0.node.watch(self.watcher, Alarm { waker, ring })
    }
}

impl Drop for CancelWatch {
    fn drop(&mut self) {
        // If the token is cancelled, the thread that cancels it removes the alarms itself.
        if !self.token.is_forked() && !self.token.0.node.is_cancelled() {
            self.token.0.node.unwatch(self.watcher);
        }
    }
}

/// A waker that wakes the threads that sleep on a key. The key is only an address: the object at this address may no
/// longer exist.
struct Nudge(usize);

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        wait::wake_all(self.0);
        wakers::ring(self.0);
    }
}

/// A waker that cancels a token.
struct Follower(Token);

impl Wake for Follower {
    fn wake(self: Arc<Self>) {
        self.0.cancel();
    }
}

/// A registration with a token: while this value lives, a cancel of the token takes the timer of an item off the map.
#[derive(Debug)]
pub(crate) struct Armed {
    timer: ArmedTimer,
    /// The registration. `None` if the token had already been cancelled.
    _watch: Option<CancelWatch>,
}

/// The timer of an item that has a token. A thread that cancels the token removes the timer from the map, and gives up
/// the timer's item.
#[derive(Clone, Debug)]
pub(crate) struct ArmedTimer {
    name: Arc<ArmedName>,
    token: Token,
}

#[derive(Debug)]
struct ArmedName(Mutex<Option<TimerName>>);

impl Armed {
    pub(crate) fn new(token: &Token) -> Self {
        let name = Arc::new(ArmedName(Mutex::new(None)));
        let _watch = token.on_cancel(Waker::from(Arc::clone(&name)));
        Self { timer: ArmedTimer { name, token: token.clone() }, _watch }
    }

    pub(crate) fn timer(&self) -> ArmedTimer {
        self.timer.clone()
    }
}

impl ArmedTimer {
    /// Notes the name of the timer that was just armed. The new name replaces the name of an earlier timer.
    pub(crate) fn is(&self, name: TimerName) {
        self.note(|noted| *noted = Some(name));
    }

    /// Notes the name of the first timer of a periodic item, unless a run has already noted the name of a later timer.
    pub(crate) fn is_first(&self, name: TimerName) {
        self.note(|noted| {
            noted.get_or_insert(name);
        });
    }

    fn note(&self, note: impl FnOnce(&mut Option<TimerName>)) {
        note(&mut self.name.0.lock());
        // The thread that has cancelled the token may have looked for the timer before the timer's name was noted. So
        // the thread that has noted the name gives the timer up itself.
        if self.token.0.node.is_cancelled() {
            Arc::clone(&self.name).wake();
        }
    }
}

impl Wake for ArmedName {
    fn wake(self: Arc<Self>) {
        let name = self.0.lock().take();
        if let Some(name) = name {
            name.take().map(|timer| timer.give_up(&name));
        }
    }
}

#[cfg(test)]
mod tests;
