//! The counted operations.
//!
//! The few instructions of loops and checks around an operation are included.

use std::error::Error;
use std::hint::black_box;

use cmwq::{BlockingGuard, Work};

use crate::bed::{Bed, Kind, MAX_ACTIVE, NO_PANIC, UNLIMITED};
use crate::request;

/// The operations of a round. A queue admits all of them at the same time, and also the two items that begin and end
/// the count.
const TIMES: usize = 500;
/// The operations in a round of the `run` cases. The count begins within the first item of the round and ends within
/// the last one.
const BETWEEN: usize = TIMES + 1;
/// The round trips of a round. Each round trip waits several times until the system runs another thread, and such a
/// wait is long on a busy machine.
const TRIPS: usize = 100;

/// The largest bound among the operations that a single thread carries out.
const ONE_THREAD: f64 = 5.0;

const _: () = assert!(BETWEEN < MAX_ACTIVE);

/// An operation on a kind of queue.
pub(crate) struct Case {
    pub(crate) operation: &'static str,
    kind: Kind,
    pub(crate) definition: &'static str,
    /// The number of operations in a round.
    pub(crate) times: usize,
    /// How far a count may be above its record, in per cent.
    pub(crate) bound: f64,
    round: fn(&Bed, &[Work]),
}

macro_rules! cases {
    ($($operation:literal, [$($kind:ident),*], $times:ident, $bound:literal, $round:ident, $definition:literal;)*) => {
        pub(crate) const CASES: &[Case] = &[$($(Case {
            operation: $operation,
            kind: Kind::$kind,
            definition: $definition,
            times: $times,
            bound: $bound,
            round: $round,
        },)*)*];
    };
}

cases! {
    "queue", [PerCpu, Default, Ordered], TIMES, 5.0, queue, "issuer: queue a reusable item";
    "queue-pending", [PerCpu, Default], TIMES, 5.0, queue_pending, "issuer: queue a pending item";
    "queue-batch", [PerCpu, Default], TIMES, 5.0, queue_batch, "issuer: each item of a batch of 500";
    "spawn", [PerCpu, Default, Ordered], TIMES, 5.0, spawn, "issuer: spawn 32 bytes, drop the handle";
    "spawn-detached", [PerCpu, Default], TIMES, 5.0, spawn_detached, "issuer: the same, without a handle";
    "spawn-batch", [PerCpu, Default], TIMES, 5.0, spawn_batch, "issuer: each closure of a batch of 500";
    "spawn-batch-detached", [PerCpu, Default], TIMES, 5.0, spawn_batch_detached, "issuer: the same, without handles";
    "run", [PerCpu, Default, Ordered], BETWEEN, 5.0, run, "worker: take, call and complete a reusable item";
    "run-spawned", [PerCpu, Default, Ordered], BETWEEN, 5.0, run_spawned, "worker: the same for a closure, and free it";
    "run-detached", [PerCpu, Default], BETWEEN, 5.0, run_detached, "worker: the same for a closure without a handle";
    "guard", [PerCpu, Default], TIMES, 5.0, guard, "item: enter and leave a guard, nothing pending";
    "round-trip", [PerCpu, Default], TRIPS, 25.0, round_trip, "both: spawn and join, idle pool";
}

impl Case {
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.operation, self.kind.name())
    }

    /// Returns how far a count may be above its record, in per cent. `of_one_thread` replaces the bound of an operation
    /// that a single thread carries out.
    pub(crate) fn bound(&self, of_one_thread: Option<f64>) -> f64 {
        of_one_thread.filter(|_| self.bound <= ONE_THREAD).unwrap_or(self.bound)
    }

    /// Returns in how many processes the operation is counted, one after the other. The least count is the result. The
    /// system's decisions are part of the count of an operation of several threads, and differ between processes.
    pub(crate) fn processes(&self) -> usize {
        if self.bound <= ONE_THREAD { 1 } else { 3 }
    }

    /// Returns whether the name is that of this case or of its operation.
    pub(crate) fn is_meant_by(&self, name: &str) -> bool {
        name == self.operation || name == self.name()
    }

    /// Runs `idle` rounds, which are not counted, and then the counted rounds. All one-time allocations and
    /// measurements happen in the idle rounds.
    pub(crate) fn count(&self, idle: usize, rounds: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        let bed = Bed::new(self.kind, self.operation == "round-trip")?;
        let works: Vec<Work> = (0..TIMES).map(|_| Work::new(|| ())).collect();
        (0..idle).for_each(|_| (self.round)(&bed, &works));
        request::forget();
        for _ in 0..rounds {
            (self.round)(&bed, &works);
            request::write_down();
        }
        Ok(())
    }
}

fn queue(bed: &Bed, works: &[Work]) {
    let issue = || {
        for work in works {
            assert!(bed.queue.enqueue(work).expect(UNLIMITED));
        }
    };
    bed.issue(|| (), issue);
}

fn queue_pending(bed: &Bed, works: &[Work]) {
    let work = &works[0];
    let prepare = || assert!(bed.queue.enqueue(work).expect(UNLIMITED));
    let issue = || {
        for _ in 0..TIMES {
            assert!(!bed.queue.enqueue(work).expect(UNLIMITED));
        }
    };
    bed.issue(prepare, issue);
}

fn queue_batch(bed: &Bed, works: &[Work]) {
    bed.issue(|| (), || assert_eq!(bed.queue.items(works).enqueue().expect(UNLIMITED), works.len()));
}

fn spawn(bed: &Bed, _: &[Work]) {
    let issue = || {
        for item in 0..TIMES {
            drop(bed.queue.spawn(no_op(item)).expect(UNLIMITED));
        }
    };
    bed.issue(|| (), issue);
}

fn spawn_detached(bed: &Bed, _: &[Work]) {
    let issue = || {
        for item in 0..TIMES {
            bed.queue.spawn_detached(no_op(item)).expect(UNLIMITED);
        }
    };
    bed.issue(|| (), issue);
}

fn spawn_batch(bed: &Bed, _: &[Work]) {
    bed.issue(|| (), || drop(bed.queue.items((0..TIMES).map(no_op)).spawn().expect(UNLIMITED)));
}

fn spawn_batch_detached(bed: &Bed, _: &[Work]) {
    bed.issue(|| (), || bed.queue.items((0..TIMES).map(no_op)).spawn_detached().expect(UNLIMITED));
}

fn run(bed: &Bed, works: &[Work]) {
    let (begin, end) = (Work::new(request::toggle), Work::new(request::toggle));
    bed.run(|| {
        for work in [&begin].into_iter().chain(works).chain([&end]) {
            assert!(bed.queue.enqueue(work).expect(UNLIMITED));
        }
    });
}

fn run_spawned(bed: &Bed, _: &[Work]) {
    bed.run(|| {
        drop(bed.queue.spawn(request::toggle).expect(UNLIMITED));
        for item in 0..TIMES {
            drop(bed.queue.spawn(no_op(item)).expect(UNLIMITED));
        }
        drop(bed.queue.spawn(request::toggle).expect(UNLIMITED));
    });
}

fn run_detached(bed: &Bed, _: &[Work]) {
    bed.run(|| {
        bed.queue.spawn_detached(request::toggle).expect(UNLIMITED);
        for item in 0..TIMES {
            bed.queue.spawn_detached(no_op(item)).expect(UNLIMITED);
        }
        bed.queue.spawn_detached(request::toggle).expect(UNLIMITED);
    });
}

fn guard(bed: &Bed, _: &[Work]) {
    let item = bed.queue.spawn(|| {
        request::toggle();
        for _ in 0..TIMES {
            drop(black_box(BlockingGuard::enter()));
        }
        request::toggle();
    });
    item.expect(UNLIMITED).join().expect(NO_PANIC);
    bed.settle();
}

fn round_trip(bed: &Bed, _: &[Work]) {
    request::toggle();
    for _ in 0..TRIPS {
        bed.queue.spawn(|| ()).expect(UNLIMITED).join().expect(NO_PANIC);
    }
    request::toggle();
}

/// An item that captures 32 bytes and does nothing.
fn no_op(seed: usize) -> impl FnOnce() + Send + 'static {
    let captured = [seed, seed + 1, seed + 2, seed + 3];
    move || {
        black_box(captured);
    }
}
