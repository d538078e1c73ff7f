//! The execution of a program, and the accounts of its items.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::checks::runs_alone;
use super::{Counts, ISSUERS, Kind, Operation, Program, Step, WORKS, Which};
use crate::kernel::ExecutorExt;
use crate::observe::Counters;
use crate::sys::machine::Mutex;
use crate::sys::machine::{burn, pause};
use crate::{
    AffinityScope, Attrs, CancelToken, EnableError, Executor, JoinError, QueueError, Work, WorkQueue,
    blocking, may_block,
};

/// The data that the threads of a program share.
///
/// Each item runs once, or it does not run and its owner is told. A flush returns only after the items that its caller
/// queued before the flush have ended. Items of an ordered queue run one at a time, and the items of each issuer run in
/// the order in which they were queued.
pub(super) struct World {
    program: Arc<Program>,
    executor: Executor,
    queues: Vec<WorkQueue>,
    /// For each queue, its accounts if the queue is ordered.
    ordered: Vec<Option<Ordered>>,
    works: Vec<Work>,
    /// For each queue, the number of items of type [`Item`] that are running.
    active: Vec<AtomicU64>,
    made: AtomicU64,
    ran: AtomicU64,
    /// The number of items that were dropped without a run.
    dropped: AtomicU64,
    /// The number of items that did not run, and whose owner was told so.
    told: AtomicU64,
    /// Handles of items that a shutdown may give up.
    handles: Mutex<Vec<crate::JoinHandle<()>>>,
    /// The first error that was found.
    wrong: Mutex<Option<String>>,
}

/// The accounts of an ordered queue.
#[derive(Default)]
struct Ordered {
    active: AtomicU64,
    /// For each issuer, the number of its last item that has begun.
    last: [AtomicU64; ISSUERS],
}

/// An issuer, and the facts that it knows about its items.
pub(super) struct Issuer {
    number: usize,
    world: Arc<World>,
    /// For each queue and each of the issuer's items on it, whether the item has run or was given up.
    queued: Vec<Vec<Arc<AtomicBool>>>,
}

/// An item.
struct Item {
    world: Arc<World>,
    queue: usize,
    number: usize,
    origin: Option<Origin>,
    ran: bool,
}

/// The origin of an item that an issuer makes. An item that another item makes has no origin.
struct Origin {
    queue: usize,
    issuer: usize,
    number: u64,
    done: Arc<AtomicBool>,
}

impl Drop for Item {
    fn drop(&mut self) {
        if !self.ran {
            self.world.dropped.fetch_add(1, Relaxed);
        }
        if let Some(origin) = &self.origin {
            origin.done.store(true, Relaxed);
        }
    }
}

impl World {
    pub(super) fn new(program: &Arc<Program>, executor: &Executor) -> Self {
        let work = |_| Work::new(|| burn(Duration::from_micros(200)));
        let ordered = |kind: &Kind| (kind.which == Which::Ordered).then(Ordered::default);
        let queue = |kind: &Kind| kind.builder().build_on(executor).unwrap();
        Self {
            program: Arc::clone(program),
            executor: executor.clone(),
            queues: program.queues.iter().map(queue).collect(),
            ordered: program.queues.iter().map(ordered).collect(),
            works: (0..WORKS).map(work).collect(),
            active: program.queues.iter().map(|_| AtomicU64::new(0)).collect(),
            made: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            told: AtomicU64::new(0),
            handles: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    fn item(
        self: &Arc<Self>,
        queue: usize,
        number: usize,
        origin: Option<Origin>,
    ) -> impl FnOnce() + Send + 'static + use<> {
        self.made.fetch_add(1, Relaxed);
        let item = Item { world: Arc::clone(self), queue, number, origin, ran: false };
        move || item.run()
    }

    /// If `holds` is false, keeps the error for `settle`, unless an earlier error is kept. Does not panic, because a
    /// panic in an item would not end the program.
    fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.lock().get_or_insert_with(what);
        }
    }

    fn told(&self, items: usize) {
        self.told.fetch_add(items as u64, Relaxed);
    }

    /// Keeps the handle until the end of the program. If the item was refused, counts the item as one whose owner was
    /// told.
    fn keep<F>(&self, answer: Result<crate::JoinHandle<()>, crate::Refused<F>>) {
        match answer {
            Ok(handle) => self.handles.lock().push(handle),
            Err(_) => self.told(1),
        }
    }

    /// Returns whether each item has begun or was dropped.
    pub(super) fn is_even(&self) -> bool {
        self.made.load(Relaxed) == self.ran.load(Relaxed) + self.dropped.load(Relaxed)
    }

    /// Destroys the first queue without running its items.
    pub(super) fn destroy_now(&self) {
        self.queues[0].destroy_now().unwrap();
        assert_eq!(self.queues[0].len(), 0, "a queue that was destroyed has items");
    }

    /// Checks, after the executor was shut down, that each item has run or was dropped, and that the owners of all
    /// dropped items were told.
    pub(super) fn settle(&self) -> Counts {
        let handles = std::mem::take(&mut *self.handles.lock());
        let cancelled = |handle: crate::JoinHandle<()>| {
            matches!(handle.join(), Err(JoinError::Cancelled | JoinError::DeadlinePassed))
        };
        self.told(handles.into_iter().map(cancelled).filter(|cancelled| *cancelled).count());
        let wrong = self.wrong.lock().take();
        assert_eq!(wrong, None);
        let [made, ran, dropped, told] =
            [&self.made, &self.ran, &self.dropped, &self.told].map(|count| count.load(Relaxed));
        assert_eq!(made, ran + dropped, "items are lost: {ran} ran, {dropped} were dropped");
        assert_eq!(dropped, told, "items were dropped, and their owners not told");
        assert!(self.works.iter().all(|work| !work.is_pending() && !work.is_running()));
        self.queues.iter().for_each(|queue| assert_eq!(queue.len(), 0, "of {}", queue.name()));
        self.counts()
    }

    fn counts(&self) -> Counts {
        let counters: Vec<_> = self.queues.iter().map(WorkQueue::counters).collect();
        let sum = |name, count: fn(&Counters) -> u64| (name, counters.iter().map(count).sum());
        [
            sum("started", |all| all.started),
            sum("hogs", |all| all.cpu_hogs),
            sum("wake-ups for a block", |all| all.concurrency_wakeups),
            sum("stolen", |all| all.stolen),
            sum("rescuer_calls", |all| all.rescuer_calls),
            sum("rescued", |all| all.rescued),
            sum("panicked", |all| all.panicked),
            sum("cancelled", |all| all.cancelled),
            sum("expired", |all| all.expired),
            sum("refused", |all| all.refused),
            sum("undeclared blocks", |all| all.undeclared_blocks),
        ]
    }
}

impl Item {
    fn run(mut self) {
        self.ran = true;
        let world = Arc::clone(&self.world);
        world.ran.fetch_add(1, Relaxed);
        let active = &world.active[self.queue];
        let others = active.fetch_add(1, Relaxed);
        let _active = Active(active);
        let ceiling = world.program.ceiling(self.queue);
        world.check(others < ceiling, || format!("{others} other items are active, at most {ceiling}"));
        world.check(runs_alone(world.program.detection), || "two items run on one CPU".to_owned());
        let ordered =
            self.origin.as_ref().and_then(|own| world.ordered[own.queue].as_ref().map(|all| (own, all)));
        if let Some((own, all)) = ordered {
            let others = all.active.fetch_add(1, Relaxed);
            world.check(others == 0, || "two items of an ordered queue run at once".to_owned());
            let last = all.last[own.issuer].swap(own.number, Relaxed);
            world.check(last < own.number, || {
                format!("item {} of issuer {} after {last}", own.number, own.issuer)
            });
        }
        let _ordered = ordered.map(|(_, all)| Active(&all.active));
        for step in &world.program.items[self.number] {
            match *step {
                Step::Burn(time) => burn(time),
                Step::Block(time) => blocking(|| pause(time)),
                Step::MayBlock(time) => may_block(|| pause(time)),
                Step::Ask(time) => {
                    let asked = crate::cancel_token().wait_timeout(time);
                    world.check(crate::is_cancelled() == asked.is_ok() || asked.is_err(), || {
                        "a token tells something else than its item".to_owned()
                    });
                }
                Step::Nap(time) => pause(time),
                Step::Spawn(queue, number) => {
                    world.keep(world.queues[queue].spawn(world.item(queue, number, None)));
                }
                Step::Panic => std::panic::resume_unwind(Box::new("as the program says")),
            }
        }
    }
}

/// Counts an item as running while this value exists.
struct Active<'a>(&'a AtomicU64);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Issuer {
    pub(super) fn new(number: usize, world: &Arc<World>) -> Self {
        let queued = world.queues.iter().map(|_| Vec::new()).collect();
        Self { number, world: Arc::clone(world), queued }
    }

    /// Makes the issuer's next item for this queue.
    fn item(&mut self, queue: usize, number: usize) -> impl FnOnce() + Send + 'static + use<> {
        let done = Arc::new(AtomicBool::new(false));
        self.queued[queue].push(Arc::clone(&done));
        let own = self.queued[queue].len() as u64;
        self.world.item(queue, number, Some(Origin { queue, issuer: self.number, number: own, done }))
    }

    pub(super) fn perform(&mut self, operation: Operation) {
        match operation {
            Operation::Pause(time) => pause(time),
            Operation::Freeze(time) => {
                self.world.executor.freeze_begin();
                pause(time);
                self.world.executor.thaw();
            }
            Operation::Flush(_) | Operation::FlushTimeout(..) | Operation::Drain(_) => self.wait(operation),
            Operation::SetMaxActive(queue, items) => {
                // Ordered queues and bh queues have no limit that can be set.
                _ = self.world.queues[queue].set_max_active(items);
            }
            Operation::ApplyAttrs(queue, number) => self.apply_attrs(queue, number),
            other => self.submit(other),
        }
    }

    fn wait(&self, operation: Operation) {
        let queue = match operation {
            Operation::Flush(queue) => {
                self.world.queues[queue].flush().unwrap();
                queue
            }
            Operation::FlushTimeout(queue, time) => match self.world.queues[queue].flush_timeout(time) {
                Ok(()) => queue,
                Err(_) => return,
            },
            Operation::Drain(queue) => {
                self.world.queues[queue].drain().unwrap();
                queue
            }
            _ => unreachable!("it is no wait"),
        };
        let done = self.queued[queue].iter().all(|done| done.load(Relaxed));
        self.world.check(done, || format!("{operation:?} has returned early"));
    }

    fn apply_attrs(&self, queue: usize, number: usize) {
        use AffinityScope::{Cache, Cpu, System};
        let attrs = match number {
            0 => Attrs::new().scope(Cpu),
            1 => Attrs::new().scope(Cache),
            2 => Attrs::new().scope(System),
            _ => Attrs::new().scope(Cpu).strict(true),
        };
        // Per-CPU queues refuse the attributes, because such a queue has no attributes.
        _ = self.world.queues[queue].apply_attrs(attrs);
    }

    fn submit(&mut self, operation: Operation) {
        let world = Arc::clone(&self.world);
        match operation {
            Operation::Spawn(queue, item) => world.keep(world.queues[queue].spawn(self.item(queue, item))),
            Operation::SpawnOn(queue, item, cpu) => {
                world.keep(world.queues[queue].item(self.item(queue, item)).on_cpu(cpu).spawn());
            }
            Operation::SpawnBatch(queue, item, count) => {
                let items: Vec<_> = (0..count).map(|_| self.item(queue, item)).collect();
                let handles = match world.queues[queue].items(items).spawn() {
                    Ok(handles) => handles,
                    Err(refused) => {
                        let (accepted, closures) = refused.into_parts();
                        world.told(closures.len());
                        accepted
                    }
                };
                world.handles.lock().extend(handles);
            }
            Operation::SpawnAfter(queue, item, delay) => {
                world.keep(world.queues[queue].item(world.item(queue, item, None)).after(delay).spawn());
            }
            Operation::SpawnAndCancel(queue, item, after) => {
                match world.queues[queue].spawn(self.item(queue, item)) {
                    Ok(handle) => {
                        pause(after);
                        if handle.cancel() {
                            world.told(1);
                        } else {
                            world.handles.lock().push(handle);
                        }
                    }
                    Err(_) => world.told(1),
                }
            }
            Operation::SpawnAndStop(queue, item, after) => {
                match world.queues[queue].spawn(self.item(queue, item)) {
                    Ok(handle) => {
                        pause(after);
                        if handle.stop() {
                            world.told(1);
                        } else {
                            world.handles.lock().push(handle);
                        }
                    }
                    Err(_) => world.told(1),
                }
            }
            Operation::SpawnWithToken(queue, item, after) => {
                let token = CancelToken::new();
                if after.as_micros() % 500 == 0 {
                    let item = world.item(queue, item, None);
                    world.keep(world.queues[queue].item(item).token(&token).after(2 * after).spawn());
                } else {
                    world.keep(world.queues[queue].item(self.item(queue, item)).token(&token).spawn());
                }
                pause(after);
                token.cancel();
            }
            Operation::SpawnWithin(queue, item, time) => {
                world.keep(world.queues[queue].item(self.item(queue, item)).within(time).spawn());
            }
            Operation::SpawnAndJoin(queue, item) => match world.queues[queue].spawn(self.item(queue, item)) {
                Ok(handle) => {
                    let result = handle.join();
                    world.check(!matches!(result, Err(JoinError::Cancelled)), || {
                        "a joined item was lost".to_owned()
                    });
                }
                Err(_) => world.told(1),
            },
            Operation::Scope(queue, items) => Self::scope(&world.queues[queue], items),
            Operation::Every(queue, period, time) => {
                if let Ok(periodic) =
                    world.queues[queue].item(|| burn(Duration::from_micros(20))).spawn_every(period)
                {
                    pause(time);
                    periodic.cancel_and_wait().unwrap();
                }
            }
            other => Self::use_work(&world, other),
        }
    }

    fn scope(queue: &WorkQueue, items: usize) {
        let sum = AtomicU64::new(0);
        let mut accepted = 0;
        let result = queue.try_scope(|scope| {
            for _ in 0..items {
                accepted += u64::from(scope.spawn(|| sum.fetch_add(1, Relaxed)).is_ok());
            }
        });
        assert!(result.is_ok());
        assert_eq!(sum.load(Relaxed), accepted, "a scope ended before its items");
    }

    fn use_work(world: &World, operation: Operation) {
        let accepted = |answer: Result<bool, QueueError>| {
            let refusals = [QueueError::Disabled, QueueError::Draining, QueueError::Full];
            let known = answer.as_ref().err().is_none_or(|error| {
                refusals.contains(error) || matches!(error, QueueError::UnknownCpu { .. })
            });
            world.check(known, || format!("{answer:?}"));
        };
        match operation {
            Operation::Queue(queue, work) => accepted(world.queues[queue].enqueue(&world.works[work])),
            Operation::QueueOn(queue, work, cpu) => {
                accepted(world.queues[queue].item(&world.works[work]).on_cpu(cpu).enqueue());
            }
            Operation::QueueDelayed(queue, work, delay) => {
                accepted(world.queues[queue].item(&world.works[work]).after(delay).enqueue());
            }
            Operation::ModDelayed(queue, work, delay) => {
                accepted(world.queues[queue].item(&world.works[work]).after(delay).reschedule());
            }
            Operation::Cancel(work) => _ = world.works[work].cancel(),
            Operation::CancelSync(work) => _ = world.works[work].cancel_and_wait().unwrap(),
            Operation::FlushWork(work) => _ = world.works[work].flush().unwrap(),
            Operation::Disable(work, time) => {
                world.works[work].disable();
                pause(time);
                let enabled = world.works[work].enable();
                world.check(!matches!(enabled, Err(EnableError::NotDisabled)), || format!("{enabled:?}"));
            }
            other => unreachable!("{other:?} uses no reusable item"),
        }
    }
}
