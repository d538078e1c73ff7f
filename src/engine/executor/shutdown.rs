//! The shutdown of an executor.
//!
//! The calling thread first shuts the intakes of all queues to outsiders, and waits while the accepted items run. Then
//! it shuts the intakes to all submissions. If the time has run out by then, it *gives up* the items that have not
//! begun: it empties waiting lists and worklists itself, since the workers may be stuck. An entry may still come to a
//! pool afterwards: a worker puts it back, or its issuer was between its admission and its push. The thread that
//! brings such an entry gives it up.

use crate::policy::effective_state::Stage;
use crate::sys::wait::Until;

use crate::engine::item::entry::Entry;
use crate::engine::item::waits;
use crate::engine::queue::admission::complete;
use crate::engine::queue::drain::wait_until_empty;
use crate::engine::queue::register::QueueRef;
use crate::engine::queue::route;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::ShutdownError;
use crate::engine::user_code;

use super::inner::ExecutorInner;

/// What a shutdown did not finish.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) queues: Vec<QueueRemains>,
    /// Threads that have not ended.
    pub(crate) threads: usize,
}

/// What a shutdown did not finish of one queue.
#[derive(Debug)]
pub(crate) struct QueueRemains {
    pub(crate) name: String,
    /// Items that were given up.
    pub(crate) dropped: usize,
    pub(crate) running: usize,
    /// Timers that were given up.
    pub(crate) timers: usize,
}

impl ExecutorInner {
    /// Shuts the executor down. Returns what was not finished; only the first call returns anything.
    pub(crate) fn shutdown(&self, until: Until) -> Result<Remains, ShutdownError> {
        if self.origin.is_forked() {
            return Err(ShutdownError::Forked);
        }
        // This waits for the end of all threads, so it would wait for the calling one.
        if self.core.threads.has_current_thread() {
            return Err(ShutdownError::WouldDeadlock);
        }
        // The caller may also be an item of another executor that is pending on one of these queues.
        if self.queues.any(|queue| waits::check_queue(queue).is_err()) {
            return Err(ShutdownError::WouldDeadlock);
        }
        if !self.queues.advance(Stage::Finishing) {
            return Ok(Remains { queues: Vec::new(), threads: 0 });
        }
        let (mut queues, mut known) = self.queues.refs_after(0);
        queues.iter().for_each(|queue| queue.change(|_| ()));
        self.cancel_timers(&queues);
        // The checks above have passed, so this fails only if the time runs out.
        while wait_until_empty(&queues, until).is_ok() {
            // An item may have made a queue before it ended: a system queue, which it was the first to use.
            let before = known;
            known = self.ref_later(&mut queues, known);
            if known == before {
                break;
            }
        }
        self.queues.advance(Stage::Shut);
        // No queue enters any more, so these are all.
        self.ref_later(&mut queues, known);
        queues.iter().for_each(|queue| queue.change(|_| ()));
        self.cancel_timers(&queues);
        self.give_up(&queues);
        queues.iter().for_each(|queue| queue.stop_rescuer());
        self.core.manager.stop();
        // After the manager was stopped: a pool that is being made is among these, or the thread that makes it sees
        // that the manager was stopped, and closes the pool.
        self.upkeep.pools.all().iter().for_each(|pool| pool.close());
        let threads = self.core.threads.wait(until);
        let queues = queues.iter().map(|queue| queue.remains()).filter(QueueRemains::is_something);
        Ok(Remains { queues: queues.collect(), threads })
    }

    /// Returns whether its shutdown has begun.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.queues.condition().1 != Stage::Open
    }

    /// Adds the queues that have entered since the one with the number `known`. Returns the number of the last one.
    fn ref_later(&self, queues: &mut Vec<QueueRef>, known: u64) -> u64 {
        let (later, last) = self.queues.refs_after(known);
        queues.extend(later);
        last
    }

    fn cancel_timers(&self, queues: &[QueueRef]) {
        for (name, timer) in self.upkeep.timers.take_all() {
            timer.cancel(&name);
        }
        queues.iter().for_each(|queue| queue.cancel_held_timers());
    }

    /// Gives up the items that have not begun, and markers. All submissions are refused by now.
    #[cold]
    fn give_up(&self, queues: &[QueueRef]) {
        // All pools are abandoned before any entry is given up: entries that a marker releases go to another pool.
        // And pools come before waiting lists: while the intake is shut, an item that is listed late goes to a pool at
        // once, and counts as active until it is given up there. There may be so many of them that the limiter can
        // count none of the waiting items as active.
        let pools = self.upkeep.pools.all();
        let aside: Vec<_> = pools.iter().map(|pool| pool.abandon()).collect();
        aside.into_iter().flatten().for_each(give_up);
        pools.iter().for_each(|pool| pool.give_up_worklist());
        for limiter in queues.iter().flat_map(|queue| queue.limiters()) {
            while limiter.cell.recall() {
                give_up(limiter.first_waiting());
            }
        }
    }
}

impl Queue {
    /// Returns what was not finished, and sets the number of given-up timers to zero.
    fn remains(&self) -> QueueRemains {
        let left = self.given_up.beside(self.limiters().map(|limiter| &*limiter.cell));
        QueueRemains {
            name: self.name().to_owned(),
            dropped: left.given_up as usize,
            running: left.in_flight as usize,
            timers: std::mem::take(&mut self.making.lock().cancelled_timers),
        }
    }
}

impl QueueRemains {
    fn is_something(&self) -> bool {
        self.dropped + self.running + self.timers > 0
    }
}

/// Completes an entry without a run, and tells the item's owner. The caller keeps the entry's pool in memory. If the
/// manager calls this, another thread does it later, since it may run the item's destructor.
#[cold]
pub(crate) fn give_up(entry: Entry) {
    user_code::destroy(|| give_up_here(entry));
}

fn give_up_here(entry: Entry) {
    let mut next = Some(entry);
    while let Some(entry) = next {
        if entry.is_marker() {
            return route::meet(entry);
        }
        let would_have_run = entry.abandon();
        let queue = entry.shard().queue();
        queue.left_pending();
        if would_have_run {
            queue.given_up.raise();
        } else {
            entry.shard().events.cancelled.raise();
        }
        next = complete(entry);
    }
}
