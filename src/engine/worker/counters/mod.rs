//! The counters of queues: how threads write and read them.
//!
//! Counts that change with each item are in *cells*. A thread has a cell for each shard for which it works. Only that
//! thread writes to the cell, so counting costs a few plain stores. The shard's *account* lists the shard's open cells:
//! see [`protocol::counters`](crate::protocol::counters). Rare events are counted in the shard itself.
//!
//! A thread holds the cells of at most [`MOST_HELD`](held::MOST_HELD) shards. To *settle* a cell, the thread adds the
//! cell's numbers to the account. A thread settles a cell when it needs the cell's place, and settles all of its cells
//! when it ends. So no count is lost when a worker or a pool ends. After a shard was freed, a thread keeps the shard's
//! cell until the thread needs the cell's place, enlarges its table of cells, or ends.
//!
//! In total, the counters take less than 0.2 KiB for each shard that exists, and about 0.1 KiB for each cell. The cells
//! of a thread take less than 32 KiB, however many queues there are or were.
//!
//! `--cfg cmwq_uncounted` disables all counting, so that the cost of counting can be measured.

mod held;
pub(crate) mod meter;

use std::sync::Arc;

use crate::policy::worker::Finding;
use crate::protocol::counters;
use crate::sys::sync::{AtomicU64, Ordering};

use crate::engine::COUNTED;

use super::shared::Worker;

/// The counts of one shard. Each thread that runs the shard's items has its own part of these counts.
pub(crate) type Account = counters::Account<Arc<Worker>>;

/// The counts of rare events, and of events on threads that have no cells. A shard itself holds these counts.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) cpu_hogs: Count,
    pub(crate) concurrency_wakeups: Count,
    pub(crate) brought_back: Count,
    pub(crate) rescuer_calls: Count,
    pub(crate) rescued: Count,
    pub(crate) panicked: Count,
    pub(crate) cancelled: Count,
    pub(crate) expired: Count,
    pub(crate) refused: Count,
    pub(crate) undeclared_blocks: Count,
    /// The highest CPU time that `Shard::counters` has returned, in nanoseconds.
    pub(crate) told_cpu_time: AtomicU64,
}

/// A count that many threads can increment.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn raise(&self) {
        if COUNTED {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn raise_by(&self, events: usize) {
        if COUNTED {
            self.0.fetch_add(events as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Events {
    /// Counts an item whose entry is completed without a run. `late` says whether the item's deadline had passed.
    pub(crate) fn cancelled(&self, late: bool) {
        self.cancelled.raise();
        if late {
            self.expired.raise();
        }
    }

    /// Counts a finding of the manager about one of the shard's items, after the manager has acted on the finding.
    pub(crate) fn found(&self, finding: Finding) {
        match finding {
            Finding::Asleep => self.undeclared_blocks.raise(),
            Finding::Hog => self.cpu_hogs.raise(),
            // The item has declared that it may block, or it runs again after a sleep that was counted before.
            Finding::Blocks | Finding::Runs => {}
        }
    }
}
