use std::thread;

use crossbeam_channel::{Sender, unbounded};

use super::{Can, Part, Rival, cpus, join_by_channel};

type Item = Box<dyn FnOnce() + Send>;

/// Threads that take closures out of a channel: the least that a pool can do.
pub(crate) struct Channel(Sender<Item>);

impl Rival for Channel {
    const NAME: &'static str = "channel";
    const CAN: Can = Can { part: Part::Floor, ..Can::POOL };

    fn new(limit: Option<usize>) -> Self {
        let (send, receive) = unbounded::<Item>();
        for _ in 0..limit.unwrap_or_else(cpus) {
            let receive = receive.clone();
            thread::spawn(move || receive.iter().for_each(|item| item()));
        }
        Self(send)
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.send(Box::new(item)).expect("the threads live as long as the channel");
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        join_by_channel(|send| self.spawn(move || send.send(item()).expect("the caller waits for it")))
    }
}
