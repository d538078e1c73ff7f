//! Submissions with options: every combination of options, for closures and reusable items, alone and in batches.

use std::cell::Cell;
use std::error::Error;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use cmwq::kernel;
use cmwq::{Batch, CancelToken, EnqueueBatchError, Executor, QueueError, Submission, Work, WorkQueue};

use crate::support::{
    SOON, all_kinds, builder, current_pool, eventually, holds_within, one_cpu, stretch, time_limit,
};

/// 16 CPUs: those below 8 belong to node 0.
const TWO_NODES: &str = "numa:2 l3:2 core:2 pu:2";
const DELAY: Duration = Duration::from_micros(200);
const NAME: &str = "a name of an item";
const HOUR: Duration = Duration::from_secs(3600);
/// The largest number of pending items of each queue.
const ROOM: usize = 4;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Target {
    Here,
    Cpu(usize),
    Node(usize),
    /// A CPU, which is named after a node was named.
    CpuAfterNode(usize),
}

/// The options that can cancel the item.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Leash {
    None,
    Token,
    Deadline,
    Both,
}

impl Leash {
    fn has_deadline(self) -> bool {
        matches!(self, Self::Deadline | Self::Both)
    }
}

/// The options of one submission. `delay_first` says whether the delay is set before the target.
#[derive(Clone, Copy, Debug)]
struct Options {
    target: Target,
    delay: Option<Duration>,
    named: bool,
    leash: Leash,
    permit: bool,
    bytes: u64,
    delay_first: bool,
}

/// Sets the options that submissions and batches have in common.
macro_rules! with_options {
    ($submission:expr, $options:expr) => {{
        let (mut submission, options): (_, Options) = ($submission, $options);
        if let Some(delay) = options.delay.filter(|_| options.delay_first) {
            submission = submission.after(delay);
        }
        submission = match options.target {
            Target::Here => submission,
            Target::Cpu(cpu) => submission.on_cpu(cpu),
            Target::Node(node) => submission.on_node(node),
            Target::CpuAfterNode(cpu) => submission.on_node(77).on_cpu(cpu),
        };
        if let Some(delay) = options.delay.filter(|_| !options.delay_first) {
            submission = submission.after(delay);
        }
        submission
    }};
}

/// Sets the options that one closure and a batch of closures have in common.
macro_rules! with_leash {
    ($submission:expr, $options:expr, $token:expr) => {{
        let (mut submission, options): (_, Options) = ($submission, $options);
        if matches!(options.leash, Leash::Token | Leash::Both) {
            submission = submission.token($token);
        }
        if options.leash.has_deadline() {
            submission = submission.within(HOUR).deadline(Instant::now() + 2 * HOUR);
        }
        if options.named { submission.named(NAME) } else { submission }
    }};
}

impl Options {
    fn of<'queue, I>(self, queue: &'queue WorkQueue, item: I) -> Submission<'queue, I> {
        let submission = with_options!(queue.item(item), self);
        match self.permit {
            true => submission.with(queue.reserve_timeout(SOON).expect("the queue is empty")),
            false => submission,
        }
    }

    fn of_many<C>(self, batch: Batch<'_, C>) -> Batch<'_, C> {
        with_options!(batch, self)
    }

    fn error(self) -> Option<QueueError> {
        match self.target {
            Target::Cpu(cpu) | Target::CpuAfterNode(cpu) if cpu >= 16 => Some(QueueError::UnknownCpu { cpu }),
            Target::Node(node) if node >= 2 => Some(QueueError::UnknownNode { node }),
            _ => None,
        }
    }

    /// Returns all combinations of options for a submission that ends with `end`.
    fn all(end: End) -> Vec<Self> {
        let targets = [
            Target::Here,
            Target::Cpu(3),
            Target::Cpu(16),
            Target::Node(1),
            Target::Node(2),
            Target::CpuAfterNode(12),
        ];
        let leashes = match end {
            End::Enqueue | End::Reschedule | End::EnqueueAll => &[Leash::None][..],
            _ => &[Leash::None, Leash::Token, Leash::Deadline, Leash::Both],
        };
        let permits = match end {
            End::SpawnAll | End::SpawnAllDetached | End::EnqueueAll => &[false][..],
            _ => &[false, true],
        };
        let weights = match end {
            End::Spawn | End::SpawnDetached => &[0, 64][..],
            End::SpawnAll | End::SpawnAllDetached => &[0, 32][..],
            _ => &[0],
        };
        let mut all = Vec::new();
        for target in targets {
            for delay in [None, Some(Duration::ZERO), Some(DELAY)] {
                for named in [false, true] {
                    for (leash, permit) in
                        leashes.iter().flat_map(|leash| permits.iter().map(|permit| (*leash, *permit)))
                    {
                        for &bytes in weights {
                            let delay_first = all.len() % 5 < 2;
                            all.push(Self { target, delay, named, leash, permit, bytes, delay_first });
                        }
                    }
                }
            }
        }
        all
    }
}

/// The ways to end a submission.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Spawn,
    SpawnDetached,
    SpawnEvery,
    Enqueue,
    Reschedule,
    SpawnAll,
    SpawnAllDetached,
    EnqueueAll,
}

const ENDS: [End; 8] = [
    End::Spawn,
    End::SpawnDetached,
    End::SpawnEvery,
    End::Enqueue,
    End::Reschedule,
    End::SpawnAll,
    End::SpawnAllDetached,
    End::EnqueueAll,
];

/// The facts that an item sends about its run.
#[derive(Debug)]
struct Seen {
    at: Instant,
    pool: String,
    is_named: bool,
    time_left: Option<Duration>,
}

/// Returns a function for items, which sends facts about each run.
fn tells(executor: &Executor, tell: &Sender<Seen>) -> impl Fn() + Send + use<> {
    let (executor, tell) = (executor.clone(), tell.clone());
    move || {
        let is_named = executor.dump().to_string().contains(NAME);
        let time_left = cmwq::cancel_token().time_left();
        let seen = Seen { at: Instant::now(), pool: current_pool(), is_named, time_left };
        // The test may have ended before the periodic item.
        let _gone = tell.send(seen);
    }
}

/// Ends a submission in this way. Returns the number of runs that follow, or the error.
fn submit(
    queue: &WorkQueue,
    options: Options,
    end: End,
    item: impl Fn() + Send + Clone + 'static,
) -> Result<usize, QueueError> {
    let work = || match options.named {
        true => Work::named(NAME, item.clone()),
        false => Work::new(item.clone()),
    };
    let token = CancelToken::new();
    let one = || with_leash!(options.of(queue, item.clone()), options, &token).bytes(options.bytes);
    let many = || options.of_many(queue.items([item.clone(), item.clone()]));
    let many = || with_leash!(many(), options, &token).bytes(options.bytes);
    match end {
        End::Spawn => one().spawn().map(|_handle| 1).map_err(|refused| refused.error),
        End::SpawnDetached => one().spawn_detached().map(|()| 1).map_err(QueueError::from),
        End::SpawnEvery => {
            let every = one().spawn_every(HOUR)?;
            // Without a delay, the first call would begin only after an hour.
            let first = options.delay.is_some();
            if first {
                eventually("the first call", || every.runs() == 1);
            }
            every.cancel_and_wait().unwrap();
            assert_eq!((every.runs(), every.missed()), (u64::from(first), 0));
            Ok(usize::from(first))
        }
        End::Enqueue => options.of(queue, &work()).enqueue().map(usize::from),
        End::Reschedule => {
            options.of(queue, work()).reschedule().map(|was_pending| 1 - usize::from(was_pending))
        }
        End::SpawnAll => many().spawn().map(|handles| handles.len()).map_err(|refused| {
            let error = refused.error;
            let (accepted, closures) = refused.into_parts();
            assert_eq!((accepted.len(), closures.len()), (0, 2));
            error
        }),
        End::SpawnAllDetached => many().spawn_detached().map(|()| 2).map_err(QueueError::from),
        End::EnqueueAll => {
            let queued = options.of_many(queue.items([work(), work()])).enqueue();
            queued.map_err(|EnqueueBatchError { error, index, .. }| {
                assert_eq!(index, 0);
                error
            })
        }
    }
}

/// spec: W1.8, W2.5, W5.6, W6.1, W6.2, W6.3, W8.7, B1.2, B4.4, I3.5: all combinations of options and ends of
/// submissions, on all kinds of queues. An accepted item runs once, in time, on its CPU or node, under its name, and
/// knows its deadline. A wrong CPU or node is an error, and changes nothing. In the end, all places and bytes are free.
#[test]
fn all_options_combine() {
    let _limit = time_limit();
    // Under an emulator, all combinations take minutes. The step has no divisor in common with the number of an
    // option's choices. So each two choices of different options still meet.
    let step = if stretch() > 1 { 7 } else { 1 };
    // There is room for the bytes of one item.
    let executor = builder(TWO_NODES).0.max_pending_bytes(72).build().unwrap();
    let kinds = [
        WorkQueue::builder("n"),
        WorkQueue::per_cpu("p"),
        WorkQueue::unbound("u"),
        WorkQueue::ordered("o"),
        kernel::bh("b"),
    ];
    for queue in kinds.map(|queue| queue.max_pending(ROOM).build_on(&executor).unwrap()) {
        let all = ENDS.iter().flat_map(|end| Options::all(*end).into_iter().map(|options| (*end, options)));
        for (end, options) in all.step_by(step) {
            // The previous item may still be in flight, and shown with its name, although its closure was dropped.
            queue.wait_idle().unwrap();
            let (tell, told) = mpsc::channel();
            let before = Instant::now();
            let item = Shared::of(tells(&executor, &tell));
            // Only the items own senders now, so the channel ends when the last item ends.
            drop(tell);
            let submitted = submit(&queue, options, end, item);
            let what = format!("{} {end:?} {options:?}", queue.name());
            match options.error() {
                Some(error) => {
                    assert_eq!(submitted, Err(error), "{what}");
                    assert_eq!((told.iter().count(), queue.len()), (0, 0), "{what}: nothing was queued");
                }
                None => check(&told, before, options, submitted.expect("it was accepted"), &what),
            }
        }
        // Otherwise, the first item of the next queue might see the name of this queue's last item.
        queue.wait_idle().unwrap();
        let all_places = || (0..ROOM).map(|_| queue.try_reserve()).collect::<Result<Vec<_>, _>>();
        assert!(holds_within(SOON, || all_places().is_ok()), "{}: a place is lost", queue.name());
        assert_eq!(executor.dump().pending_bytes, Some(0), "{}", queue.name());
    }
}

fn check(told: &Receiver<Seen>, before: Instant, options: Options, items: usize, what: &str) {
    let seen: Vec<Seen> = told.iter().collect();
    assert_eq!(seen.len(), items, "{what}");
    for Seen { at, pool, is_named, time_left } in seen {
        assert!(at >= before + options.delay.unwrap_or_default(), "{what}: too early");
        assert_eq!(is_named, options.named, "{what}");
        assert_eq!(time_left.is_some_and(|left| left <= HOUR), options.leash.has_deadline(), "{what}");
        // The pools of a per-CPU queue and of a bh queue are named after their CPUs.
        let Ok(cpu) = pool.trim_start_matches("bh").parse::<usize>() else { continue };
        match options.target {
            Target::Here => {}
            Target::Cpu(named) | Target::CpuAfterNode(named) => assert_eq!(cpu, named, "{what}"),
            Target::Node(node) => assert_eq!(cpu / 8, node, "{what}"),
        }
    }
}

/// A function that can be cloned although it owns a sender.
struct Shared;

impl Shared {
    fn of(function: impl Fn() + Send + 'static) -> impl Fn() + Send + Clone + 'static {
        let shared = std::sync::Arc::new(std::sync::Mutex::new(function));
        move || shared.lock().unwrap()()
    }
}

/// spec: W1.6, W6.3, W5.5: the call that ends a submission returns an error for a wrong option, and hands the closure
/// back.
#[test]
fn closures_with_wrong_options_come_back() {
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let nowhere = QueueError::UnknownCpu { cpu: 9 };
    let refused = queue.item(|| 7).on_cpu(9).named(NAME).spawn().unwrap_err();
    assert_eq!((refused.error, (refused.into_closure())()), (nowhere, 7));
    let refused = queue.item(|| 8).after(HOUR).on_cpu(9).spawn_detached().unwrap_err();
    assert_eq!((refused.error, (refused.into_closure())()), (nowhere, 8));
    let mut calls = Vec::new();
    let refused = queue.item(move || calls.push(())).on_cpu(9).spawn_every(HOUR).unwrap_err();
    assert_eq!(refused.error, nowhere);
    let refused = queue.item(refused.into_closure()).named(NAME).spawn_every(Duration::ZERO).unwrap_err();
    assert_eq!(refused.error, QueueError::ZeroPeriod);
    queue.destroy().unwrap();
    let refused = queue.item(refused.into_closure()).named(NAME).spawn_every(HOUR).unwrap_err();
    assert_eq!(refused.error, QueueError::Destroyed);
    let mut again = refused.into_closure();
    again();
    for delay in [Duration::ZERO, HOUR] {
        let refused = queue.item(|| 9).named(NAME).after(delay).spawn().unwrap_err();
        assert_eq!((refused.error, (refused.into_closure())()), (QueueError::Destroyed, 9));
        let refused = queue.items([|| 1, || 2]).named(NAME).after(delay).spawn().unwrap_err();
        assert_eq!(refused.error, QueueError::Destroyed);
        assert_eq!(refused.into_parts().1.into_iter().map(|f| f()).sum::<i32>(), 3);
        let refused = queue.items([|| 1, || 2]).after(delay).spawn_detached().unwrap_err();
        assert_eq!(refused.into_parts().1.len(), 2);
        let works = [Work::new(|| ()), Work::new(|| ())];
        let error = queue.items(&works).after(delay).enqueue().unwrap_err();
        assert_eq!((error.error, error.index), (QueueError::Destroyed, 0));
        assert!(!works[0].is_pending());
    }
}

/// spec: W1.9: `?` turns a refusal into the usual error types, even if the closure is not `Sync`, or borrows.
#[test]
fn refusals_become_errors_of_any_type() {
    fn boxed(queue: &WorkQueue) -> Result<u32, Box<dyn Error + Send + Sync>> {
        let not_sync = Cell::new(7);
        Ok(queue.spawn(move || not_sync.get())?.join()?)
    }
    fn anyhow(queue: &WorkQueue) -> anyhow::Result<u32> {
        let not_sync = Cell::new(7);
        queue.spawn_detached(move || not_sync.get())?;
        let not_sync = Cell::new(7);
        Ok(queue.item(move || not_sync.get()).named(NAME).spawn()?.join()?)
    }
    fn batch(queue: &WorkQueue) -> anyhow::Result<()> {
        let closures = [1, 2].map(|n| (Cell::new(n), Cell::new(n)));
        queue.items(closures.map(|(one, two)| move || one.get() + two.get())).spawn()?;
        Ok(())
    }
    fn scoped(queue: &WorkQueue) -> anyhow::Result<usize> {
        let (text, not_sync) = (String::from("borrowed"), Cell::new(1));
        queue.scope(|s| {
            let length = s.spawn(|| text.len())?;
            s.spawn(move || not_sync.get())?;
            s.chunks(text.as_bytes(), 3, |_, _| ())?;
            Ok(length.join()?)
        })
    }
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    assert_eq!((boxed(&queue).unwrap(), anyhow(&queue).unwrap(), scoped(&queue).unwrap()), (7, 7, 8));
    batch(&queue).unwrap();
    queue.destroy().unwrap();
    for message in [
        boxed(&queue).unwrap_err().to_string(),
        anyhow(&queue).unwrap_err().to_string(),
        scoped(&queue).unwrap_err().to_string(),
    ] {
        assert_eq!(message, "the queue was destroyed");
    }
    assert_eq!(batch(&queue).unwrap_err().to_string(), "0 of 2 items were accepted: the queue was destroyed");
}

/// spec: W1.8: a delayed closure without a handle may return a value that is not `Send`.
#[test]
fn a_delayed_item_without_a_handle_drops_its_result_where_it_ran() {
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let item = move || {
        tell.send(()).unwrap();
        std::rc::Rc::new(1)
    };
    queue.item(item).after(Duration::from_micros(100)).spawn_detached().unwrap();
    told.recv().unwrap();
    // An item whose timer never fires is dropped with its queue.
    let (tell, told) = mpsc::channel::<()>();
    queue.item(move || drop(tell)).after(HOUR).spawn_detached().unwrap();
    assert_eq!(queue.destroy(), Ok(1));
    assert!(told.recv().is_err(), "the closure was dropped");
}

/// spec: W7.9, W1.8, B4.4: items of a scope run with all combinations of their options, on all kinds of queues. With a
/// wrong option, the call returns an error and the closure.
#[test]
fn options_of_items_of_scopes_combine() {
    let _limit = time_limit();
    let executor = builder(TWO_NODES).0.max_pending_bytes(72).build().unwrap();
    let token = CancelToken::new();
    for queue in all_kinds(&executor) {
        for (n, (target, named, held, limited)) in
            (0..96).map(|n| (n, (n / 16, n & 4 != 0, n & 2 != 0, n & 1 != 0)))
        {
            let what = format!("{} {target} {named} {held} {limited}", queue.name());
            queue.wait_idle().unwrap();
            let (tell, told) = mpsc::channel();
            let (tells, time_left) = (tells(&executor, &tell), Cell::new(None));
            drop(tell);
            let result = queue.scope(|s| {
                let mut item = s.item(|| {
                    tells();
                    (cmwq::cancel_token().time_left(), what.len())
                });
                item = match target {
                    0 => item,
                    1 => item.on_cpu(3),
                    2 => item.on_node(1),
                    3 => item.on_node(77).on_cpu(12),
                    4 => item.on_cpu(16),
                    _ => item.on_node(2),
                };
                item = if limited { item.within(HOUR).deadline(Instant::now() + 2 * HOUR) } else { item };
                item = if named { item.named(NAME) } else { item };
                item = if held { item.token(&token) } else { item };
                item = item.bytes(if n & 8 != 0 { 64 } else { 0 });
                let (left, len) = item.try_spawn().map_err(|refused| refused.error)?.join().unwrap();
                time_left.set(left);
                assert_eq!(len, what.len());
                Ok(())
            });
            match target {
                4 => assert_eq!(result, Err(QueueError::UnknownCpu { cpu: 16 }), "{what}"),
                5 => assert_eq!(result, Err(QueueError::UnknownNode { node: 2 }), "{what}"),
                _ => {
                    assert_eq!(result, Ok(()), "{what}");
                    let seen = told.recv().unwrap();
                    assert_eq!(seen.is_named, named, "{what}");
                    assert_eq!(time_left.get().is_some_and(|left| left <= HOUR), limited, "{what}");
                    if let Ok(cpu) = seen.pool.parse::<usize>() {
                        assert!([true, cpu == 3, cpu / 8 == 1, cpu == 12][target], "{what}");
                    }
                }
            }
        }
        assert_eq!(executor.dump().pending_bytes, Some(0), "{}", queue.name());
        let refused = queue.scope(|s| {
            s.item(|| 7).on_cpu(16).try_spawn().map(drop).map_err(|refused| refused.into_closure()())
        });
        assert_eq!(refused, Err(7));
    }
    token.cancel();
    let never = || unreachable!("its token is cancelled");
    one_cpu_queue().scope(|s| drop(s.item(never).token(&token).spawn().unwrap()));
    one_cpu_queue().scope(|s| drop(s.item(never).deadline(Instant::now()).spawn().unwrap()));
}

fn one_cpu_queue() -> WorkQueue {
    WorkQueue::builder("q").build_on(&one_cpu()).unwrap()
}
