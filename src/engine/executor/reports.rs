//! The reports that hooks receive when an item panics or a pool stalls.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::policy::cpu_set::CpuSet;
use crate::sys::thread_state::State;

/// A panic of an item, as the panic handler sees it.
///
/// See [`ExecutorBuilder::panic_handler`](crate::ExecutorBuilder::panic_handler).
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PanicReport<'a> {
    /// The name of the queue under whose `max_active` the item ran.
    pub queue: &'a str,
    /// The type of the item's closure, as the compiler names it.
    pub item_type: &'static str,
    /// The payload of the panic.
    pub payload: &'a (dyn Any + Send),
}

/// A report on a stalled pool, which has had work for a while but has started none of this work. The report shows what
/// the pool's workers are doing instead.
///
/// The executor passes this report to the [`stall_handler`](crate::ExecutorBuilder::stall_handler) when the pool has
/// stalled for the [`watchdog_threshold`](crate::ExecutorBuilder::watchdog_threshold). The `Display` output is meant
/// for people.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let (tell, told) = mpsc::channel();
/// let executor = cmwq::Executor::builder()
///     .watchdog_threshold(Duration::from_millis(20))
///     .stall_handler(move |report| drop(tell.send((report.pending, report.workers.len()))))
///     .build()?;
/// # drop((executor, told));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallReport<'a> {
    /// The pool's name, which is part of its workers' thread names: `0`, `0H`, `bh0`, `u4`.
    pub pool: &'a str,
    /// The CPUs that the pool serves.
    pub cpus: &'a CpuSet,
    /// The number of entries that wait in the pool, including cancelled entries.
    pub pending: usize,
    /// A lower bound on the time for which the pool has started no work.
    pub stalled_for: Duration,
    /// Whether the pool waits for a new worker that is still being made or cannot be made.
    pub creating: bool,
    /// Whether the executor has as many threads as [`max_threads`](crate::ExecutorBuilder::max_threads) permits.
    pub at_thread_limit: bool,
    /// The workers that have an item.
    pub workers: Vec<StalledWorker>,
}

/// A report on what one worker of a stalled pool is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StalledWorker {
    /// The name of the worker's thread.
    pub thread: String,
    /// The type of the closure that the worker executes, as the compiler names it.
    pub item_type: &'static str,
    /// The name of the queue under whose `max_active` the item runs. `None` if the item has ended meanwhile.
    pub queue: Option<String>,
    /// The description that the item has set with [`set_description`](crate::set_description).
    pub description: Option<String>,
    /// A lower bound on the time for which the worker has been executing this item.
    pub busy_for: Duration,
    /// Whether the worker is inside a [guard](crate#guards). This field is always false in the pools of ordered queues,
    /// bh queues and plain unbound queues, where guards change nothing.
    pub in_guard: bool,
    /// The state of the worker's thread, as the letter that Linux shows: `R` if the thread runs or is ready to run, `S`
    /// if it sleeps, `D` if it waits for a device. `None` if the state cannot be read.
    pub state: Option<char>,
    /// The kernel function in which the worker's thread waits. `None` if the function cannot be read.
    #[doc(alias = "wchan")]
    pub wait_channel: Option<String>,
}

impl fmt::Debug for PanicReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicReport")
            .field("queue", &self.queue)
            .field("item_type", &self.item_type)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for StallReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pool[{}] cpus={} has pending={} and has started nothing for {:.1?}",
            self.pool, self.cpus, self.pending, self.stalled_for
        )?;
        for worker in &self.workers {
            write!(f, "\n    {worker}")?;
        }
        if self.workers.is_empty() {
            write!(f, "\n    no worker has an item")?;
        }
        if self.creating {
            write!(f, "\n    it waits for a worker that is not there yet")?;
        }
        if self.at_thread_limit {
            write!(f, "\n    there are as many threads as `max_threads` permits")?;
        }
        Ok(())
    }
}

impl fmt::Display for StalledWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in {}", self.thread, self.item_type)?;
        if let Some(queue) = &self.queue {
            write!(f, " of queue {queue:?}")?;
        }
        if let Some(description) = &self.description {
            write!(f, " ({description})")?;
        }
        write!(f, " for {:.1?} or more", self.busy_for)?;
        if self.in_guard {
            write!(f, ", inside a guard")?;
        }
        if let Some(state) = self.state {
            write!(f, ", {} ({state})", State::of_letter(state).words())?;
        }
        match &self.wait_channel {
            Some(channel) => write!(f, " in {channel}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: S4.1 (the text of a stall report names the pool, and says what the pool's worker is doing)
    #[test]
    fn a_report_shows_the_pool_and_its_workers() {
        let cpus = CpuSet::single(3);
        let worker = StalledWorker {
            thread: "cmwq/3:1".into(),
            item_type: "app::resize",
            queue: Some("thumbnails".into()),
            description: Some("cat.jpg".into()),
            busy_for: Duration::from_millis(31_250),
            in_guard: false,
            state: Some('S'),
            wait_channel: Some("futex_wait".into()),
        };
        let report = StallReport {
            pool: "3",
            cpus: &cpus,
            pending: 7,
            stalled_for: Duration::from_secs(30),
            creating: true,
            at_thread_limit: true,
            workers: vec![worker],
        };
        assert_eq!(
            report.to_string(),
            "pool[3] cpus=3 has pending=7 and has started nothing for 30.0s\n    \
             cmwq/3:1 is in app::resize of queue \"thumbnails\" (cat.jpg) for 31.2s or more, sleeping (S) in futex_wait\n    \
             it waits for a worker that is not there yet\n    \
             there are as many threads as `max_threads` permits"
        );
    }
}
