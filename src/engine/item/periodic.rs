//! Periodic items, which a timer queues again and again.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::item::Arm;
use crate::policy::ticks::Ticks;
use crate::sys::clock;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::refusal::QueueError;

use super::entry::ItemType;
use super::place::Place;
use super::work::WorkHandle;

/// The state that a periodic item's function shares with its handle.
#[derive(Debug)]
pub(crate) struct Period {
    period: Duration,
    ticks: Mutex<Ticks>,
    runs: AtomicU64,
}

impl Period {
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    pub(crate) fn missed(&self) -> u64 {
        self.ticks.lock().missed
    }
}

/// A guard that arms the next tick when it is dropped. The drop happens at the end of a run, even if the run panics.
struct ArmAgain<'a> {
    work: &'a WorkHandle,
    queue: &'a Arc<QueueHandle>,
    period: &'a Period,
}

impl Drop for ArmAgain<'_> {
    fn drop(&mut self) {
        let now = clock::now();
        let mut ticks = self.period.ticks.lock();
        *ticks = ticks.ran(self.period.period, now);
        let after = ticks.next.since(now);
        drop(ticks);
        // The call is refused if the item was cancelled or its queue has ended. In that case, this run was the item's
        // last.
        let _armed: Result<Arm, QueueError> = Queue::arm(self.queue, Place::Here, after, self.work, false);
    }
}

/// Makes the item and arms its first tick. If arming is refused, returns the function with the error. `period` is not
/// zero.
pub(crate) fn spawn_every<F>(
    queue: &Arc<QueueHandle>,
    item_type: &'static ItemType,
    period: Duration,
    function: F,
) -> Result<(WorkHandle, Arc<Period>), (QueueError, F)>
where
    F: Fn() + Send + Sync + 'static,
{
    let ticks = Mutex::new(Ticks::new(period, clock::now()));
    let shared = Arc::new(Period { period, ticks, runs: AtomicU64::new(0) });
    let function = Arc::new(function);
    let work = {
        let (queue, shared, function) = (Arc::clone(queue), Arc::clone(&shared), Arc::clone(&function));
        WorkHandle::new(
            item_type,
            Box::new(move |work| {
                let _again = ArmAgain { work, queue: &queue, period: &shared };
                shared.runs.fetch_add(1, Ordering::Relaxed);
                function();
            }),
        )
    };
    match Queue::arm(queue, Place::Here, period, &work, false) {
        Ok(_armed) => Ok((work, shared)),
        Err(error) => {
            drop(work);
            let function = Arc::into_inner(function).expect("the item that shared the function is gone");
            Err((error, function))
        }
    }
}
