//! Runs one row for one slice.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Attrs, Executor, WorkQueue};

use super::block::Digests;
use super::machine::{self, Machine};
use super::placement::{Placed, Pods};
use super::plan::{Role, Row, Scenario};
use super::report::Slice;
use super::window::{Issued, Window};

/// A row that is ready to run.
pub(crate) enum Bed {
    Queue { pods: Arc<Pods>, queue: WorkQueue, _executor: Executor },
    Partition,
}

/// The common data of all rows of a scenario.
pub(crate) struct Workload<'a> {
    scenario: &'a Scenario,
    windows: Vec<Window>,
    digests: Digests,
    length: Duration,
}

impl Bed {
    pub(crate) fn new(row: &Row, machine: &Machine) -> Result<Self, Box<dyn std::error::Error>> {
        if row.role == Role::Limit {
            return Ok(Self::Partition);
        }
        let executor = machine.executor()?;
        let attrs = Attrs::new().scope(row.scope).strict(row.strict);
        let queue = WorkQueue::builder(row.name.as_str()).attrs(attrs).build_on(&executor)?;
        Ok(Self::Queue { pods: Arc::new(Pods::new(machine.pods(row.scope))), queue, _executor: executor })
    }
}

impl<'a> Workload<'a> {
    pub(crate) fn new(scenario: &'a Scenario, length: Duration) -> Self {
        let window = || Window::new(scenario.window, scenario.batch());
        let windows = (0..scenario.issuers).map(|_| window()).collect();
        Self { scenario, windows, digests: Digests::new(), length }
    }

    /// Runs one row for the length of a slice, and then until all blocks in flight are done. `cpus` are all CPUs of the
    /// machine, and the CPUs of the issuers are first.
    pub(crate) fn slice(&mut self, bed: &Bed, cpus: &[usize]) -> Slice {
        let (began, cpu_time) = (Instant::now(), machine::cpu_time());
        let issued = match bed {
            Bed::Queue { pods, queue, .. } => self.queue(pods, queue, cpus),
            Bed::Partition => self.partition(cpus),
        };
        let (outer, cpu_time) = (began.elapsed(), machine::cpu_time() - cpu_time);
        let begin = issued.iter().map(|issued| issued.begin).min().expect("there is an issuer");
        let end = issued.iter().map(|issued| issued.end).max().expect("there is an issuer");
        let mut placed = Placed::default();
        issued.iter().for_each(|issued| placed += issued.placed);
        Slice {
            blocks: issued.iter().map(|issued| issued.blocks).sum(),
            seconds: (end - begin).as_secs_f64(),
            utilisation: cpu_time.as_secs_f64() / (outer.as_secs_f64() * cpus.len() as f64),
            placed,
        }
    }

    fn queue(&mut self, pods: &Arc<Pods>, queue: &WorkQueue, cpus: &[usize]) -> Vec<Issued> {
        let (digests, length) = (&self.digests, self.length);
        let issue = self
            .windows
            .iter_mut()
            .map(|window| move || window.issue(queue, pods, digests, |begin| begin.elapsed() >= length));
        on_cpus(cpus, issue)
    }

    /// Runs the static partition with as many threads as there are blocks, but at most one thread on each CPU.
    fn partition(&self, cpus: &[usize]) -> Vec<Issued> {
        let blocks = self.scenario.issuers * self.scenario.window;
        let (batch, digests, length) = (self.scenario.batch(), &self.digests, self.length);
        let shares = Window::divide(&self.windows, blocks.min(cpus.len()));
        let hash =
            shares.iter().map(|share| move || share.hash(batch, digests, |begin| begin.elapsed() >= length));
        on_cpus(cpus, hash)
    }
}

/// Calls each function on a CPU of its own, all at the same moment. Each function gets a new thread, which is bound
/// only to its CPU.
fn on_cpus<F>(cpus: &[usize], calls: impl ExactSizeIterator<Item = F>) -> Vec<Issued>
where
    F: FnOnce() -> Issued + Send,
{
    let start = &Barrier::new(calls.len());
    thread::scope(|scope| {
        let bound = |(call, cpu): (F, usize)| {
            scope.spawn(move || {
                testkit::pin(cpu).expect("the probe was allowed to bind threads");
                start.wait();
                call()
            })
        };
        let threads: Vec<_> = calls.zip(cpus.iter().copied()).map(bound).collect();
        threads.into_iter().map(|thread| thread.join().expect("blocks return unchanged")).collect()
    })
}
