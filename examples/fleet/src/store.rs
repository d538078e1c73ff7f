//! Collects the results, and stores them in Redis.
//!
//! One reusable item stores all collected results by one command. Each new result queues the item, but queueing a
//! pending item has no effect. So all results that come during a command share the next command. Only one worker
//! executes the item at a time, so there is never more than one command.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use cmwq::{BuildQueueError, Work, WorkQueue};

use crate::ending::Step;
use crate::hand::Held;
use crate::link::Link;
use crate::stream::Stream;

pub(crate) struct Finished {
    pub(crate) held: Held,
    pub(crate) name: Vec<u8>,
    pub(crate) result: String,
}

pub(crate) struct Store {
    queue: WorkQueue,
    step: Work,
    finished: Arc<Mutex<Vec<Finished>>>,
}

impl Store {
    pub(crate) fn new(stream: &Stream, link: &Link) -> Result<Self, BuildQueueError> {
        let finished: Arc<Mutex<Vec<Finished>>> = Arc::default();
        let (stream, results) = (stream.clone(), Arc::clone(&finished));
        let mut link = link.to("store results").until(Step::Over);
        let step = Work::new(move || {
            let batch = std::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner));
            if batch.is_empty() {
                return;
            }
            // The link returns an error only at the end of the process. The jobs are then still in hand, and the
            // process gives them back.
            if let Err(error) = link.call(|redis| stream.store(redis, &batch)) {
                eprintln!("fleet: {} results are not stored: {error}", batch.len());
                results.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
            }
        });
        // On a managed queue, the item would wait for a CPU behind jobs that compute. An unbound queue starts it
        // immediately.
        let queue = WorkQueue::unbound("results").build()?;
        Ok(Self { queue, step, finished })
    }

    /// Stores the result and acknowledges the job. Returns when both have happened, or when the process ends.
    pub(crate) fn put(&self, finished: Finished) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).push(finished);
        // After this submission, the item runs at least once more, and that run sees this result.
        self.queue.enqueue(&self.step)?;
        // The flush waits for that run, under a guard.
        self.step.flush()?;
        Ok(())
    }
}
