//! The weights of queues, and the turns and the CPU time that these queues have used.

use std::fmt;
use std::time::Duration;

use crate::protocol::turns::FairShare;

use super::snapshot::QueueSnapshot;
use super::text::{For, NAME, Name, heading};

/// The weight of a queue, and the turns and the CPU time that the queue has used. In each *turn* of the queue, a worker
/// takes one of the queue's items. Turns are counted only while queues with [weights](crate::WorkQueueBuilder::weight)
/// compete, so the numbers show how these queues have shared the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ShareSnapshot {
    /// The weight of the queue.
    pub weight: u32,
    /// The number of the queue's items that wait for a turn. The waiting items have a slot of the queue, so they are
    /// among the [active](QueueSnapshot::active) items.
    pub waiting: usize,
    /// The number of items that have begun in a turn of the queue. While no other queue competes, most of the queue's
    /// short items take no turn, and are not included.
    pub turns: u64,
    /// The CPU time that the items of [`turns`](Self::turns) have used. The CPU time of an item that has moved to
    /// another pod is not included. The CPU time of a running item is not included yet.
    #[cfg_attr(feature = "serde", serde(rename = "cpu_time_ns", with = "crate::policy::nanos"))]
    pub cpu_time: Duration,
}

impl ShareSnapshot {
    pub(super) fn of(share: &FairShare) -> Self {
        let so_far = share.so_far();
        Self {
            weight: share.weight(),
            waiting: so_far.waiting as usize,
            turns: so_far.turns,
            cpu_time: so_far.cpu_time,
        }
    }
}

/// Writes the table of the queues with weights, if there are any.
pub(super) fn shares(f: &mut fmt::Formatter<'_>, queues: &[QueueSnapshot]) -> fmt::Result {
    let weighted = || queues.iter().filter_map(|queue| Some((queue, queue.share?)));
    if weighted().next().is_none() {
        return Ok(());
    }
    writeln!(f)?;
    heading(f, "Workqueue -> weight")?;
    writeln!(
        f,
        "{:NAME$} {:>6} {:>8} {:>10} {:>10}]",
        "[    workqueue", "weight", "waiting", "turns", "cpu_time"
    )?;
    for (queue, share) in weighted() {
        let ShareSnapshot { weight, waiting, turns, cpu_time } = share;
        writeln!(
            f,
            "{} {weight:>6} {waiting:>8} {turns:>10} {:>10}",
            Name(&queue.name),
            For(cpu_time).to_string()
        )?;
    }
    Ok(())
}
