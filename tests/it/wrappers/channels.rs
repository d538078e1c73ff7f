//! Channels whose waits let another item start.

use std::time::{Duration, Instant};

use cmwq::blocking::channel::{
    self, Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, bounded, crossbeam_channel, unbounded,
};

use super::{keeps_the_next_waiting, waits_for_the_next};
use crate::support::{SOON, time_limit};

/// spec: C7.4: an item that waits for a message of an empty channel, in any way, lets the next item start.
#[test]
fn receiving_lets_another_item_start() {
    let _limit = time_limit();
    let ways: [fn(Receiver<u32>) -> Option<u32>; 7] = [
        |receiver| receiver.recv().ok(),
        |receiver| receiver.recv_timeout(SOON).ok(),
        |receiver| receiver.recv_deadline(Instant::now() + SOON).ok(),
        |receiver| receiver.iter().next(),
        |receiver| (&receiver).into_iter().next(),
        |receiver| receiver.into_iter().next(),
        |receiver| {
            cmwq::blocking(|| {
                crossbeam_channel::select! {
                    recv(receiver.as_inner()) -> message => message.ok(),
                    recv(crossbeam_channel::after(SOON)) -> _ => None,
                }
            })
        },
    ];
    for way in ways {
        for (sender, receiver) in [unbounded(), bounded(0), bounded(1)] {
            let received = waits_for_the_next(move || way(receiver), move || sender.send(7).unwrap());
            assert_eq!(received, Some(7));
        }
        // A receiver that waits also learns that the last sender was dropped.
        for (sender, receiver) in [unbounded(), bounded(0), bounded(1)] {
            assert_eq!(waits_for_the_next(move || way(receiver), move || drop(sender)), None);
        }
    }
}

/// spec: C7.4: an item that waits to send to a full channel, in any way, lets the next item start.
#[test]
fn sending_lets_another_item_start() {
    let _limit = time_limit();
    /// A way to send. Returns the message if it was not sent.
    type Way = fn(Sender<u32>, u32) -> Option<u32>;
    let ways: [Way; 3] = [
        |sender, message| sender.send(message).err().map(SendError::into_inner),
        |sender, message| sender.send_timeout(message, SOON).err().map(SendTimeoutError::into_inner),
        |sender, message| {
            sender.send_deadline(message, Instant::now() + SOON).err().map(SendTimeoutError::into_inner)
        },
    ];
    let full = || {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        (sender, receiver)
    };
    for way in ways {
        for (sender, receiver) in [full(), bounded(0)] {
            let left = waits_for_the_next(
                move || way(sender, 2),
                move || assert!(receiver.iter().any(|message| message == 2)),
            );
            assert_eq!(left, None, "the message was sent");
        }
        for (sender, receiver) in [full(), bounded(0)] {
            assert_eq!(waits_for_the_next(move || way(sender, 2), move || drop(receiver)), Some(2));
        }
    }
}

/// spec: C7.4: a call that need not wait enters no guard.
#[test]
fn a_call_that_need_not_wait_enters_no_guard() {
    let _limit = time_limit();
    keeps_the_next_waiting(|| {
        let (sender, receiver) = bounded(4);
        for message in 0..100 {
            sender.send(message).unwrap();
            sender.send_timeout(message, SOON).unwrap();
            sender.send_deadline(message, Instant::now() + SOON).unwrap();
            sender.try_send(message).unwrap();
            assert_eq!(sender.try_send(message), Err(TrySendError::Full(message)));
            assert_eq!(receiver.recv(), Ok(message));
            assert_eq!(receiver.recv_timeout(SOON), Ok(message));
            assert_eq!(receiver.recv_deadline(Instant::now() + SOON), Ok(message));
            assert_eq!(receiver.iter().next(), Some(message));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        }
        drop(sender);
        assert_eq!(receiver.recv(), Err(RecvError));
        let (sender, receiver) = bounded(0);
        drop(receiver);
        assert_eq!(sender.send(3), Err(SendError(3)));
    });
}

/// spec: C7.4: inside and outside of items, calls report time-outs and disconnects, and return the message that was not
/// sent.
#[test]
fn timeouts_and_disconnects_are_reported() {
    let _limit = time_limit();
    let check = || {
        let shortly = Duration::from_millis(5);
        let (sender, receiver) = bounded(1);
        assert_eq!(receiver.recv_timeout(shortly), Err(RecvTimeoutError::Timeout));
        assert_eq!(receiver.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
        sender.send(1).unwrap();
        assert_eq!(sender.send_timeout(2, shortly), Err(SendTimeoutError::Timeout(2)));
        assert_eq!(sender.send_deadline(3, Instant::now()), Err(SendTimeoutError::Timeout(3)));
        let (other, _) = (sender.clone(), drop(sender));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
        other.send(4).unwrap();
        drop(other);
        assert_eq!(receiver.recv(), Ok(4), "a message sent before the end is received");
        assert_eq!(receiver.recv(), Err(RecvError));
        assert_eq!(receiver.recv_timeout(shortly), Err(RecvTimeoutError::Disconnected));
        assert_eq!(receiver.recv_deadline(Instant::now()), Err(RecvTimeoutError::Disconnected));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        let (sender, receiver) = unbounded();
        drop((receiver.clone(), receiver));
        assert_eq!(sender.send_timeout(5, shortly), Err(SendTimeoutError::Disconnected(5)));
        assert_eq!(sender.send_deadline(5, Instant::now()), Err(SendTimeoutError::Disconnected(5)));
        assert_eq!(sender.try_send(5), Err(TrySendError::Disconnected(5)));
    };
    check();
    waits_for_the_next(check, || ());
}

/// Wrappers can be converted to and from crossbeam's channels.
#[test]
fn wrappers_are_converted_to_and_from_channels() {
    let (sender, receiver) = crossbeam_channel::bounded::<u32>(2);
    let (sender, receiver) = (Sender::from(sender), Receiver::from(receiver));
    assert_eq!(
        (sender.len(), sender.is_empty(), sender.is_full(), sender.capacity()),
        (0, true, false, Some(2))
    );
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_eq!((receiver.len(), receiver.is_empty(), receiver.is_full()), (2, false, true));
    assert_eq!(receiver.capacity(), Some(2));
    assert_eq!(unbounded::<u32>().1.capacity(), None);
    assert!(sender.same_channel(&sender.clone()) && !receiver.same_channel(&bounded(1).1));
    assert!(sender.as_inner().same_channel(&sender.clone().into_inner()));
    assert_eq!(receiver.into_inner().iter().take(2).sum::<u32>(), 3);
    let timer = Receiver::from(crossbeam_channel::after(Duration::from_millis(1)));
    let _when: Instant = waits_for_the_next(move || timer.recv().unwrap(), || ());
    let texts = [format!("{sender:?}"), format!("{:?}", channel::bounded::<u32>(1).1.iter())];
    assert_eq!(texts.map(|text| text.split_once(' ').unwrap().0.to_owned()), ["Sender", "Iter"]);
}
