//! The end of an executor that is asked for.
//!
//! First the doors of all queues are shut to outsiders, and what was accepted runs. Then they are shut to everybody. If
//! the time ran out before, what has not begun is *given up*: whoever shuts down empties waiting lists and worklists
//! himself, since the workers may be stuck. What still comes to a pool afterwards, put back or from an issuer that was
//! between its admission and its push, is given up by whoever brings it.

use crate::policy::standing::Stage;
use crate::sys::wait::Until;

use super::drain::wait_until_empty;
use super::entry::Entry;
use super::executor::ExecutorInner;
use super::queue::Queue;
use super::refusal::ShutdownError;
use super::register::Pin;
use super::route;
use super::shard;
use super::user_code;
use super::waits;

/// What a shutdown did not finish.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) queues: Vec<QueueRemains>,
    /// Threads that have not ended.
    pub(crate) threads: usize,
}

/// What it did not finish of one queue.
#[derive(Debug)]
pub(crate) struct QueueRemains {
    pub(crate) name: String,
    pub(crate) dropped: usize,
    pub(crate) running: usize,
    pub(crate) timers: usize,
}

impl ExecutorInner {
    /// Ends the executor. Nothing remains, for whoever is not the first to ask.
    pub(crate) fn shutdown(&self, until: Until) -> Result<Remains, ShutdownError> {
        if self.origin.is_forked() {
            return Err(ShutdownError::Forked);
        }
        // Its end would be waited for, too.
        if self.core.threads.has_current_thread() {
            return Err(ShutdownError::WouldDeadlock);
        }
        // An item of another executor may be pending here, too.
        if self.queues.any(|queue| waits::check_queue(queue).is_err()) {
            return Err(ShutdownError::WouldDeadlock);
        }
        if !self.queues.advance(Stage::Finishing) {
            return Ok(Remains { queues: Vec::new(), threads: 0 });
        }
        let (mut queues, mut known) = self.queues.pins_after(0);
        queues.iter().for_each(|queue| queue.change(|_| ()));
        self.cancel_timers(&queues);
        // No item waits here, so nothing but the time can end this early.
        while wait_until_empty(&queues, until).is_ok() {
            // Before it ended, an item may have been the first to use a system queue.
            let before = known;
            known = self.pin_later(&mut queues, known);
            if known == before {
                break;
            }
        }
        self.queues.advance(Stage::Shut);
        // No queue enters any more, so these are all.
        self.pin_later(&mut queues, known);
        queues.iter().for_each(|queue| queue.change(|_| ()));
        self.cancel_timers(&queues);
        self.give_up(&queues);
        queues.iter().for_each(|queue| queue.stop_rescuer());
        self.core.manager.stop();
        // Afterwards: a pool that is made now is among these, or is closed by whoever makes it.
        self.core.pools().iter().for_each(|pool| pool.close());
        let threads = self.core.threads.wait(until);
        let queues = queues.iter().map(|queue| queue.remains()).filter(QueueRemains::is_something);
        Ok(Remains { queues: queues.collect(), threads })
    }

    /// Is it, or was it, shut down?
    pub(crate) fn is_shut_down(&self) -> bool {
        self.queues.condition().1 != Stage::Open
    }

    /// Adds the queues that have entered since. Returns the number of the last one.
    fn pin_later(&self, queues: &mut Vec<Pin>, known: u64) -> u64 {
        let (later, last) = self.queues.pins_after(known);
        queues.extend(later);
        last
    }

    fn cancel_timers(&self, queues: &[Pin]) {
        for (name, timer) in self.core.timers.take_all(&self.core) {
            timer.cancel(&name);
        }
        queues.iter().for_each(|queue| queue.cancel_held_timers());
    }

    /// Gives up what has not begun: only markers, if all was done. Everybody is refused by now.
    #[cold]
    fn give_up(&self, queues: &[Pin]) {
        // All pools before any entry: what a marker holds back goes on to another pool. And pools before lists: what comes to
        // a list too late is taken to a pool, and counts as active until it is given up there; so many may come that there
        // is no count left for those who wait.
        let pools = self.core.pools();
        let aside: Vec<_> = pools.iter().map(|pool| pool.abandon()).collect();
        aside.into_iter().flatten().for_each(give_up);
        pools.iter().for_each(|pool| pool.give_up_worklist());
        for gate in queues.iter().flat_map(|queue| queue.gates()) {
            while gate.cell.recall() {
                give_up(gate.first_waiting());
            }
        }
    }
}

impl Queue {
    fn remains(&self) -> QueueRemains {
        let left = self.given_up.beside(self.gates().map(|gate| &*gate.cell));
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

/// An entry is completed without a run, and its owner is told. The caller keeps its pool in place. The manager leaves that to
/// another thread, since it ends with the item's destructor.
#[cold]
pub(super) fn give_up(entry: Entry) {
    user_code::destroy(|| give_up_here(entry));
}

fn give_up_here(entry: Entry) {
    let mut next = Some(entry);
    while let Some(entry) = next {
        if route::is_marker(&entry) {
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
        next = shard::complete(entry);
    }
}
