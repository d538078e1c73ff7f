//! Channels like crossbeam's, in which a thread waits under a guard.
//!
//! If no wait is needed, sending and receiving cost the same as with crossbeam's channels. A thread that finds the
//! channel full or empty waits under a [guard](crate::BlockingGuard). The errors are crossbeam's, except those of the
//! cancellable calls. Each iterator is crossbeam's own, or works like crossbeam's.
//!
//! To wait for several channels at the same time, pass their crossbeam ends ([`Receiver::as_inner`],
//! [`Sender::as_inner`]) to [`crossbeam_channel::select!`] or [`crossbeam_channel::Select`], under a guard of your own.
//! Handle the messages outside that guard:
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
//! let queue = cmwq::WorkQueue::new("jobs");
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
//! [`Receiver::from`] turns crossbeam's timers (`after`, `at`, `tick`) into receivers of this module.

use std::fmt;
use std::time::{Duration, Instant};

pub use crossbeam_channel;
pub use crossbeam_channel::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

mod cancellable;
mod iter;
mod made_up;

pub use self::cancellable::{RecvCancellableError, SendCancellableError};
pub use self::iter::{IntoIter, Iter};
use self::made_up::{End, moved};
use super::guard::blocking;
use crate::sys::{clock, machine};

/// Makes a channel that holds at most `capacity` messages. A sender waits while the channel is full. With a capacity of
/// zero, each message passes directly from a sender to a receiver.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::channel::bounded;
///
/// let queue = cmwq::WorkQueue::new("pipeline");
/// let (send, receive) = bounded(4);
/// queue.spawn(move || (0..100).try_for_each(|n| send.send(n)))?; // lets the other item run while it waits
/// assert_eq!(queue.spawn(move || receive.iter().sum::<u32>())?.join()?, 4950);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = crossbeam_channel::bounded(capacity);
    (sender.into(), receiver.into())
}

/// Makes a channel that holds any number of messages. Sending never waits.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::channel::unbounded;
///
/// let queue = cmwq::WorkQueue::new("mail");
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
    (sender.into(), receiver.into())
}

/// The sending side of a channel. Clones send to the same channel, which ends when the last sender is dropped.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::channel::{TrySendError, bounded};
/// use std::time::{Duration, Instant};
///
/// let (send, receive) = bounded(2);
/// assert!(send.is_empty() && send.capacity() == Some(2));
/// send.send(1)?;
/// send.send_timeout(2, Duration::from_secs(1))?;
/// assert!(send.is_full() && send.len() == 2);
/// assert_eq!(send.try_send(3), Err(TrySendError::Full(3)));
/// assert!(send.send_deadline(3, Instant::now()).is_err());
/// assert_eq!(receive.recv()?, 1);
/// assert!(send.same_channel(&send.clone()));
/// // The parts of the crate crossbeam-channel.
/// let len = send.as_inner().len();
/// assert_eq!(send.into_inner().len(), len);
/// # Ok(())
/// # }
/// ```
pub struct Sender<T>(crossbeam_channel::Sender<T>, End);

impl<T> Sender<T> {
    /// Sends a message. Waits under a guard while the channel is full.
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] with the message if all receivers are gone.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) if machine::listens() => {
                blocking(|| made_up::send(&self.0, message, None))
                    .map_err(|error| SendError(error.into_inner()))
            }
            Err(TrySendError::Full(message)) => blocking(|| self.0.send(message)),
            Err(TrySendError::Disconnected(message)) => Err(SendError(message)),
        }
    }

    /// Does the same as [`send`](Self::send), but waits for `timeout` at most.
    ///
    /// # Errors
    ///
    /// Returns [`SendTimeoutError`] with the message if the channel stayed full or all receivers are gone.
    pub fn send_timeout(&self, message: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        let deadline = || clock::present().checked_add(timeout);
        self.send_or(message, deadline, |message| self.0.send_timeout(message, timeout))
    }

    /// Does the same as [`send`](Self::send), but waits until `deadline` at most.
    ///
    /// # Errors
    ///
    /// Returns [`SendTimeoutError`] with the message if the channel stayed full or all receivers are gone.
    pub fn send_deadline(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_or(message, || Some(deadline), |message| self.0.send_deadline(message, deadline))
    }

    fn send_or(
        &self,
        message: T,
        deadline: impl FnOnce() -> Option<Instant>,
        wait: impl FnOnce(T) -> Result<(), SendTimeoutError<T>>,
    ) -> Result<(), SendTimeoutError<T>> {
        match self.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) if machine::listens() => {
                blocking(|| made_up::send(&self.0, message, deadline()))
            }
            Err(TrySendError::Full(message)) => blocking(|| wait(message)),
            Err(TrySendError::Disconnected(message)) => Err(SendTimeoutError::Disconnected(message)),
        }
    }

    /// Sends the message if the channel has room. Does not wait.
    ///
    /// # Errors
    ///
    /// Returns [`TrySendError`] with the message if the channel is full or all receivers are gone.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        machine::step();
        self.0.try_send(message).map(moved)
    }

    /// Returns the number of messages in the channel. The answer is only a hint.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the channel is empty. The answer is only a hint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the channel is full. The answer is only a hint.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Returns how many messages the channel can hold, or `None` if it is unbounded.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.0.capacity()
    }

    /// Returns whether both senders send to the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Returns crossbeam's sender, for `select!`. A thread that sends through crossbeam's sender waits without a guard.
    #[must_use]
    pub fn as_inner(&self) -> &crossbeam_channel::Sender<T> {
        &self.0
    }

    /// Returns crossbeam's sender, without this wrapper.
    #[must_use]
    pub fn into_inner(self) -> crossbeam_channel::Sender<T> {
        self.0
    }
}

/// The receiving side of a channel. Clones share the channel's messages, and each message goes to one receiver.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::channel::{TryRecvError, bounded};
/// use std::time::{Duration, Instant};
///
/// let (send, receive) = bounded(4);
/// (1..=4).try_for_each(|n| send.send(n))?;
/// assert!(receive.is_full() && receive.capacity() == Some(4));
/// assert_eq!(receive.recv()?, 1);
/// assert_eq!(receive.recv_timeout(Duration::from_secs(1))?, 2);
/// assert_eq!(receive.recv_deadline(Instant::now() + Duration::from_secs(1))?, 3);
/// assert_eq!((receive.len(), receive.try_iter().sum::<u32>()), (1, 4));
/// assert_eq!((receive.try_recv(), receive.is_empty()), (Err(TryRecvError::Empty), true));
/// send.send(5)?;
/// drop(send);
/// assert_eq!(receive.iter().collect::<Vec<_>>(), [5]); // ends with the last sender
/// assert!(receive.same_channel(&receive.clone()));
/// // The parts of the crate crossbeam-channel.
/// let len = receive.as_inner().len();
/// assert_eq!(receive.into_inner().len(), len);
/// # Ok(())
/// # }
/// ```
pub struct Receiver<T>(crossbeam_channel::Receiver<T>, End);

impl<T> Receiver<T> {
    /// Receives a message. Waits under a guard while the channel is empty.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the channel is empty and all senders are gone.
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Empty) if machine::listens() => {
                blocking(|| made_up::receive(&self.0, None)).map_err(|_disconnected| RecvError)
            }
            Err(TryRecvError::Empty) => blocking(|| self.0.recv()),
            Err(TryRecvError::Disconnected) => Err(RecvError),
        }
    }

    /// Does the same as [`recv`](Self::recv), but waits for `timeout` at most.
    ///
    /// # Errors
    ///
    /// Returns [`RecvTimeoutError`] if the channel stayed empty, or if it is empty and all senders are gone.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_or(|| clock::present().checked_add(timeout), || self.0.recv_timeout(timeout))
    }

    /// Does the same as [`recv`](Self::recv), but waits until `deadline` at most.
    ///
    /// # Errors
    ///
    /// Returns [`RecvTimeoutError`] if the channel stayed empty, or if it is empty and all senders are gone.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_or(|| Some(deadline), || self.0.recv_deadline(deadline))
    }

    fn recv_or(
        &self,
        deadline: impl FnOnce() -> Option<Instant>,
        wait: impl FnOnce() -> Result<T, RecvTimeoutError>,
    ) -> Result<T, RecvTimeoutError> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Empty) if machine::listens() => {
                blocking(|| made_up::receive(&self.0, deadline()))
            }
            Err(TryRecvError::Empty) => blocking(wait),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Receives a message if the channel has one. Does not wait.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError`] if the channel is empty. The error also tells whether all senders are gone.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        machine::step();
        self.0.try_recv().map(moved)
    }

    /// Returns an iterator over the messages. The iterator waits for each message as [`recv`](Self::recv) does, and
    /// ends when all senders are gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// Returns an iterator over the messages that are in the channel now. The iterator does not wait.
    pub fn try_iter(&self) -> crossbeam_channel::TryIter<'_, T> {
        self.0.try_iter()
    }

    /// Returns the number of messages in the channel. The answer is only a hint.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the channel is empty. The answer is only a hint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the channel is full. The answer is only a hint.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Returns how many messages the channel can hold, or `None` if it is unbounded.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.0.capacity()
    }

    /// Returns whether both receivers receive from the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Returns crossbeam's receiver, for `select!`. A thread that receives through crossbeam's receiver waits without a
    /// guard.
    #[must_use]
    pub fn as_inner(&self) -> &crossbeam_channel::Receiver<T> {
        &self.0
    }

    /// Returns crossbeam's receiver, without this wrapper.
    #[must_use]
    pub fn into_inner(self) -> crossbeam_channel::Receiver<T> {
        self.0
    }
}

impl<T> From<crossbeam_channel::Sender<T>> for Sender<T> {
    fn from(sender: crossbeam_channel::Sender<T>) -> Self {
        Self(sender, End)
    }
}

impl<T> From<crossbeam_channel::Receiver<T>> for Receiver<T> {
    fn from(receiver: crossbeam_channel::Receiver<T>) -> Self {
        Self(receiver, End)
    }
}

// The impls of `Clone` and `Debug` are not derived, because messages need not be `Clone` or `Debug`.

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), End)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), End)
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
