//! Counts the types of items that keep a CPU busy for too long, or block without a guard.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use crate::policy::blocking_detector::Found;
use crate::policy::offenders::is_told;
use crate::policy::worker::Finding;
use crate::sys::sync::Mutex;

use crate::engine::user_code::report;
use crate::engine::worker::shared::Worker;

/// A type of item that has kept other items waiting, and the number of times that it has done so.
///
/// See [`Executor::hogs`](crate::Executor::hogs) and
/// [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = cmwq::Executor::builder().build()?;
/// for offender in executor.undeclared_blockers() {
///     println!("{} has blocked without a guard {} times", offender.item_type, offender.count);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Offender {
    /// The type of the item's closure, as the compiler names it.
    pub item_type: Cow<'static, str>,
    /// The number of times that the executor noticed that an item of this type kept others waiting.
    pub count: u64,
}

/// The list of offenders of one executor.
#[derive(Debug)]
pub(crate) struct Offenders {
    hog_threshold: Duration,
    hogs: Table,
    blockers: Table,
}

/// The number of offences of each item type. A program queues a limited number of closure types, so the table needs no
/// bound of its own.
#[derive(Debug, Default)]
struct Table(Mutex<HashMap<&'static str, u64>>);

impl Offenders {
    pub(crate) fn new(hog_threshold: Duration) -> Self {
        Self { hog_threshold, hogs: Table::default(), blockers: Table::default() }
    }

    /// Counts a finding about a worker, after the manager has acted on the finding. `item_type` is the type of the
    /// worker's item.
    pub(crate) fn note(&self, worker: &Worker, item_type: &'static str, found: Found) {
        let queue = || worker.queue_name(found.seen);
        match found.finding {
            Finding::Asleep => self.blocker(item_type, queue),
            Finding::Hog => self.hog(item_type, queue),
            // The item has declared that it may block, or it runs again after a sleep that was counted before.
            Finding::Blocks | Finding::Runs => {}
        }
    }

    /// Counts an item that has used the CPU for too long without blocking. Reports the items of a type ever more rarely
    /// as their number grows. `queue` returns the name of the item's queue if the queue still exists, and is called
    /// only for a report. The caller holds no lock, because a logger is user code.
    fn hog(&self, item_type: &'static str, queue: impl FnOnce() -> Option<String>) {
        if let Some(count) = self.hogs.count(item_type) {
            let queue = named(queue());
            let threshold = self.hog_threshold;
            report!(
                warn,
                "{item_type}{queue} used the CPU for more than {threshold:?} without \
                blocking, {count} times. Such an item no longer counts as running, and other items of its pool start \
                beside it. Make its queue `cpu_intensive`, use an unbound queue, or divide the item into several"
            );
        }
    }

    /// Counts an item that has blocked outside of any guard. Reports items of one type, and calls `queue`, as
    /// [`hog`](Self::hog) does.
    fn blocker(&self, item_type: &'static str, queue: impl FnOnce() -> Option<String>) {
        if let Some(count) = self.blockers.count(item_type) {
            let queue = named(queue());
            report!(
                debug,
                "{item_type}{queue} blocked without a guard, {count} times. Put \
                `cmwq::blocking` around the call, or use one of the wrappers in `cmwq::blocking`. Then other items \
                need not wait until the block is noticed"
            );
        }
    }

    pub(crate) fn hogs(&self) -> Vec<Offender> {
        self.hogs.sorted()
    }

    pub(crate) fn blockers(&self) -> Vec<Offender> {
        self.blockers.sorted()
    }
}

/// Returns the words with which a report names the queue. Returns an empty string if the queue no longer exists.
fn named(queue: Option<String>) -> String {
    queue.map(|name| format!(" of queue {name:?}")).unwrap_or_default()
}

impl Table {
    /// Raises the count of this type by one. Returns the new count if this occurrence is to be reported.
    fn count(&self, item_type: &'static str) -> Option<u64> {
        let mut counts = self.0.lock();
        let count = counts.entry(item_type).or_default();
        *count = count.saturating_add(1);
        Some(*count).filter(|count| is_told(*count))
    }

    /// Returns the offenders, the most frequent first. Offenders with equal counts are sorted by name.
    fn sorted(&self) -> Vec<Offender> {
        let counts = self.0.lock();
        let mut found: Vec<(&'static str, u64)> = counts.iter().map(|(of, count)| (*of, *count)).collect();
        drop(counts);
        found.sort_unstable_by_key(|(of, count)| (Reverse(*count), *of));
        found.into_iter().map(|(of, count)| Offender { item_type: Cow::Borrowed(of), count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: S2.2, S3: offenders are counted by item type, and reported ever more rarely.
    #[test]
    fn offenders_are_counted_by_type_and_the_most_frequent_comes_first() {
        let offenders = Offenders::new(Duration::from_millis(10));
        let mut asked = Vec::new();
        for n in 1..=12 {
            offenders.hog("busy", || {
                asked.push(n);
                Some("q".to_owned())
            });
        }
        assert_eq!(asked, [4, 5, 7, 11], "a name is looked up only for a report");
        offenders.hog("also", || unreachable!());
        offenders.hog("another", || unreachable!());
        offenders.blocker("asleep", || unreachable!());
        let listed = |offenders: Vec<Offender>| -> Vec<_> {
            offenders.into_iter().map(|offender| (offender.item_type, offender.count)).collect()
        };
        let expected = [("busy", 12), ("also", 1), ("another", 1)];
        assert_eq!(listed(offenders.hogs()), expected.map(|(of, count)| (Cow::Borrowed(of), count)));
        assert_eq!(listed(offenders.blockers()), [("asleep".into(), 1)]);
    }

    /// The logger may ask for the list of offenders, and so may the code that finds the queue's name.
    #[test]
    fn no_lock_is_held_while_an_offender_is_reported() {
        let offenders = Offenders::new(Duration::from_millis(10));
        for _ in 0..4 {
            offenders.blocker("asleep", || Some(format!("{:?}", offenders.blockers())));
        }
        assert_eq!(offenders.blockers()[0].count, 4);
    }
}
