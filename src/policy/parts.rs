//! Decides from which part of its pool's worklist a worker takes its next entries.
//!
//! The worklist of a managed pool has a *part* for each CPU where possible, but at most [`MOST`] parts. An issuer adds
//! its entry to the part of its CPU. A worker prefers the part of the CPU on which it runs. So an item, the counts of
//! its queue on that CPU, and the ends of the list mostly stay in the cache of one CPU. Because workers of different
//! CPUs prefer different parts, they seldom wait for each other.
//!
//! The entries of a part leave the part in order. There is no order between entries of different parts, so a worker
//! must not neglect the parts of other CPUs:
//!
//! * A worker takes at most [`LONGEST`] entries from one part in a *stretch*, and then chooses a part again. While the
//!   worker's items are short, a stretch has only as many entries as fit into 25 µs. If the items are long, the worker
//!   reads the clock before each entry, and all entries of a stretch begin within 1 ms. So if short items follow long
//!   ones, the worker can still take several short items in one stretch.
//! * With each choice, the worker *passes over* all other parts that have entries. If a part was passed over twice as
//!   often as there are parts, the next worker that chooses a part chooses this part. A stretch that begins with an
//!   heir ([`local`](super::local)) does not count as a choice of the heir's part, because the worker takes no entry
//!   from that part.
//! * Workers with long items go from part to part, because it hardly matters in which cache a long item is.
//! * If several parts were passed over twice as often as there are parts, a worker chooses the part that was passed
//!   over most often. A worker whose items are long always chooses, among all parts that have entries, the part that
//!   was passed over most often.
//!
//! There are at most as many parts as CPUs. So at most 64 entries for each CPU overtake the first entry of a part. The
//! 64 entries consist of three stretches (48 entries) for each part, and the rest of an earlier stretch (at most 16
//! entries) for each running worker. While the items are as short as they were before, each stretch takes at most 25
//! µs. If the items become long during a stretch, a check of the manager ends the stretch, as it ends a row of local
//! items ([`local`](super::local)).

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::Duration;

use super::cpu_set::CpuSet;
use super::time::Time;

/// A worklist has at most this many parts. With more parts, a worker would need too long to check all of them.
pub(crate) const MOST: usize = 8;

/// A worker takes at most this many entries from a part before it chooses a part again.
const LONGEST: u32 = 16;

/// If a worker's items are long, it begins all items of a stretch within this time.
const TIME: Duration = Duration::from_millis(1);

/// A stretch of short items takes at most 0.1 ms divided by this number.
const PER_SPAN: u32 = 4;

/// Returns whether items are so long that fewer than two of them fit into 25 µs. `span` is the number of items that
/// take 0.1 ms.
const fn are_long(span: u32) -> bool {
    span < 2 * PER_SPAN
}

/// The number of a worklist's parts, and the rule that gives each CPU its part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Division {
    /// The number of parts minus one. The number of parts is a power of two.
    mask: usize,
    /// The number of low bits of a CPU's number that do not influence the CPU's part. On some machines, for example, a
    /// node has only CPUs with even numbers.
    shift: u32,
}

impl Division {
    /// The division of a worklist that has only one part.
    pub(crate) const WHOLE: Self = Self { mask: 0, shift: 0 };

    /// Returns the division for a pool that serves these CPUs. As many of the CPUs as possible have a part of their
    /// own.
    pub(crate) fn new(cpus: &CpuSet) -> Self {
        // The greatest power of two that is not greater than the number of CPUs.
        let parts = 1 << cpus.len().clamp(1, MOST).ilog2();
        let by_shift = (0..usize::BITS).map(|shift| Self { mask: parts - 1, shift });
        let used = |division: &Self| {
            let parts: BTreeSet<usize> = cpus.iter().map(|cpu| division.part_of(cpu)).collect();
            parts.len()
        };
        by_shift.rev().max_by_key(used).unwrap_or(Self::WHOLE)
    }

    /// Returns the number of parts.
    #[inline]
    pub(crate) const fn parts(self) -> usize {
        self.mask + 1
    }

    /// Returns the part of a CPU. Each CPU has a part, even if the pool does not serve this CPU.
    #[inline]
    pub(crate) const fn part_of(self, cpu: usize) -> usize {
        cpu >> self.shift & self.mask
    }
}

/// The entries that a worker takes from one part, one after the other, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stretch {
    part: u8,
    /// The number of entries that the worker may still take.
    left: u8,
    /// Whether the manager has ended the stretch, because the worker's items have become long.
    is_ended: bool,
    /// The time at which the stretch ends, or `None` if the items are short.
    until: Option<Time>,
}

impl Stretch {
    /// Begins a stretch in this part. `last` is the worker's last stretch. `span` is the number of the worker's items
    /// that take 0.1 ms. Calls `now` only if the items are long.
    pub(crate) fn begin(part: usize, last: Self, span: u32, now: impl FnOnce() -> Time) -> Self {
        let is_long = last.is_ended || are_long(span);
        let left = if is_long { LONGEST } else { LONGEST.min(span / PER_SPAN) };
        Self {
            part: part as u8,
            left: left as u8,
            is_ended: false,
            until: if is_long { Some(now() + TIME) } else { None },
        }
    }

    pub(crate) const fn part(self) -> usize {
        self.part as usize
    }

    /// Returns whether the worker takes another entry before it chooses a part again. Calls `now` only if the items are
    /// long.
    #[inline]
    pub(crate) fn goes_on(self, span: u32, now: impl FnOnce() -> Time) -> bool {
        self.left > 0
            && match self.until {
                // If the items have become long, the stretch ends early.
                None => !are_long(span),
                Some(until) => now() < until,
            }
    }

    /// Ends the stretch of a worker that was blocked. The worker still knows the part of the stretch, so that workers
    /// with long items do not all move on to the same part.
    #[must_use]
    pub(crate) const fn over(self) -> Self {
        Self { left: 0, ..self }
    }

    /// Notes that the manager has ended the stretch.
    #[must_use]
    pub(crate) const fn ended(self) -> Self {
        Self { left: 0, is_ended: true, ..self }
    }

    /// Returns whether the manager has ended the stretch.
    pub(crate) const fn is_ended(self) -> bool {
        self.is_ended
    }

    /// Counts an entry that the worker takes.
    #[inline]
    #[must_use]
    pub(crate) const fn taken(self) -> Self {
        Self { left: self.left.saturating_sub(1), ..self }
    }
}

/// A worker's view of a part at the time when the worker chooses a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) has_entries: bool,
    /// How often workers have passed over the part since a worker last chose it.
    pub(crate) passed_over: u64,
}

/// Chooses one of `parts` parts for a worker that runs on the CPU of the part `own`. `last` is the worker's last
/// stretch. `span` is the number of the worker's items that take 0.1 ms. Returns `None` if no part has entries.
pub(crate) fn choose(
    own: usize,
    last: Stretch,
    span: u32,
    parts: usize,
    see: impl Fn(usize) -> Seen,
) -> Option<usize> {
    let (first, often) =
        if last.is_ended || are_long(span) { (last.part() + 1, 0) } else { (own, 2 * parts as u64) };
    let mut chosen: Option<(usize, u64)> = None;
    for part in (0..parts).map(|next| (first + next) % parts) {
        let Seen { has_entries, passed_over } = see(part);
        let is_better = chosen.is_none_or(|(_, most)| passed_over >= often && passed_over > most);
        if has_entries && is_better {
            chosen = Some((part, passed_over));
        }
    }
    chosen.map(|(part, _)| part)
}

#[cfg(test)]
mod tests;
