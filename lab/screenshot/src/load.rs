//! An example service: it scales pictures, sends mail, rebuilds an index, and has an item that lacks a guard.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::control::Server;
use cmwq::{Executor, WorkQueue};
use testkit::spin;

/// A service that runs until this value is dropped.
pub(crate) struct Load {
    ended: Arc<AtomicBool>,
    issuers: Vec<thread::JoinHandle<()>>,
    _server: Server,
}

impl Load {
    pub(crate) fn start(socket: &Path) -> Self {
        let executor = Executor::builder().thread_name_prefix("photos").build().expect("an executor");
        let server = Server::start_at(&executor, socket).expect("a control server");
        let mut load = Self { ended: Arc::default(), issuers: Vec::new(), _server: server };
        let ms = Duration::from_millis;
        let on = |queue: cmwq::WorkQueueBuilder| queue.build_on(&executor).expect("a queue");

        let thumbnails = on(WorkQueue::builder("thumbnails").control(true).max_active(32));
        load.every(ms(60), 140, thumbnails, || {
            cmwq::blocking(|| thread::sleep(Duration::from_micros(900)));
            spin(Duration::from_micros(300));
        });
        let mail = on(WorkQueue::ordered("mail").control(true).max_pending(500));
        load.every(ms(30), 2, mail, || cmwq::blocking(|| thread::sleep(Duration::from_millis(6))));
        let checksums = on(WorkQueue::builder("checksums").control(true));
        load.every(ms(100), 3, checksums, || spin(Duration::from_millis(4)));
        let index = on(WorkQueue::per_cpu("index"));
        load.every(ms(700), 1, index, rebuild_index);
        let uploads = on(WorkQueue::builder("uploads").max_active(8));
        load.every(ms(50), 6, uploads, forget_the_guard);
        let audio = on(WorkQueue::builder("audio").high_priority(true));
        load.every(ms(10), 2, audio, || spin(Duration::from_micros(40)));
        let events = on(WorkQueue::per_cpu("events"));
        load.every(ms(5), 4, events, || spin(Duration::from_micros(5)));
        load
    }

    /// Queues `items` items after each pause.
    fn every(&mut self, pause: Duration, items: usize, queue: WorkQueue, item: fn()) {
        let ended = Arc::clone(&self.ended);
        self.issuers.push(thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                for _ in 0..items {
                    // A full queue refuses the item.
                    if let Ok(handle) = queue.spawn(item) {
                        drop(handle);
                    }
                }
                thread::sleep(pause);
            }
        }));
    }
}

fn rebuild_index() {
    spin(Duration::from_millis(80));
}

fn forget_the_guard() {
    thread::sleep(Duration::from_millis(8));
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for issuer in self.issuers.drain(..) {
            issuer.join().expect("an issuer ends");
        }
    }
}
