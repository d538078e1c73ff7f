//! Closures that a queue refuses, submitted with options. The issuer gets each closure back whole, and it is dropped
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::{Batch, CancelToken, Executor, QueueError, ScopedSubmission, Submission, WorkQueue};

use crate::support::{Counted, held, one_cpu_unseen, time_limit};

const HOUR: Duration = Duration::from_secs(3600);

/// The option with which a closure is submitted, besides a delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extra {
    Nothing,
    Name,
    Token,
    Deadline,
    Bytes,
    All,
    /// The queue has a hook, which captures a value that is [`Counted`].
    Hook,
}

const EXTRAS: [Extra; 7] =
    [Extra::Nothing, Extra::Name, Extra::Token, Extra::Deadline, Extra::Bytes, Extra::All, Extra::Hook];

/// Adds the option `$extra` to a submission.
macro_rules! with {
    ($item:expr, $extra:expr) => {{
        let item = $item;
        match $extra {
            Extra::Nothing | Extra::Hook => item,
            Extra::Name => item.named("an item"),
            Extra::Token => item.token(&CancelToken::new()),
            Extra::Deadline => item.within(HOUR),
            Extra::Bytes => item.bytes(8),
            Extra::All => item.named("an item").token(&CancelToken::new()).within(HOUR).bytes(8),
        }
    }};
}

fn one<F: FnOnce() -> String>(item: Submission<'_, F>, extra: Extra) -> Submission<'_, F> {
    with!(item, extra)
}

fn many<F: FnOnce() -> String>(items: Batch<'_, Vec<F>>, extra: Extra) -> Batch<'_, Vec<F>> {
    with!(items, extra)
}

fn scoped<'s, 'e, F>(item: ScopedSubmission<'s, 'e, F>, extra: Extra) -> ScopedSubmission<'s, 'e, F> {
    with!(item, extra)
}

/// Makes closures, and counts how many were made and how many were dropped.
#[derive(Default)]
struct Closures {
    made: usize,
    dropped: Arc<AtomicUsize>,
}

impl Closures {
    fn make(&mut self) -> impl FnOnce() -> String + Send + 'static + use<> {
        self.made += 1;
        let (text, numbers) = (format!("closure {}", self.made), [7_u64; 5]);
        let counted = Counted(Arc::clone(&self.dropped));
        move || {
            let _counted = counted;
            format!("{text} of {numbers:?}")
        }
    }

    /// Returns the text that a closure returns if `before` others were made after it.
    fn expected(&self, before: usize) -> String {
        format!("closure {} of {:?}", self.made - before, [7_u64; 5])
    }

    /// Checks that all closures were dropped.
    fn check(&self, what: &str) {
        assert_eq!(self.dropped.load(Ordering::SeqCst), self.made, "{what}");
    }
}

/// Submits closures in each way to a queue that refuses them with the error `refusal`, and checks that it hands them
/// back.
fn are_handed_back(queue: &WorkQueue, extra: Extra, refusal: &QueueError, closures: &mut Closures) {
    let what = format!("{extra:?} on {}, {refusal:?}", queue.name());
    // A full queue accepts delayed items, because an item with an armed timer takes no place.
    let delays = if *refusal == QueueError::Full { vec![None] } else { vec![None, Some(HOUR)] };
    for delay in delays {
        let item = |closure| {
            let item = one(queue.item(closure), extra);
            match delay {
                None => item,
                Some(delay) => item.after(delay),
            }
        };
        let refused = item(closures.make()).spawn().unwrap_err();
        assert_eq!((refused.error, refused.into_closure()()), (*refusal, closures.expected(0)), "{what}");
        let refused = item(closures.make()).spawn_detached().unwrap_err();
        assert_eq!((refused.error, refused.into_closure()()), (*refusal, closures.expected(0)), "{what}");
        let items = |both| {
            let items = many(queue.items(both), extra);
            match delay {
                None => items,
                Some(delay) => items.after(delay),
            }
        };
        let both = vec![closures.make(), closures.make()];
        let refused = items(both).spawn().unwrap_err();
        assert_eq!(refused.error, *refusal, "{what}");
        let (accepted, rest) = refused.into_parts();
        let texts: Vec<_> = rest.into_iter().map(|closure| closure()).collect();
        assert!(accepted.is_empty() && texts == [closures.expected(1), closures.expected(0)], "{what}");
        let both = vec![closures.make(), closures.make()];
        let refused = items(both).spawn_detached().unwrap_err();
        assert_eq!(refused.error, *refusal, "{what}");
        let (accepted, rest) = refused.into_parts();
        let texts: Vec<_> = rest.into_iter().map(|closure| closure()).collect();
        assert!(accepted == 0 && texts == [closures.expected(1), closures.expected(0)], "{what}");
    }
    let (closure, dropped) = (closures.make(), Arc::clone(&closures.dropped));
    let (borrowed, counted) = (what.clone(), Counted(Arc::clone(&dropped)));
    closures.made += 1;
    queue.scope(|s| {
        let borrows = || {
            let _counted = counted;
            format!("{} and {borrowed}", closure())
        };
        let refused = scoped(s.item(borrows), extra).try_spawn().map(drop).unwrap_err();
        assert_eq!(refused.error, *refusal, "{what}");
        let text = refused.into_closure()();
        assert!(text.starts_with("closure ") && text.ends_with(&what), "{text}, {what}");
    });
    closures.check(&what);
}

/// Makes one queue of each kind, with place for one pending item, and with a hook or without.
fn queues(executor: &Executor, hook: Option<&Arc<AtomicUsize>>) -> Vec<WorkQueue> {
    let builders = [
        WorkQueue::builder("managed"),
        WorkQueue::per_cpu("per CPU"),
        WorkQueue::unbound("unbound").max_active(1),
        WorkQueue::ordered("ordered"),
    ];
    let build = |builder: cmwq::WorkQueueBuilder| {
        let builder = match hook.cloned() {
            None => builder,
            Some(dropped) => builder.carry(move || {
                let captured = Counted(Arc::clone(&dropped));
                move || captured
            }),
        };
        builder.max_pending(1).build_on(executor).unwrap()
    };
    builders.into_iter().map(build).collect()
}

/// spec: W1.6, W1.4 (dropped once), W7.9, I2.6: full queues and queues that have ended hand closures back. The test
/// covers each way to submit, each option, and hooks.
#[test]
fn a_refused_closure_is_handed_back_whole_whatever_its_options_are() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let (captured, mut closures) = (Arc::new(AtomicUsize::new(0)), Closures::default());
    for extra in EXTRAS {
        for queue in queues(&executor, (extra == Extra::Hook).then_some(&captured)) {
            let (holder, door) = held(&queue);
            // The holder has the only CPU or slot. So this item stays pending, and takes the only place.
            let pending = queue.spawn(|| ()).unwrap();
            are_handed_back(&queue, extra, &QueueError::Full, &mut closures);
            door.open();
            holder.join().unwrap();
            pending.join().unwrap();
            queue.destroy().unwrap();
            are_handed_back(&queue, extra, &QueueError::Destroyed, &mut closures);
        }
    }
    assert!(captured.load(Ordering::SeqCst) > 0, "the hooks are called");
}
