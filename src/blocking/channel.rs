//! Channels, as crossbeam's, whose waits let another item start.
//!
//! What can be sent or received at once costs what it costs without this; only if the channel is full, or empty, the
//! thread waits under a [guard](crate::BlockingGuard). Errors and iterators are crossbeam's or like them.
//!
//! To wait for several channels at once, hand what is inside ([`Receiver::as_inner`], [`Sender::as_inner`]) to
//! [`crossbeam_channel::select!`] or [`crossbeam_channel::Select`], under a guard of your own. Keep the work out of it:
//!
//! ```
//! use cmwq::blocking::{self, channel};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! enum Event {
//!     Job(u32),
//!     Stop,
//! }
//!
//! let queue = cmwq::WorkQueue::new("jobs").build()?;
//! let (jobs, receive_job) = channel::bounded(10);
//! let (stop, stopped) = channel::bounded::<()>(0);
//! let sum = queue.spawn(move || {
//!     let mut sum = 0;
//!     loop {
//!         let event = cmwq::blocking(|| {
//!             channel::crossbeam_channel::select_biased! {
//!                 recv(receive_job.as_inner()) -> job => job.map_or(Event::Stop, Event::Job),
//!                 recv(stopped.as_inner()) -> _ => Event::Stop,
//!             }
//!         });
//!         match event {
//!             Event::Job(job) => sum += job,
//!             Event::Stop => break sum,
//!         }
//!     }
//! })?;
//! (1..=3).try_for_each(|job| jobs.send(job))?;
//! drop(stop);
//! assert_eq!(sum.join()?, 6);
//! # Ok(())
//! # }
//! ```
//!
//! Timers of crossbeam's (`after`, `at`, `tick`) become receivers of this module by [`Receiver::from`].

use std::fmt;
use std::iter::FusedIterator;
use std::time::{Duration, Instant};

pub use crossbeam_channel;
pub use crossbeam_channel::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

use super::guard::blocking;

/// A channel that holds `capacity` messages: to send one more waits for a receiver. With none, each message is handed
/// over from hand to hand.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::channel::bounded;
///
/// let queue = cmwq::WorkQueue::new("pipeline").build()?;
/// let (send, receive) = bounded(4);
/// queue.spawn(move || (0..100).try_for_each(|n| send.send(n)))?; // waits for the other item, not for its CPU
/// assert_eq!(queue.spawn(move || receive.iter().sum::<u32>())?.join()?, 4950);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = crossbeam_channel::bounded(capacity);
    (Sender(sender), Receiver(receiver))
}

/// A channel that holds any number of messages: to send never waits.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::channel::unbounded;
///
/// let queue = cmwq::WorkQueue::new("mail").build()?;
/// let (send, receive) = unbounded();
/// let reads = queue.spawn(move || receive.recv())?;
/// send.send("hello")?;
/// assert_eq!(reads.join()??, "hello");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    (Sender(sender), Receiver(receiver))
}

/// The side of a channel that sends. Clones send to the same channel, which ends when the last of them is dropped.
pub struct Sender<T>(crossbeam_channel::Sender<T>);

impl<T> Sender<T> {
    /// Sends, and waits under a guard while the channel is full.
    ///
    /// # Errors
    ///
    /// [`SendError`], which has the message, if all receivers are gone.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.0.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => blocking(|| self.0.send(message)),
            Err(TrySendError::Disconnected(message)) => Err(SendError(message)),
        }
    }

    /// As [`send`](Self::send), waiting for so long at most.
    ///
    /// # Errors
    ///
    /// [`SendTimeoutError`], which has the message: the channel stayed full, or all receivers are gone.
    pub fn send_timeout(&self, message: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_or(message, |message| self.0.send_timeout(message, timeout))
    }

    /// As [`send`](Self::send), waiting until then at most.
    ///
    /// # Errors
    ///
    /// [`SendTimeoutError`], which has the message: the channel stayed full, or all receivers are gone.
    pub fn send_deadline(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_or(message, |message| self.0.send_deadline(message, deadline))
    }

    fn send_or(
        &self,
        message: T,
        wait: impl FnOnce(T) -> Result<(), SendTimeoutError<T>>,
    ) -> Result<(), SendTimeoutError<T>> {
        match self.0.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => blocking(|| wait(message)),
            Err(TrySendError::Disconnected(message)) => Err(SendTimeoutError::Disconnected(message)),
        }
    }

    /// Sends if that needs no waiting.
    ///
    /// # Errors
    ///
    /// [`TrySendError`], which has the message: the channel is full, or all receivers are gone.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(message)
    }

    /// How many messages are in the channel. A hint: it may change at any time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is no message in the channel? A hint: it may change at any time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Would sending wait? A hint: it may change at any time.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// How many messages the channel holds at most, if there is a bound.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.0.capacity()
    }

    /// Do both send to the same channel?
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Crossbeam's sender, for `select!`. Its waits have no guard.
    #[must_use]
    pub fn as_inner(&self) -> &crossbeam_channel::Sender<T> {
        &self.0
    }

    /// Crossbeam's sender, without this wrapper.
    #[must_use]
    pub fn into_inner(self) -> crossbeam_channel::Sender<T> {
        self.0
    }
}

/// The side of a channel that receives. Clones share its messages: each goes to one of them.
pub struct Receiver<T>(crossbeam_channel::Receiver<T>);

impl<T> Receiver<T> {
    /// Receives, and waits under a guard while the channel is empty.
    ///
    /// # Errors
    ///
    /// [`RecvError`] if the channel is empty and all senders are gone.
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.0.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Empty) => blocking(|| self.0.recv()),
            Err(TryRecvError::Disconnected) => Err(RecvError),
        }
    }

    /// As [`recv`](Self::recv), waiting for so long at most.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError`]: the channel stayed empty, or is empty and all senders are gone.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_or(|| self.0.recv_timeout(timeout))
    }

    /// As [`recv`](Self::recv), waiting until then at most.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError`]: the channel stayed empty, or is empty and all senders are gone.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_or(|| self.0.recv_deadline(deadline))
    }

    fn recv_or(&self, wait: impl FnOnce() -> Result<T, RecvTimeoutError>) -> Result<T, RecvTimeoutError> {
        match self.0.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Empty) => blocking(wait),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Receives what is there.
    ///
    /// # Errors
    ///
    /// [`TryRecvError`]: the channel is empty, or is empty and all senders are gone.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.try_recv()
    }

    /// What is received until all senders are gone. Each wait is as [`recv`](Self::recv)'s.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// What is there, without any wait.
    pub fn try_iter(&self) -> crossbeam_channel::TryIter<'_, T> {
        self.0.try_iter()
    }

    /// How many messages are in the channel. A hint: it may change at any time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is no message in the channel? A hint: it may change at any time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Would sending wait? A hint: it may change at any time.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// How many messages the channel holds at most, if there is a bound.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.0.capacity()
    }

    /// Do both receive from the same channel?
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Crossbeam's receiver, for `select!`. Its waits have no guard.
    #[must_use]
    pub fn as_inner(&self) -> &crossbeam_channel::Receiver<T> {
        &self.0
    }

    /// Crossbeam's receiver, without this wrapper.
    #[must_use]
    pub fn into_inner(self) -> crossbeam_channel::Receiver<T> {
        self.0
    }
}

/// What a [`Receiver`] receives, until all senders are gone: see [`Receiver::iter`].
pub struct Iter<'a, T>(&'a Receiver<T>);

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

/// What a [`Receiver`] receives, until all senders are gone; owns the receiver.
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

impl<T> From<crossbeam_channel::Sender<T>> for Sender<T> {
    fn from(sender: crossbeam_channel::Sender<T>) -> Self {
        Self(sender)
    }
}

impl<T> From<crossbeam_channel::Receiver<T>> for Receiver<T> {
    fn from(receiver: crossbeam_channel::Receiver<T>) -> Self {
        Self(receiver)
    }
}

// By hand, because messages need not be `Clone` or `Debug`.

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Iter { .. }")
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("IntoIter { .. }")
    }
}
