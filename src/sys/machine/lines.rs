//! The cache lines of a machine: which CPUs have a copy of a line, and what it costs to get a line from another CPU.
//!
//! A CPU that reads a line gets a copy of it, and a CPU that writes a line gets the only copy. While a line is on its
//! way, no other CPU gets it. So a line that all CPUs write serves one CPU after the other. A thread whose CPU lacks
//! the line burns CPU time until the line arrives. It costs nothing to access a line that the CPU already has, or a
//! line that no CPU has accessed before.
//!
//! At the instant at which a line arrives at a CPU, this CPU has the line, even if other CPUs already wait for it. So
//! if a thread's compare-and-exchange fails, the thread repeats it at once, and then succeeds. On a real CPU, too, a
//! failed exchange leaves the line in the CPU's own cache, and the next attempt comes long before the line could reach
//! another CPU. If each attempt had to wait for all other CPUs instead, one of these CPUs would change the value in the
//! meantime. If 80 CPUs repeated a compare-and-exchange and each attempt had to wait in this way, all but one would
//! fail in each round. The line would move 80 times for each change of the value.
//!
//! The model covers the crate's atomics and locks, and the ends of worklists and waiting lists. The model does not
//! cover the memory that the locks protect, the reference counts, or the workers' own lists. Threads that need no CPU
//! have no copies of lines. Only an unpark of a thread counts as a wake-up. It costs nothing to wake a thread that
//! waits for a lock.

#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::policy::time::Time;

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// The costs of communication between CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Costs {
    /// The number of CPUs that share a cache.
    pub(crate) of_cache: usize,
    /// The time that a line takes to come from a CPU of the same cache.
    pub(crate) near: Duration,
    /// The time that a line takes to come from another cache.
    pub(crate) far: Duration,
    /// The CPU time that each wake-up costs the waking thread.
    pub(crate) wake: Duration,
}

/// The numbers of transfers of lines and of wake-ups since the machine was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) near: u64,
    pub(crate) far: u64,
    pub(crate) wakes: u64,
}

impl Moved {
    /// Returns the number of times that a line has moved between CPUs.
    pub(crate) fn lines(self) -> u64 {
        self.near + self.far
    }
}

#[derive(Debug, Default)]
struct Line {
    /// The CPUs that have a copy of the line. Each CPU has one bit.
    copies: u128,
    /// The time at which the last transfer of the line ends.
    free_at: Time,
    /// The transfers that had not ended before the last access, in the order in which they end.
    transfers: VecDeque<Transfer>,
}

#[derive(Debug)]
struct Transfer {
    cpu: usize,
    writes: bool,
    ends: Time,
}

impl Line {
    /// Returns whether the line arrives at this CPU at this instant. A copy that was fetched for a read does not
    /// suffice for a write.
    fn arrives(&mut self, cpu: usize, writes: bool, now: Time) -> bool {
        while self.transfers.front().is_some_and(|first| first.ends < now) {
            self.transfers.pop_front();
        }
        let mut arrive = self.transfers.iter().take_while(|transfer| transfer.ends == now);
        arrive.any(|transfer| transfer.cpu == cpu && (transfer.writes || !writes))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lines {
    costs: Costs,
    lines: HashMap<usize, Line>,
    pub(super) moved: Moved,
}

impl Lines {
    pub(super) fn new(costs: Costs) -> Self {
        assert!((1..128).contains(&costs.of_cache), "a set of CPUs has 128 bits");
        Self { costs, lines: HashMap::new(), moved: Moved::default() }
    }

    /// Notes that a CPU accesses the line of this address. Returns the time until the CPU has the line.
    pub(super) fn access(&mut self, cpu: usize, address: usize, writes: bool, now: Time) -> Duration {
        let line = self.lines.entry(address / LINE).or_default();
        if line.arrives(cpu, writes, now) {
            return Duration::ZERO;
        }
        let own = 1_u128 << cpu;
        let others = line.copies & !own;
        let has = if writes { others == 0 } else { line.copies & own != 0 || others == 0 };
        let cost = if has {
            Duration::ZERO
        } else {
            let cache = ((1_u128 << self.costs.of_cache) - 1) << (cpu - cpu % self.costs.of_cache);
            // A write waits until the farthest copy is gone, and a read takes the nearest copy.
            let is_near = if writes { others & !cache == 0 } else { others & cache != 0 };
            let (count, cost) = match is_near {
                true => (&mut self.moved.near, self.costs.near),
                false => (&mut self.moved.far, self.costs.far),
            };
            *count += 1;
            cost
        };
        line.copies = if writes { own } else { line.copies | own };
        if cost.is_zero() {
            return Duration::ZERO;
        }
        line.free_at = line.free_at.max(now) + cost;
        line.transfers.push_back(Transfer { cpu, writes, ends: line.free_at });
        line.free_at.since(now)
    }

    /// Notes that a thread wakes another thread. Returns the CPU time that the wake-up costs the waking thread.
    pub(super) fn wakes(&mut self) -> Duration {
        self.moved.wakes += 1;
        self.costs.wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::from_nanos(40);
    const FAR: Duration = Duration::from_nanos(100);

    fn lines() -> Lines {
        Lines::new(Costs { of_cache: 2, near: NEAR, far: FAR, wake: Duration::from_micros(2) })
    }

    #[test]
    fn a_line_that_is_only_read_moves_once_to_each_cpu() {
        let mut lines = lines();
        let mut read = |cpu| lines.access(cpu, 64, false, Time::default());
        assert_eq!([read(0), read(0)], [Duration::ZERO; 2]);
        assert_eq!([read(1), read(1), read(0)], [NEAR, Duration::ZERO, Duration::ZERO]);
    }

    #[test]
    fn a_write_takes_all_copies_away() {
        let mut lines = lines();
        let at = |nanos| Time::from_nanos(nanos);
        assert_eq!(lines.access(0, 7, true, at(0)), Duration::ZERO);
        assert_eq!(lines.access(2, 63, false, at(0)), FAR);
        assert_eq!(lines.access(0, 7, true, at(1000)), FAR, "the copy is under another cache");
        assert_eq!(lines.access(1, 7, true, at(2000)), NEAR);
        assert_eq!(lines.access(1, 7, false, at(2000)), Duration::ZERO);
        assert_eq!(lines.moved, Moved { near: 1, far: 2, wakes: 0 });
    }

    #[test]
    fn a_line_serves_one_cpu_after_the_other() {
        let mut lines = lines();
        let mut write = |cpu| lines.access(cpu, 0, true, Time::default());
        assert_eq!(
            [write(0), write(1), write(0), write(2)],
            [Duration::ZERO, NEAR, 2 * NEAR, 2 * NEAR + FAR]
        );
    }

    #[test]
    fn a_cpu_has_a_line_when_it_arrives_although_others_wait_for_it() {
        let mut lines = lines();
        let start = Time::default();
        assert_eq!(lines.access(2, 0, true, start), Duration::ZERO);
        assert_eq!([0, 1].map(|cpu| lines.access(cpu, 0, true, start)), [FAR, FAR + NEAR], "they wait");
        let mut again = |writes, at| lines.access(0, 0, writes, start + at);
        assert_eq!([again(true, FAR), again(false, FAR)], [Duration::ZERO; 2], "it has arrived");
        let moment = Duration::from_nanos(1);
        assert_eq!(again(true, FAR + moment), 2 * NEAR - moment, "it has gone on");
    }

    #[test]
    fn a_copy_that_arrives_does_not_suffice_for_a_write() {
        let mut lines = lines();
        let start = Time::default();
        assert_eq!(lines.access(0, 0, true, start), Duration::ZERO);
        assert_eq!(lines.access(1, 0, false, start), NEAR);
        assert_eq!(lines.access(1, 0, true, start + NEAR), NEAR);
    }
}
