//! Sends and receives that end early when the calling item is cancelled.

use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use crossbeam_channel::{TryRecvError, TrySendError, bounded, never, select_biased};

use crate::blocking::guard::blocking;
use crate::engine::item::cancellation;
use crate::engine::item::token::Token;
use crate::engine::refusal::Cancelled;
use crate::policy::time::Time;
use crate::sys::sync::Mutex;
use crate::sys::{clock, machine};

use super::made_up::{self, moved};
use super::{Receiver, Sender};

/// The reason for which [`Receiver::recv_cancellable`] received no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvCancellableError {
    /// The channel is empty, and all senders are gone.
    Disconnected,
    /// The caller is cancelled. A message that is in the channel stays there.
    Cancelled(Cancelled),
}

/// The reason for which [`Sender::send_cancellable`] did not send the message. The error also contains the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendCancellableError<T> {
    /// All receivers are gone.
    Disconnected(T),
    /// The caller is cancelled.
    Cancelled(T, Cancelled),
}

impl<T> Receiver<T> {
    /// Receives a message as [`recv`](Self::recv) does, but stops waiting when the calling item is
    /// [cancelled](crate::is_cancelled). If the item is cancelled, it receives no message, even if the channel has one.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::blocking::channel::unbounded;
    ///
    /// let queue = cmwq::WorkQueue::new("sums");
    /// let (send, receive) = unbounded::<u32>();
    /// let sum = queue.spawn(move || std::iter::from_fn(|| receive.recv_cancellable().ok()).sum::<u32>())?;
    /// send.send(7)?;
    /// sum.stop(); // Ends the item, although the sender still exists.
    /// println!("{:?}", sum.join());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`RecvCancellableError`] if the caller is cancelled, or if the channel is empty and all senders are
    /// gone.
    pub fn recv_cancellable(&self) -> Result<T, RecvCancellableError> {
        let Some(token) = cancellation::current_token() else {
            return self.recv().map_err(|_gone| RecvCancellableError::Disconnected);
        };
        if let Some(reason) = token.reason() {
            return Err(RecvCancellableError::Cancelled(reason));
        }
        match self.0.try_recv() {
            Ok(message) => return moved(Ok(message)),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(RecvCancellableError::Disconnected),
        }
        blocking(|| {
            let stop = Stop::of(&token);
            if machine::listens() {
                let cancelled = || token.reason();
                return match made_up::receive_unless(&self.0, token.deadline(), cancelled) {
                    Ok(message) => Ok(message),
                    Err(None) => Err(RecvCancellableError::Disconnected),
                    Err(Some(reason)) => Err(RecvCancellableError::Cancelled(reason)),
                };
            }
            select_biased! {
                recv(stop.cancelled) -> _ => Err(RecvCancellableError::Cancelled(Stop::reason(&token))),
                recv(stop.late) -> _ => Err(RecvCancellableError::Cancelled(Stop::reason(&token))),
                recv(self.0) -> message => message.map_err(|_gone| RecvCancellableError::Disconnected),
            }
        })
    }
}

impl<T> Sender<T> {
    /// Sends a message as [`send`](Self::send) does, but stops waiting when the calling item is
    /// [cancelled](crate::is_cancelled). If the item is cancelled, the message is not sent, even if the channel has
    /// room.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::blocking::channel::bounded;
    ///
    /// let queue = cmwq::WorkQueue::new("numbers");
    /// let (send, receive) = bounded(2);
    /// let numbers = queue.spawn(move || (0..).find(|n| send.send_cancellable(*n).is_err()))?;
    /// assert_eq!(receive.recv()?, 0);
    /// numbers.stop(); // Ends the item, although the channel is full and the receiver still exists.
    /// assert!(numbers.join()? >= Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`SendCancellableError`] with the message if the caller is cancelled, or if all receivers are gone.
    pub fn send_cancellable(&self, message: T) -> Result<(), SendCancellableError<T>> {
        let Some(token) = cancellation::current_token() else {
            return self.send(message).map_err(|error| SendCancellableError::Disconnected(error.0));
        };
        if let Some(reason) = token.reason() {
            return Err(SendCancellableError::Cancelled(message, reason));
        }
        let message = match self.0.try_send(message) {
            Ok(()) => return moved(Ok(())),
            Err(TrySendError::Full(message)) => message,
            Err(TrySendError::Disconnected(message)) => {
                return Err(SendCancellableError::Disconnected(message));
            }
        };
        blocking(|| {
            let stop = Stop::of(&token);
            if machine::listens() {
                let cancelled = || token.reason();
                return match made_up::send_unless(&self.0, message, token.deadline(), cancelled) {
                    Ok(()) => Ok(()),
                    Err((message, None)) => Err(SendCancellableError::Disconnected(message)),
                    Err((message, Some(reason))) => Err(SendCancellableError::Cancelled(message, reason)),
                };
            }
            let mut select = crossbeam_channel::Select::new_biased();
            let (cancelled, late) = (select.recv(&stop.cancelled), select.recv(&stop.late));
            select.send(&self.0);
            let ready = select.select();
            if ready.index() == cancelled {
                let _closed = ready.recv(&stop.cancelled);
                return Err(SendCancellableError::Cancelled(message, Stop::reason(&token)));
            }
            if ready.index() == late {
                let _time = ready.recv(&stop.late);
                return Err(SendCancellableError::Cancelled(message, Stop::reason(&token)));
            }
            ready.send(&self.0, message).map_err(|error| SendCancellableError::Disconnected(error.0))
        })
    }
}

/// Two channels, one of which becomes ready when a token is cancelled. So a thread can wait for the cancel and for
/// another channel at the same time.
struct Stop {
    /// This channel is closed when the token is cancelled.
    cancelled: crossbeam_channel::Receiver<()>,
    /// This channel has a message once the deadline of the token has passed.
    late: crossbeam_channel::Receiver<Instant>,
    /// Keeps the waker that closes `cancelled` registered with the token. `None` if the token was already cancelled.
    _watch: Option<crate::engine::item::token::CancelWatch>,
}

impl Stop {
    fn of(token: &Token) -> Self {
        let (sender, cancelled) = bounded(0);
        let _watch = token.on_cancel(Waker::from(Arc::new(Closer(Mutex::new(Some(sender))))));
        let deadline = Some(token.deadline()).filter(|at| *at < Time::NEVER).and_then(clock::instant);
        Self { cancelled, late: deadline.map_or_else(never, crossbeam_channel::at), _watch }
    }

    /// Returns the reason why the token is cancelled. The caller has already seen that the token is cancelled.
    fn reason(token: &Token) -> Cancelled {
        token.reason().unwrap_or(Cancelled::DeadlinePassed)
    }
}

/// A waker that closes a channel.
struct Closer(Mutex<Option<crossbeam_channel::Sender<()>>>);

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        let sender = self.0.lock().take();
        drop(sender);
        moved(());
    }
}

impl fmt::Display for RecvCancellableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("the channel is empty, and all senders are gone"),
            Self::Cancelled(reason) => reason.fmt(f),
        }
    }
}

impl std::error::Error for RecvCancellableError {}

impl<T> SendCancellableError<T> {
    /// Returns the message that was not sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::blocking::channel::bounded;
    ///
    /// let (send, receive) = bounded(1);
    /// drop(receive);
    /// assert_eq!(send.send_cancellable("hello").unwrap_err().into_message(), "hello");
    /// ```
    pub fn into_message(self) -> T {
        match self {
            Self::Disconnected(message) | Self::Cancelled(message, _) => message,
        }
    }
}

impl<T> fmt::Debug for SendCancellableError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected(_) => f.write_str("Disconnected(..)"),
            Self::Cancelled(_, reason) => f.debug_tuple("Cancelled").field(reason).finish_non_exhaustive(),
        }
    }
}

impl<T> fmt::Display for SendCancellableError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected(_) => f.write_str("all receivers are gone"),
            Self::Cancelled(_, reason) => reason.fmt(f),
        }
    }
}

impl<T> std::error::Error for SendCancellableError<T> {}
