//! The counters of queues: who writes them, and how they are read.
//!
//! What is counted for each item lies in *cells*, one for each thread and shard that it works for. Only that thread writes
//! to it, so counting costs a few plain stores. The shard has an *account* of the cells that are open for it; see
//! [`protocol::tally`](crate::protocol::tally). What is rare is counted in the shard itself.
//!
//! A thread holds the cells of at most [`MOST_HELD`] shards. It settles one that it needs the place of, and all of them
//! when it ends: their numbers go to the accounts, so nothing is lost when a worker or pool ends. A cell of a shard that
//! has gone is freed when its thread needs the place, or ends.
//!
//! So counters take less than 0.2 KiB for each shard while it exists, and about 0.1 KiB for each cell: less than 32 KiB
//! for a thread, however many queues there are or were.
//!
//! `--cfg cmwq_uncounted` leaves all of this out, to see what it costs.

mod held;
mod meter;

use std::sync::Arc;
use std::time::Duration;

use crate::policy::counters::Counters;
use crate::policy::worker::Finding;
use crate::protocol::tally;
use crate::sys::sync::{AtomicU64, Ordering};

pub(super) use self::meter::{Course, Meter, as_nanos};
use super::shard::Shard;
use super::worker::Worker;

/// Is anything counted at all?
pub(super) const COUNTED: bool = cfg!(not(cmwq_uncounted));

/// What all threads have counted for one shard.
pub(super) type Account = tally::Account<Arc<Worker>>;

/// What is counted at a shard itself: what happens rarely, or on threads that have no table.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(super) cpu_hogs: Count,
    pub(super) concurrency_wakeups: Count,
    pub(super) repatriated: Count,
    pub(super) maydays: Count,
    pub(super) rescued: Count,
    pub(super) panicked: Count,
    pub(super) cancelled: Count,
    pub(super) undeclared_blocks: Count,
    /// The most CPU time that was told of. In nanoseconds.
    told_cpu_time: AtomicU64,
}

/// A number that many threads raise.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(super) fn raise(&self) {
        if COUNTED {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Events {
    /// What was found out about one of its items was carried out.
    pub(super) fn found(&self, finding: Finding) {
        match finding {
            Finding::Asleep => self.undeclared_blocks.raise(),
            Finding::Hog => self.cpu_hogs.raise(),
            // It has said so, or does nothing wrong.
            Finding::Blocks | Finding::Runs => {}
        }
    }
}

impl Shard {
    /// What was counted for it so far. The caller keeps it in place, and is not in a forked process, where the account's
    /// lock may have been held in the parent.
    pub(crate) fn counters(&self) -> Counters {
        let events = &self.events;
        let mut at_it = Vec::new();
        let tally = self.account.total(|worker| at_it.push(Arc::clone(worker)));
        // What the present items have used and is in no cell yet, outside of the lock: each asks the system.
        let in_flight = at_it.iter().filter_map(|worker| worker.cpu_time_for(self.id()));
        let cpu_time = tally.cpu_time + in_flight.map(as_nanos).sum::<u64>();
        // What was told of an item in flight may go to another shard in the end.
        let told = events.told_cpu_time.fetch_max(cpu_time, Ordering::Relaxed).max(cpu_time);
        Counters {
            started: tally.started,
            completed: tally.completed,
            away: tally.away,
            stolen: tally.stolen,
            cpu_time: Duration::from_nanos(told),
            cpu_hogs: events.cpu_hogs.load(),
            concurrency_wakeups: events.concurrency_wakeups.load(),
            repatriated: events.repatriated.load(),
            maydays: events.maydays.load(),
            rescued: events.rescued.load(),
            panicked: events.panicked.load(),
            cancelled: events.cancelled.load(),
            undeclared_blocks: events.undeclared_blocks.load(),
        }
    }
}
