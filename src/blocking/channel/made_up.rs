//! Channels on a made-up machine, which is a simulated machine for tests. Each operation is a point, at which the
//! machine may run another thread. A waiting thread tries again whenever a message is sent or received on any channel,
//! or a sender or receiver is dropped.

use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, TryRecvError, TrySendError};

use crate::engine::refusal::Cancelled;
use crate::policy::time::Time;
use crate::sys::{clock, machine};

/// The address of this static is the one key of all channels, because a crossbeam channel has no address that both ends
/// know.
static CHANNELS: u8 = 0;

/// A field of each sender and receiver. When this field is dropped, it wakes the threads that wait for a channel on the
/// made-up machine.
pub(super) struct End;

impl Drop for End {
    #[inline]
    fn drop(&mut self) {
        moved(());
    }
}

fn key() -> usize {
    (&raw const CHANNELS).addr()
}

/// Wakes all threads that wait for a channel on the made-up machine, because a channel has changed. Returns `result`.
#[inline]
pub(super) fn moved<R>(result: R) -> R {
    machine::wake_object(key(), true);
    result
}

/// Fails the test run if the channel has capacity 0. On a made-up machine, no message can pass through a channel of
/// capacity 0.
fn check_capacity<T>(sender: &Sender<T>) {
    machine::fail_if(sender.capacity() == Some(0), || {
        "a message cannot be sent through a channel of capacity 0: give the channel room for one message"
            .to_owned()
    });
}

/// Sends the message on a made-up machine. Waits while the channel is full.
pub(super) fn send<T>(
    sender: &Sender<T>,
    message: T,
    deadline: Option<Instant>,
) -> Result<(), SendTimeoutError<T>> {
    check_capacity(sender);
    let (mut message, mut sent) = (Some(message), None);
    let attempt = || {
        sent = message.take().map(|message| sender.try_send(message));
        match sent.take_if(|sent| matches!(sent, Err(TrySendError::Full(_)))) {
            Some(Err(TrySendError::Full(unsent))) => message = Some(unsent),
            _ => return true,
        }
        false
    };
    machine::until_ready(key(), deadline.map(clock::time), "room in a channel", attempt);
    match (sent, message) {
        (Some(Err(TrySendError::Disconnected(message))), _) => Err(SendTimeoutError::Disconnected(message)),
        (_, Some(message)) => Err(SendTimeoutError::Timeout(message)),
        (_, None) => moved(Ok(())),
    }
}

/// Receives a message on a made-up machine. Waits while the channel is empty.
pub(super) fn receive<T>(receiver: &Receiver<T>, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
    let mut received = Err(TryRecvError::Empty);
    let attempt = || {
        received = receiver.try_recv();
        !matches!(received, Err(TryRecvError::Empty))
    };
    machine::until_ready(key(), deadline.map(clock::time), "a message of a channel", attempt);
    match received {
        Ok(message) => moved(Ok(message)),
        Err(TryRecvError::Empty) => Err(RecvTimeoutError::Timeout),
        Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
    }
}

/// Receives a message on a made-up machine, unless `cancelled` returns a reason first. The error is this reason, or
/// `None` if all senders are gone.
pub(super) fn receive_unless<T>(
    receiver: &Receiver<T>,
    until: Time,
    cancelled: impl Fn() -> Option<Cancelled>,
) -> Result<T, Option<Cancelled>> {
    let (mut received, mut reason) = (Err(TryRecvError::Empty), None);
    let attempt = || {
        reason = cancelled();
        if reason.is_none() {
            received = receiver.try_recv();
        }
        reason.is_some() || !matches!(received, Err(TryRecvError::Empty))
    };
    machine::until_ready(key(), Some(until), "a message of a channel", attempt);
    match received {
        Ok(message) => moved(Ok(message)),
        Err(TryRecvError::Disconnected) => Err(None),
        Err(TryRecvError::Empty) => Err(Some(reason.unwrap_or(Cancelled::DeadlinePassed))),
    }
}

/// Sends a message on a made-up machine, unless `cancelled` returns a reason first. The error has the message and this
/// reason, or `None` if all receivers are gone.
pub(super) fn send_unless<T>(
    sender: &Sender<T>,
    message: T,
    until: Time,
    cancelled: impl Fn() -> Option<Cancelled>,
) -> Result<(), (T, Option<Cancelled>)> {
    check_capacity(sender);
    let (mut unsent, mut reason, mut gone) = (Some(message), None, false);
    let attempt = || {
        reason = cancelled();
        if reason.is_none() {
            if let Some(message) = unsent.take() {
                match sender.try_send(message) {
                    Ok(()) => {}
                    Err(TrySendError::Full(message)) => unsent = Some(message),
                    Err(TrySendError::Disconnected(message)) => (unsent, gone) = (Some(message), true),
                }
            }
        }
        reason.is_some() || gone || unsent.is_none()
    };
    machine::until_ready(key(), Some(until), "room in a channel", attempt);
    match unsent {
        None => moved(Ok(())),
        Some(message) if gone => Err((message, None)),
        Some(message) => Err((message, Some(reason.unwrap_or(Cancelled::DeadlinePassed)))),
    }
}
