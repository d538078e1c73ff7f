//! As many items as there are CPUs wait for a later item. A pool with as many threads as CPUs would never begin the
//! later item.

use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use cmwq::WorkQueue;

use crate::bed::{Bed, NO_PANIC, UNLIMITED};
use crate::effort::Effort;
use crate::figure::{Outcome, Times, Unit, Value, milliseconds};
use crate::mode::Mode;

/// After this time, the measurement assumes that the executor will never notice the wait.
const NEVER: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Event {
    happened: Mutex<bool>,
    condition: Condvar,
}

pub(super) fn measure(mode: Mode, effort: Effort) -> Result<Outcome, Box<dyn Error>> {
    let bed = Bed::new(mode)?;
    let queue = bed.queue(WorkQueue::builder("dependency"));
    let trials: Option<Vec<_>> = (0..effort.dependencies).map(|_| resolve(&bed, &queue)).collect();
    let (median, worst, given_up) = match trials.map(Times::new) {
        Some(times) => (times.percentile(50), times.percentile(99), false),
        None => (milliseconds(NEVER), milliseconds(NEVER), true),
    };
    Ok(Outcome::of(vec![
        Value::new("resolved, p50", Unit::Milliseconds, median).given_up(given_up).aim(mode, 5.0),
        Value::new("resolved, p99", Unit::Milliseconds, worst).given_up(given_up).aim(mode, 5.0),
    ]))
}

/// Returns the time from the submission of the later item until all items have ended, or `None` if the measurement had
/// to end the wait.
fn resolve(bed: &Bed, queue: &WorkQueue) -> Option<Duration> {
    let (event, mode) = (Arc::new(Event::default()), bed.mode);
    let (arrive, arrived) = channel();
    let waiting: Vec<_> = (0..bed.cpus())
        .map(|_| {
            let (event, arrive): (_, Sender<()>) = (Arc::clone(&event), arrive.clone());
            let wait = move || {
                arrive.send(()).expect("main waits for it");
                event.wait(mode);
            };
            queue.spawn(wait).expect(UNLIMITED)
        })
        .collect();
    waiting.iter().for_each(|_| arrived.recv().expect("the items hold the other side"));
    // The last item needs a moment to fall asleep.
    std::thread::sleep(Duration::from_millis(1));

    let begin = Instant::now();
    let happens = Arc::clone(&event);
    let later = queue.spawn(move || happens.happen()).expect(UNLIMITED);
    let alone = later.join_timeout(NEVER);
    event.happen();
    let resolved = alone.is_ok();
    if let Err(later) = alone {
        later.join().expect(NO_PANIC);
    }
    waiting.into_iter().for_each(|item| item.join().expect(NO_PANIC));
    resolved.then(|| begin.elapsed())
}

impl Event {
    fn wait(&self, mode: Mode) {
        let happened = self.happened.lock().expect(NO_PANIC);
        let happened = mode.wait(|| self.condition.wait_while(happened, |happened| !*happened));
        drop(happened.expect(NO_PANIC));
    }

    fn happen(&self) {
        *self.happened.lock().expect(NO_PANIC) = true;
        self.condition.notify_all();
    }
}
