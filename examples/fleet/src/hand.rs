//! The jobs that this consumer has in hand. The consumer has fetched these jobs, and they are neither acknowledged nor
//! failed yet.

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cmwq::{PeriodicHandle, WorkQueue};

use crate::ending::Step;
use crate::link::Link;
use crate::stream::Stream;

/// The number of heartbeats in the time `--claim`. After that time, other consumers take over the jobs of a silent
/// consumer.
const BEATS: u32 = 4;

#[derive(Default)]
pub(crate) struct Hand {
    ids: Mutex<HashSet<String>>,
}

/// A job in hand. When this value is dropped, the job is not in hand any more.
pub(crate) struct Held {
    hand: Arc<Hand>,
    pub(crate) id: String,
}

impl Hand {
    /// Takes a job in hand, and returns `None` if the job is in hand already.
    pub(crate) fn take(self: &Arc<Self>, id: String) -> Option<Held> {
        self.lock().insert(id.clone()).then(|| Held { hand: Arc::clone(self), id })
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.lock().contains(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells Redis at intervals that the jobs in hand are not idle, until the returned handle is dropped. So no other
    /// consumer takes over a job only because it takes long.
    ///
    /// Jobs that compute for minutes occupy all CPUs. A managed queue would not start the heartbeat during that time,
    /// but an unbound queue starts its items immediately.
    pub(crate) fn beat(
        self: &Arc<Self>,
        stream: &Stream,
        consumer: &str,
        claim: Duration,
        link: &Link,
    ) -> Result<PeriodicHandle, Box<dyn Error + Send + Sync>> {
        let mut link = link.to("keep the jobs").until(Step::Over);
        let (hand, stream, consumer) = (Arc::clone(self), stream.clone(), consumer.to_owned());
        let beat = move || {
            // Each attempt reads the numbers of the jobs again, because some jobs may have ended since the last
            // attempt.
            let kept = link.call(|redis| stream.keep(redis, &consumer, &hand.ids()));
            if let Err(error) = kept {
                eprintln!("fleet: cannot keep the jobs: {error}");
            }
        };
        let queue = WorkQueue::unbound("heartbeat").build()?;
        Ok(queue.item(beat).spawn_every(claim / BEATS)?)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hand.lock().remove(&self.id);
        if std::thread::panicking() {
            eprintln!("fleet: the job {} has panicked, and will be tried again", self.id);
        }
    }
}
