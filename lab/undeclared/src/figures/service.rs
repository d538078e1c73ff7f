//! A service that runs for a few seconds. The figure shows the latency of requests that never block, and the executor's
//! lists of offenders.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cmwq::{JoinHandle, WorkQueue};

use crate::bed::{Bed, NO_PANIC, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Times, Unit, Value};
use crate::mode::Mode;
use crate::service::{self, Service};

/// The interval between requests, on a machine of two CPUs.
const EVERY: Duration = Duration::from_millis(1);
/// One note comes with every eighth request, and one report with every 240th. Both run on the CPU of the housekeeping.
const NOTE: usize = 8;
const REPORT: usize = 240;

/// The requests to the service, and their results.
struct Desk {
    service: Arc<Service>,
    requests: WorkQueue,
    /// The queue whose items all go to one CPU.
    housekeeping: WorkQueue,
    cpu: usize,
    images: Vec<JoinHandle<Duration>>,
    notes: Vec<JoinHandle<Duration>>,
}

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let mut desk = Desk {
        service: Arc::new(Service::new(mode)?),
        requests: bed.queue(WorkQueue::builder("requests")),
        housekeeping: bed.queue(WorkQueue::per_cpu("housekeeping")),
        cpu: bed.first_cpu(),
        images: Vec::new(),
        notes: Vec::new(),
    };
    let every = EVERY * 2 / bed.cpus() as u32;
    let begin = Instant::now();
    for number in 0..effort.requests {
        let arrives = begin + every * number as u32;
        std::thread::sleep(arrives.saturating_duration_since(Instant::now()));
        desk.take(number, arrives);
    }
    desk.requests.flush().expect("main is no item");
    let [images, notes] = [desk.images, desk.notes]
        .map(|items| Times::new(items.into_iter().map(|item| item.join().expect(NO_PANIC)).collect()));
    let value = |what, value| Value::new(what, Unit::Milliseconds, value);
    let values = vec![
        value("an image, p50", images.percentile(50)),
        value("an image, p99", images.percentile(99)),
        value("a note beside reports, p99", notes.percentile(99)),
        Value::new("threads", Unit::Count, bed.peak_threads() as f64),
    ];
    Ok(Outcome::of(values).with_offenders_of(&bed.executor))
}

impl Desk {
    fn take(&mut self, number: usize, arrives: Instant) {
        let (service, queue) = (&self.service, &self.requests);
        match number % 4 {
            0 => drop(queue.spawn(service::ask_remote(service)).expect(UNLIMITED)),
            1 => drop(queue.spawn(service::book(service)).expect(UNLIMITED)),
            2 => drop(queue.spawn(service::send_page(service, number)).expect(UNLIMITED)),
            _ => self.images.push(queue.spawn(service::shrink_image(arrives)).expect(UNLIMITED)),
        }
        if number.is_multiple_of(REPORT) {
            drop(self.housekeeping.item(service::write_report()).on_cpu(self.cpu).spawn().expect(UNLIMITED));
        }
        if number.is_multiple_of(NOTE) {
            let note = service::take_note(arrives);
            self.notes.push(self.housekeeping.item(note).on_cpu(self.cpu).spawn().expect(UNLIMITED));
        }
    }
}
