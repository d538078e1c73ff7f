//! The setting in which operations are counted: queues on two CPUs, and items that hold their workers.
//!
//! While the issuer is counted, each worker that could serve the queue is held by an item. While a worker is counted,
//! no thread issues items. So no count includes wake-ups or contended locks, and none depends on the relative speed of
//! threads.

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};

use cmwq::{AffinityScope, Detection, Executor, JoinHandle, WorkQueue};

use crate::{affinity, request};

pub(crate) const UNLIMITED: &str = "the queue has no limit";
pub(crate) const NO_PANIC: &str = "the item does not panic";

/// The most items that a queue admits at the same time. The number of counted items is below it.
pub(crate) const MAX_ACTIVE: usize = 512;

/// The kind of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PerCpu,
    Default,
    /// The queue runs one item at a time, and the other items wait in its list for a slot.
    Ordered,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PerCpu => "per-CPU",
            Self::Default => "default",
            Self::Ordered => "ordered",
        }
    }

    /// Returns how many items have to hold workers until the queue's pool starts no further item.
    fn holders(self) -> usize {
        match self {
            Self::PerCpu | Self::Ordered => 1,
            Self::Default => 2,
        }
    }
}

pub(crate) struct Bed {
    pub(crate) queue: WorkQueue,
    /// The queue of the holding items: another queue of the same pools. For an ordered queue it is that queue itself,
    /// because its items take turns.
    gate: WorkQueue,
    holders: usize,
}

/// An item that holds a worker.
struct Gate {
    release: Sender<()>,
    item: JoinHandle<()>,
}

impl Bed {
    /// Makes an executor on the first two CPUs, in one pod (a group of CPUs that share a worker pool). Detection is
    /// off, because the holding items block and run for long. If `counts_workers` is set, all instructions of the
    /// workers are counted.
    pub(crate) fn new(kind: Kind, counts_workers: bool) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let cpus = affinity::first_two()?;
        let mut executor = Executor::builder();
        if counts_workers {
            executor = executor.on_thread_start(request::toggle);
        }
        let executor = executor
            .cpus(cpus.clone())
            .default_scope(AffinityScope::System)
            .detection(Detection::Off)
            .watchdog_threshold(None)
            .build()?;
        let build = |name| match kind {
            Kind::PerCpu => WorkQueue::per_cpu(name).max_active(MAX_ACTIVE).build_on(&executor),
            Kind::Default => WorkQueue::builder(name).max_active(MAX_ACTIVE).build_on(&executor),
            Kind::Ordered => WorkQueue::ordered(name).build_on(&executor),
        };
        let queue = build("counted")?;
        let gate = if kind == Kind::Ordered { queue.clone() } else { build("gate")? };
        // The calling thread is not the main thread. All workers get the CPUs of the main thread.
        affinity::stay_on(cpus.first().unwrap_or(0))?;
        Ok(Self { queue, gate, holders: kind.holders() })
    }

    /// Calls `prepare`, and then counts the instructions of the calling thread in `issue`.
    pub(crate) fn issue(&self, prepare: impl FnOnce(), issue: impl FnOnce()) {
        let gates = self.hold();
        prepare();
        request::toggle();
        issue();
        request::toggle();
        gates.into_iter().for_each(Gate::open);
        self.settle();
    }

    /// Counts the worker that runs the items of `issue`. The first and the last of these items have to call
    /// [`request::toggle`].
    pub(crate) fn run(&self, issue: impl FnOnce()) {
        let mut gates = self.hold();
        issue();
        // One worker serves the queue, and items still hold the other workers.
        gates.remove(0).open();
        self.settle();
        gates.into_iter().for_each(Gate::open);
        self.settle();
    }

    pub(crate) fn settle(&self) {
        self.queue.flush().expect("the caller is no item");
    }

    /// Submits the holding items, and returns when they hold all workers.
    fn hold(&self) -> Vec<Gate> {
        let gates: Vec<(Gate, Receiver<()>)> = (0..self.holders).map(|_| Gate::close(&self.gate)).collect();
        let begun = |(gate, begun): (Gate, Receiver<()>)| {
            wait_for(&begun);
            gate
        };
        gates.into_iter().map(begun).collect()
    }
}

impl Gate {
    fn close(queue: &WorkQueue) -> (Self, Receiver<()>) {
        let (release, released) = channel();
        let (begin, begun) = channel();
        let item = queue.spawn(move || {
            begin.send(()).expect("the bed waits for it");
            // The item blocks without a guard, so the pool counts it as running.
            wait_for(&released);
        });
        (Self { release, item: item.expect(UNLIMITED) }, begun)
    }

    fn open(self) {
        self.release.send(()).expect("the gate waits for it");
        self.item.join().expect(NO_PANIC);
    }
}

fn wait_for(signal: &Receiver<()>) {
    signal.recv().expect("the other side sends before it ends");
}
