//! The shutdown of an executor.
//!
//! The calling thread first shuts the intakes of all queues to outsiders (threads that run no item of the executor),
//! and waits while the accepted items run. Then the calling thread shuts the intakes to all submissions. If the time
//! has run out, or if the wait can never end, the calling thread *gives up* the items that have not begun. The calling
//! thread empties the waiting lists and worklists itself, because the workers may be stuck. An entry may still reach a
//! pool later: a worker may put an entry back, or an issuer may have admitted an item and not pushed its entry yet. A
//! thread that brings an entry to an emptied pool gives the entry up.

use crate::policy::effective_state::Stage;
use crate::sys::machine;
use crate::sys::wait::Until;

use crate::engine::item::entry::{Abandoned, Entry};
use crate::engine::item::waits;
use crate::engine::queue::admission::complete;
use crate::engine::queue::drain::wait_until_empty;
use crate::engine::queue::register::QueueRef;
use crate::engine::queue::route;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::ShutdownError;
use crate::engine::user_code;

use super::inner::ExecutorInner;

/// The work that a shutdown did not finish.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) queues: Vec<QueueRemains>,
    /// The number of threads that have not ended.
    pub(crate) threads: usize,
}

/// The work of one queue that a shutdown did not finish.
#[derive(Debug)]
pub(crate) struct QueueRemains {
    pub(crate) name: String,
    /// The number of items that were given up.
    pub(crate) dropped: usize,
    pub(crate) running: usize,
    /// The number of timers that were given up.
    pub(crate) timers: usize,
}

impl ExecutorInner {
    /// Shuts the executor down. Returns the work that was not finished. Only the first call reports unfinished work.
    pub(crate) fn shutdown(&self, until: Until) -> Result<Remains, ShutdownError> {
        if self.origin.is_forked() {
            return Err(ShutdownError::Forked);
        }
        self.check_shutdown()?;
        if !self.queues.advance(Stage::Finishing) {
            return Ok(Remains { queues: Vec::new(), threads: 0 });
        }
        let (mut queues, mut known) = self.queues.refs_after(0);
        queues.iter().for_each(|queue| queue.change(|_| ()));
        self.cancel_timers();
        // The checks above have passed, so this wait fails in two cases only. In the first case, the time runs out. In
        // the second case, the caller is an item of another executor, and since the checks, an item of this executor
        // has queued the calling item to this executor. The caller would then wait for itself, so the pending items are
        // given up at once.
        while wait_until_empty(&queues, until).is_ok() {
            // An item may have made a new queue before it ended, for example a system queue, which is made when it is
            // first used.
            let before = known;
            known = self.ref_later(&mut queues, known);
            if known == before {
                break;
            }
        }
        if !Queue::were_empty(&queues) {
            // The wait has failed. The running items are asked to stop.
            self.token().cancel();
        }
        self.queues.advance(Stage::Shut);
        // No queue enters the register any more, so `queues` is complete after this call.
        self.ref_later(&mut queues, known);
        queues.iter().for_each(|queue| queue.change(|_| ()));
        self.cancel_timers();
        self.give_up(&queues);
        queues.iter().for_each(|queue| queue.stop_rescuer());
        self.core.manager.stop();
        // The pools are closed only after the manager was stopped. Another thread may be making an unbound pool that is
        // not in the register of pools yet. That thread then sees that the manager was stopped, and closes its pool
        // itself.
        self.upkeep.pools.all().iter().for_each(|pool| pool.close());
        let threads = {
            let _says = machine::waits_for("the end of the executor's threads");
            self.core.threads.wait(until)
        };
        let queues = queues.iter().map(|queue| queue.remains()).filter(QueueRemains::is_something);
        Ok(Remains { queues: queues.collect(), threads })
    }

    /// Returns an error if the shutdown would wait for its own caller.
    pub(super) fn check_shutdown(&self) -> Result<(), ShutdownError> {
        // A shutdown waits until all threads of the executor have ended. So a caller on one of these threads would wait
        // for itself. A calling item of another executor would also wait for itself if it is pending again on a queue
        // of this executor.
        let would_wait_for_itself = self.core.threads.has_current_thread()
            || self.queues.any(|queue| waits::check_queue(queue).is_err());
        if would_wait_for_itself { Err(ShutdownError::WouldDeadlock) } else { Ok(()) }
    }

    /// Returns whether the shutdown of the executor has begun.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.queues.condition().1 != Stage::Open
    }

    /// Adds to `queues` the queues that have entered the register after the queue with the number `known`. Returns the
    /// highest number that a queue has received so far.
    fn ref_later(&self, queues: &mut Vec<QueueRef>, known: u64) -> u64 {
        let (later, last) = self.queues.refs_after(known);
        queues.extend(later);
        last
    }

    fn cancel_timers(&self) {
        for (name, timer) in self.upkeep.timers.take_all() {
            timer.cancel(&name);
        }
    }

    /// Gives up the items that have not begun, and the markers. When this function is called, all submissions are
    /// refused.
    #[cold]
    fn give_up(&self, queues: &[QueueRef]) {
        // All pools are abandoned before any entry is given up, because a route's marker that is given up releases
        // entries to another pool. The waiting lists are emptied only after the pools were emptied, for the following
        // reason. While the intake is shut, an item that reaches its waiting list late is given a slot immediately, and
        // goes to a pool. In the pool, the item counts as active until it is given up. If there were too many such
        // items, the limiter could count no further item as active, and so no item of its waiting list could be given
        // up.
        let pools = self.upkeep.pools.all();
        let aside: Vec<_> = pools.iter().map(|pool| pool.abandon()).collect();
        aside.into_iter().flatten().for_each(give_up);
        // A marker of any pool may release entries to a pool that comes earlier in `pools`. This thread gives up these
        // entries, too, because no pool counts as empty before all markers are gone.
        pools.iter().for_each(|pool| pool.give_up_worklist());
        pools.iter().for_each(|pool| pool.empty());
        for limiter in queues.iter().flat_map(|queue| queue.limiters()) {
            while limiter.cell.recall() {
                give_up(limiter.first_waiting());
            }
        }
    }
}

impl Queue {
    /// Returns the work that the queue did not finish, and sets its number of given-up timers to zero.
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

/// Completes an entry without running its item, and tells the item's owner. The caller keeps the entry's pool in
/// memory. Completing the entry may run the item's destructor. So on the manager's thread, this function leaves the
/// entry to the cleaner, which completes the entry later.
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
        let given_up = entry.abandon();
        let queue = entry.shard().queue();
        queue.left_pending();
        if given_up == Abandoned::Ready {
            queue.given_up.raise();
        } else {
            entry.shard().events.cancelled(given_up.is_late());
        }
        next = complete(entry);
    }
}
