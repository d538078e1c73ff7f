//! Periodic items, which a timer queues again and again.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::item::Arm;
use crate::policy::ticks::Ticks;
use crate::sys::clock;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

use crate::engine::queue::places::Kept;
use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::refusal::QueueError;

use super::context;
use super::entry::ItemType;
use super::place::Place;
use super::token::{Armed, Token};
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

/// The function of a periodic item, which a run has taken out of the item's mutex. Dropping this value puts the
/// function back into the mutex, even if the function has panicked.
struct Taken<'a, F> {
    from: &'a Mutex<Option<F>>,
    function: Option<F>,
}

impl<'a, F> Taken<'a, F> {
    fn take(from: &'a Mutex<Option<F>>) -> Self {
        Self { from, function: from.lock().take() }
    }
}

impl<F> Drop for Taken<'_, F> {
    fn drop(&mut self) {
        *self.from.lock() = self.function.take();
    }
}

/// A guard that arms the next tick of a periodic item when the guard is dropped. The guard is dropped at the end of a
/// run, even if the run panics.
struct ArmAgain<'a> {
    work: &'a WorkHandle,
    queue: &'a Arc<QueueHandle>,
    place: Place,
    period: &'a Period,
    armed: Option<&'a Armed>,
}

impl Drop for ArmAgain<'_> {
    fn drop(&mut self) {
        // The item's function has forked the process, and this is the child. A thread of the parent may have held the
        // lock of the ticks at the fork, and the child has no manager.
        if self.work.origin.is_forked() {
            return;
        }
        let now = clock::now();
        let mut ticks = self.period.ticks.lock();
        *ticks = ticks.ran(self.period.period, now);
        let next = ticks.next;
        drop(ticks);
        if self.work.token.as_ref().is_some_and(|token| token.is_cancelled() || token.deadline() <= next) {
            return;
        }
        let after = next.since(now);
        // `arm` refuses the tick if the item was cancelled or its queue has ended. If `arm` refuses the tick, this run
        // was the item's last.
        let _armed: Result<Arm, QueueError> =
            Queue::arm(self.queue, self.place, None, after, self.work, false);
        if let (Some(armed), Some(name)) = (self.armed, self.work.cell.timer()) {
            armed.timer().is(name);
        }
    }
}

/// The times and the place at which a periodic item runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) place: Place,
    /// The delay of the first run.
    pub(crate) first: Duration,
    /// The time between two ticks, which is not zero.
    pub(crate) period: Duration,
}

/// Makes a periodic item and arms its first tick. `kept` is the item's place among the pending items, if the caller has
/// taken one. If the queue refuses the first tick, returns the function with the error. Snapshots describe each run by
/// `name`, if there is one. After `token` is cancelled, the item does not run any more.
pub(crate) fn spawn_every<F>(
    queue: &Arc<QueueHandle>,
    schedule: Schedule,
    kept: Option<Kept<'_>>,
    (name, token): (Option<Cow<'static, str>>, Option<Token>),
    function: F,
) -> Result<(WorkHandle, Arc<Period>), (QueueError, F)>
where
    F: FnMut() + Send + 'static,
{
    let Schedule { place, first, period } = schedule;
    let first = token.as_ref().map_or(first, |token| token.delay(first));
    let ticks = Mutex::new(Ticks::new(first, clock::now()));
    let shared = Arc::new(Period { period, ticks, runs: AtomicU64::new(0) });
    // The item and this call share the function. If the item is refused, this call hands the function back. A run takes
    // the function out of the mutex, because user code must not run while a lock is held.
    let function = Arc::new(Mutex::new(Some(function)));
    let armed = token.as_ref().map(Armed::new);
    let timer = armed.as_ref().map(Armed::timer);
    let work = {
        let (queue, shared, function) = (Arc::clone(queue), Arc::clone(&shared), Arc::clone(&function));
        let run = move |work: &WorkHandle| {
            if work.token.as_ref().is_some_and(Token::is_cancelled) {
                return;
            }
            let _again = ArmAgain { work, queue: &queue, place, period: &shared, armed: armed.as_ref() };
            shared.runs.fetch_add(1, Ordering::Relaxed);
            if let Some(name) = &name {
                context::describe(name.clone().into_owned());
            }
            let mut taken = Taken::take(&function);
            let Some(function) = &mut taken.function else { return };
            match &work.token {
                None => function(),
                Some(token) => token.enter_item(function),
            }
        };
        WorkHandle::with_token(ItemType::of::<F>(), token, Box::new(run))
    };
    // A first run without a delay needs room in the queue, as any submission does. The new item is not pending yet, so
    // the argument `true` replaces no pending submission.
    match Queue::arm(queue, place, kept, first, &work, true) {
        Ok(_armed) => {
            if let (Some(timer), Some(name)) = (timer, work.cell.timer()) {
                timer.is_first(name);
            }
            Ok((work, shared))
        }
        Err(error) => {
            drop(work);
            let function = function.lock().take();
            Err((error, function.expect("an item that was refused has not run")))
        }
    }
}
