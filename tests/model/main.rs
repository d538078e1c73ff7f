//! Compares items with a plain reference model. In the model, queues and items are lists and flags. A run begins and
//! ends only when the test says so. Every item waits inside its function until the test tells it what to do, and every
//! queue has one slot. After each step, the test waits until the executor is quiet. Then all worklists are empty, no
//! worker is waking, and as many workers are busy as the model has runs. The executor and the model must agree on
//! everything that can be observed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests stand in for a user")]

mod reference;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::{Executor, JoinError, JoinHandle, QueueError, TopologySource, WaitError, Work, WorkQueue};
use proptest::prelude::*;

use reference::{BOUND, ITEMS, Id, Model, QUEUES, Slot};

#[derive(Clone, Copy, Debug)]
enum Step {
    Queue {
        item: usize,
        queue: usize,
    },
    /// Queues the item from several threads at once, while it cannot begin.
    QueueByMany {
        item: usize,
        queue: usize,
    },
    Cancel {
        item: usize,
    },
    /// Arms the item for an hour from now.
    QueueDelayed {
        item: usize,
        queue: usize,
    },
    Move {
        item: usize,
        queue: usize,
        now: bool,
    },
    /// Cancels the item, and waits with a timeout of zero.
    CancelSync {
        item: usize,
    },
    Flush {
        item: usize,
    },
    Disable {
        item: usize,
        sync: bool,
    },
    Enable {
        item: usize,
    },
    /// Drops the test's last handle of the item.
    Forget {
        item: usize,
    },
    Spawn {
        queue: usize,
    },
    CancelShot {
        shot: usize,
    },
    DetachShot {
        shot: usize,
    },
    JoinShot {
        shot: usize,
    },
    /// Tells the item that runs on this queue how it ends.
    Finish {
        queue: usize,
        how: How,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Return,
    Panic,
    /// The item first queues itself to this queue, and sends the answer to the test.
    Requeue(usize),
    /// The item drops the test's handle to it.
    ForgetItself,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (item, queue, shot) = (0..ITEMS, 0..QUEUES, 0..6_usize);
    let how = prop_oneof![
        4 => Just(How::Return),
        1 => Just(How::Panic),
        3 => queue.clone().prop_map(How::Requeue),
        1 => Just(How::ForgetItself),
    ];
    let step = prop_oneof![
        8 => (item.clone(), queue.clone()).prop_map(|(item, queue)| Step::Queue { item, queue }),
        2 => (item.clone(), queue.clone()).prop_map(|(item, queue)| Step::QueueByMany { item, queue }),
        4 => item.clone().prop_map(|item| Step::Cancel { item }),
        2 => (item.clone(), queue.clone()).prop_map(|(item, queue)| Step::QueueDelayed { item, queue }),
        3 => (item.clone(), queue.clone(), any::<bool>())
            .prop_map(|(item, queue, now)| Step::Move { item, queue, now }),
        1 => item.clone().prop_map(|item| Step::CancelSync { item }),
        2 => item.clone().prop_map(|item| Step::Flush { item }),
        1 => (item.clone(), any::<bool>()).prop_map(|(item, sync)| Step::Disable { item, sync }),
        2 => item.clone().prop_map(|item| Step::Enable { item }),
        1 => item.prop_map(|item| Step::Forget { item }),
        4 => queue.clone().prop_map(|queue| Step::Spawn { queue }),
        1 => shot.clone().prop_map(|shot| Step::CancelShot { shot }),
        1 => shot.clone().prop_map(|shot| Step::DetachShot { shot }),
        1 => shot.prop_map(|shot| Step::JoinShot { shot }),
        8 => (queue, how).prop_map(|(queue, how)| Step::Finish { queue, how }),
    ];
    prop::collection::vec(step, 1..60)
}

// The executor. ----------------------------------------------------------------------------------------------------

#[derive(Default)]
struct Counters {
    begun: AtomicUsize,
    dropped: AtomicUsize,
}

struct Drops(Arc<Counters>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

type Handle = Arc<Mutex<Option<Work>>>;
type Answer = Option<Result<bool, QueueError>>;

struct RealItem {
    handle: Handle,
    counters: Arc<Counters>,
    go_on: mpsc::Sender<How>,
    answers: mpsc::Receiver<Answer>,
}

struct RealShot {
    handle: Option<JoinHandle<usize>>,
    counters: Arc<Counters>,
    go_on: mpsc::Sender<How>,
}

struct Real {
    executor: Executor,
    queues: Vec<WorkQueue>,
    items: Vec<RealItem>,
    shots: Vec<RealShot>,
}

impl Real {
    fn new(executor: &Executor) -> Self {
        let queues: Vec<WorkQueue> = (0..QUEUES)
            .map(|queue| match queue {
                0 => WorkQueue::ordered("ordered"),
                1 => WorkQueue::unbound("one slot").max_active_total(1),
                _ => WorkQueue::ordered("bounded").max_pending(BOUND),
            })
            .map(|builder| builder.build_on(executor).unwrap())
            .collect();
        let items = (0..ITEMS).map(|_| RealItem::new(&queues)).collect();
        Self { executor: executor.clone(), queues, items, shots: Vec::new() }
    }

    fn spawn(&mut self, queue: usize) -> bool {
        let (go_on, wait) = mpsc::channel();
        let counters = Arc::new(Counters::default());
        let (drops, number) = (Drops(Arc::clone(&counters)), self.shots.len());
        let closure = move || {
            drops.0.begun.fetch_add(1, SeqCst);
            assert_ne!(wait.recv().unwrap_or(How::Return), How::Panic, "on purpose");
            number
        };
        match self.queues[queue].spawn(closure) {
            Ok(handle) => self.shots.push(RealShot { handle: Some(handle), counters, go_on }),
            Err(refused) => {
                assert_eq!(refused.error, QueueError::Full);
                return false;
            }
        }
        true
    }

    /// Waits until the executor is quiet, so no state changes any more.
    fn settle(&self, model: &Model) -> Result<(), TestCaseError> {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.is_quiet(model) {
            prop_assert!(
                Instant::now() < end,
                "the executor does not reach the state of the model: {model:#?}"
            );
            std::thread::yield_now();
        }
        Ok(())
    }

    fn is_quiet(&self, model: &Model) -> bool {
        let begun = |counters: &Counters| counters.begun.load(SeqCst);
        let items =
            self.items.iter().zip(&model.items).all(|(real, model)| begun(&real.counters) == model.runs);
        let mut shots = self.shots.iter().zip(&model.shots);
        if !items || !shots.all(|(real, model)| begun(&real.counters) == usize::from(model.begun)) {
            return false;
        }
        let pools = self.executor.dump().pools;
        let still =
            |pool: &cmwq::observe::PoolSnapshot| pool.pending == 0 && pool.waking == 0 && !pool.creating;
        let busy: usize = pools.iter().map(|pool| pool.workers - pool.idle).sum();
        pools.iter().all(still) && busy == model.running()
    }

    /// Checks that all states that can be observed are as in the model.
    fn check(&self, model: &Model) -> Result<(), TestCaseError> {
        for (n, (real, item)) in self.items.iter().zip(&model.items).enumerate() {
            if let Some(work) = &*real.handle.lock().unwrap() {
                prop_assert_eq!(work.is_pending(), item.is_pending(), "item {} pending", n);
                prop_assert_eq!(work.is_disabled(), item.disabled > 0, "item {} disabled", n);
                prop_assert_eq!(work.is_running(), item.running_on.is_some(), "item {} running", n);
            }
            let dropped = real.counters.dropped.load(SeqCst);
            prop_assert_eq!(dropped, usize::from(model.is_gone(n)), "item {} dropped", n);
        }
        for (n, (real, shot)) in self.shots.iter().zip(&model.shots).enumerate() {
            let over = shot.cancelled || shot.ended.is_some();
            if let Some(handle) = &real.handle {
                prop_assert_eq!(handle.is_finished(), over, "shot {} finished", n);
            }
            prop_assert_eq!(real.counters.dropped.load(SeqCst), usize::from(over), "closure {} dropped", n);
        }
        Ok(())
    }
}

impl RealItem {
    fn new(queues: &[WorkQueue]) -> Self {
        let (go_on, wait) = mpsc::channel();
        let (tell, answers) = mpsc::channel();
        let handle = Handle::default();
        let counters = Arc::new(Counters::default());
        let (wait, drops) = (Mutex::new(wait), Drops(Arc::clone(&counters)));
        let (own, queues) = (Arc::clone(&handle), queues.to_vec());
        let work = Work::with_handle(move |this| {
            drops.0.begun.fetch_add(1, SeqCst);
            // This statement releases the lock before the item panics, so the lock is not poisoned.
            let how = wait.lock().unwrap().recv().unwrap_or(How::Return);
            let answer = match how {
                How::Requeue(queue) => Some(queues[queue].enqueue(this)),
                _ => None,
            };
            if how == How::ForgetItself {
                drop(own.lock().unwrap().take());
            }
            // If the test has failed, it no longer receives answers.
            let _heard = tell.send(answer);
            assert_ne!(how, How::Panic, "on purpose");
        });
        *handle.lock().unwrap() = Some(work);
        Self { handle, counters, go_on, answers }
    }

    fn work(&self) -> Option<Work> {
        self.handle.lock().unwrap().clone()
    }
}

// The executor and the model, step by step. -------------------------------------------------------------------------

fn take(step: Step, model: &mut Model, real: &mut Real) -> Result<(), TestCaseError> {
    match step {
        Step::Queue { item, queue } => {
            if let Some(work) = real.items[item].work() {
                let answer = real.queues[queue].enqueue(&work);
                prop_assert_eq!(answer, model.queue(item, queue));
            }
        }
        Step::QueueByMany { item, queue } => {
            // If the item could begin between two submissions, the number of accepted ones would vary.
            let held = model.queues[queue].slot.is_some() || model.items[item].running_on.is_some();
            if let Some(work) = real.items[item].work().filter(|_| held) {
                let barrier = Barrier::new(3);
                let queue_it = || {
                    barrier.wait();
                    real.queues[queue].enqueue(&work)
                };
                let answers: Vec<_> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..3).map(|_| scope.spawn(queue_it)).collect();
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
                });
                let expected = model.queue(item, queue);
                let accepted = answers.iter().filter(|answer| **answer == Ok(true)).count();
                prop_assert_eq!(accepted, usize::from(expected == Ok(true)), "{:?}", answers);
                prop_assert!(
                    expected.is_ok() || answers.iter().all(|answer| *answer == expected),
                    "{answers:?}"
                );
            }
        }
        Step::Cancel { item } => {
            if let Some(work) = real.items[item].work() {
                prop_assert_eq!(work.cancel(), model.cancel(item));
            }
        }
        Step::QueueDelayed { .. }
        | Step::Move { .. }
        | Step::CancelSync { .. }
        | Step::Flush { .. }
        | Step::Disable { .. }
        | Step::Enable { .. } => take_later(step, model, real)?,
        Step::Forget { item } => {
            drop(real.items[item].handle.lock().unwrap().take());
            model.items[item].handle = false;
        }
        Step::Spawn { queue } => prop_assert_eq!(real.spawn(queue), model.spawn(queue)),
        Step::CancelShot { shot } | Step::DetachShot { shot } | Step::JoinShot { shot } => {
            take_shot(step, shot, model, real)?;
        }
        Step::Finish { queue, how } => finish(queue, how, model, real)?,
    }
    Ok(())
}

const HOUR: Duration = Duration::from_secs(3600);

/// Takes one step, which is about timers, waits or disabling.
fn take_later(step: Step, model: &mut Model, real: &Real) -> Result<(), TestCaseError> {
    let work = |item: usize| real.items[item].work();
    match step {
        Step::QueueDelayed { item, queue } => {
            let Some(work) = work(item) else { return Ok(()) };
            prop_assert_eq!(
                real.queues[queue].item(&work).after(HOUR).enqueue(),
                model.queue_delayed(item, queue)
            );
        }
        Step::Move { item, queue, now } => {
            let Some(work) = work(item) else { return Ok(()) };
            let delay = if now { Duration::ZERO } else { HOUR };
            let answer = real.queues[queue].item(&work).after(delay).reschedule();
            prop_assert_eq!(answer, model.mod_delayed(item, queue, now));
        }
        Step::CancelSync { item } => {
            let Some(work) = work(item) else { return Ok(()) };
            let running = model.items[item].running_on.is_some();
            let was_pending = model.cancel(item);
            let expected = if running { Err(WaitError::TimedOut) } else { Ok(was_pending) };
            prop_assert_eq!(work.cancel_and_wait_timeout(Duration::ZERO), expected);
        }
        Step::Flush { item } => {
            let Some(work) = work(item) else { return Ok(()) };
            let state = &model.items[item];
            // A running item does not end until the test tells it to.
            let waits = state.is_pending() || state.running_on.is_some();
            model.fire(item);
            let expected = if waits { Err(WaitError::TimedOut) } else { Ok(false) };
            prop_assert_eq!(work.flush_timeout(Duration::ZERO), expected);
        }
        Step::Disable { item, sync } => {
            let Some(work) = work(item) else { return Ok(()) };
            let running = model.items[item].running_on.is_some();
            let was_pending = model.disable(item);
            if sync {
                let expected = if running { Err(WaitError::TimedOut) } else { Ok(was_pending) };
                prop_assert_eq!(work.disable_and_wait_timeout(Duration::ZERO), expected);
            } else {
                prop_assert_eq!(work.disable(), was_pending);
            }
        }
        Step::Enable { item } => {
            let Some(work) = work(item) else { return Ok(()) };
            prop_assert_eq!(work.enable(), model.enable(item));
        }
        other => unreachable!("{other:?}"),
    }
    Ok(())
}

fn take_shot(step: Step, shot: usize, model: &mut Model, real: &mut Real) -> Result<(), TestCaseError> {
    let Some((known, state)) = real.shots.get_mut(shot).zip(model.shots.get_mut(shot)) else { return Ok(()) };
    let Some(handle) = known.handle.take() else { return Ok(()) };
    match step {
        Step::CancelShot { .. } => {
            let expected = !state.begun && !state.cancelled;
            state.cancelled |= expected;
            prop_assert_eq!(handle.cancel(), expected);
            known.handle = Some(handle);
        }
        Step::DetachShot { .. } => drop(handle),
        _ => match (handle.join_timeout(Duration::ZERO), state.cancelled, state.ended) {
            (Err(handle), false, None) => known.handle = Some(handle),
            (Ok(Err(JoinError::Cancelled)), true, _)
            | (Ok(Err(JoinError::Panicked(_))), false, Some(true)) => {}
            (Ok(Ok(number)), false, Some(false)) => {
                prop_assert_eq!(number, shot);
            }
            (answer, ..) => prop_assert!(false, "joined {:?} of {:?}", answer, state),
        },
    }
    Ok(())
}

fn finish(queue: usize, how: How, model: &mut Model, real: &mut Real) -> Result<(), TestCaseError> {
    match model.queues[queue].slot {
        Some(Slot::Runs(Id::Item(item))) => {
            let expected = match how {
                How::Requeue(other) => Some(model.queue(item, other)),
                _ => None,
            };
            model.items[item].handle &= how != How::ForgetItself;
            real.items[item].go_on.send(how).unwrap();
            let answer = real.items[item].answers.recv_timeout(Duration::from_secs(20)).unwrap();
            prop_assert_eq!(answer, expected);
        }
        Some(Slot::Runs(Id::Shot(shot))) => real.shots[shot].go_on.send(how).unwrap(),
        _ => return Ok(()),
    }
    model.finish(queue, how == How::Panic);
    Ok(())
}

fn agree(executor: &Executor, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    model.items.iter_mut().for_each(|item| item.handle = true);
    let mut real = Real::new(executor);
    for (n, step) in steps.iter().enumerate() {
        let context = |error| TestCaseError::fail(format!("step {n}, {step:?}: {error}"));
        take(*step, &mut model, &mut real).map_err(context)?;
        real.settle(&model).map_err(context)?;
        real.check(&model).map_err(context)?;
    }
    // In the end, all items end, and none is left.
    while let Some(queue) = (0..QUEUES).find(|queue| matches!(model.queues[*queue].slot, Some(Slot::Runs(_))))
    {
        finish(queue, How::Return, &mut model, &mut real)?;
        real.settle(&model)?;
    }
    real.check(&model)?;
    real.queues.iter().for_each(|queue| queue.flush().unwrap());
    for item in 0..ITEMS {
        take(Step::Forget { item }, &mut model, &mut real)?;
    }
    real.check(&model)
}

/// spec: W1.4, W2.3, W3.2, W5, W9.1, F2, F3, Q3.4, Q4: items are queued from many threads, queue themselves, panic, and
/// are dropped while pending. They are cancelled, armed, moved, disabled and waited for, on three queues with one slot
/// each. One-shots run among them.
#[test]
fn items_behave_as_in_the_model() {
    let executor = Executor::builder()
        .topology(TopologySource::Synthetic("core:1 pu:1".into()))
        .progress_check(Duration::from_secs(10))
        .build()
        .unwrap();
    std::panic::set_hook(Box::new(|report| {
        if !report.to_string().contains("on purpose") {
            eprintln!("{report}");
        }
    }));
    // The number of cases is 256, or PROPTEST_CASES.
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps())| agree(&executor, &steps)?);
}
