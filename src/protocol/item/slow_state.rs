//! The part of an item's state that a lock protects. This part holds the details of rare cases.

use crate::policy::flush::Ticket;
use crate::policy::item::{Known, ShardId};
use crate::sys::sync::Arc;
use crate::sys::wakers::Alarm;

use crate::protocol::signal::Signal;

/// See the module. `L` protects all fields.
#[derive(Debug)]
pub(super) struct SlowState<E, T, C> {
    /// The shards on whose lists cancelled entries of the item lie. A shard appears once for each cancelled entry on
    /// its lists. The vector does not count the entry that the item's word records.
    pub(super) stale: Vec<ShardId>,
    /// The ticket, if any, of the entry that the word records. The outer `None` means that the ticket is not known, or
    /// that the entry belongs to an ordered queue. The ticket is known only if `stale` named a shard when the issuer
    /// pushed the entry.
    pub(super) home: Option<Option<Ticket>>,
    /// The entry for the item's next run, if a worker popped this entry while the item ran.
    pub(super) kept: Option<E>,
    /// The timer that has armed the item.
    pub(super) timer: Option<T>,
    /// The number of disable calls that no enable call has undone.
    pub(super) disabled: u32,
    /// The signal that is set when the pending submission has run or was cancelled.
    pub(super) pending: Option<Arc<Signal>>,
    /// The signal that is set when the present run ends.
    pub(super) running: Option<Arc<Signal>>,
    /// Whether the present run was asked to stop.
    pub(super) stop: Stop,
    /// The value that the pending submission carries into its run.
    pub(super) carried: Option<C>,
    /// The value that the submission of the present run carries, until the worker takes it.
    pub(super) entering: Option<C>,
}

/// Whether the present run was asked to stop.
#[derive(Debug)]
pub(super) enum Stop {
    /// The run was not asked to stop, and has left no alarm. The field `stop` also has this value while the item does
    /// not run.
    No,
    /// The run was not asked to stop, and has left this alarm. The alarm rings when a thread asks the run to stop.
    Listens(Alarm),
    Asked,
}

impl<E, T, C> SlowState<E, T, C> {
    /// Returns whether the word's *attached* bit must be set.
    pub(super) fn is_attached(&self) -> bool {
        let waits = self.pending.is_some() || self.running.is_some();
        waits || self.carried.is_some() || !matches!(self.stop, Stop::No)
    }

    pub(super) fn new() -> Self {
        Self {
            stale: Vec::new(),
            home: None,
            kept: None,
            timer: None,
            disabled: 0,
            pending: None,
            running: None,
            stop: Stop::No,
            carried: None,
            entering: None,
        }
    }

    /// Returns the facts that the slow-path state knows about this shard, and about an entry with this ticket.
    pub(super) fn known(&self, shard: ShardId, ticket: Option<Ticket>) -> Known {
        Known { named: self.stale.contains(&shard), alike: self.home == Some(ticket) }
    }
}
