//! The events and spans for `tracing`, and the events of tests on a made-up machine. Without the features `tracing`
//! and `testing`, the functions of this module report nothing.
//!
//! A thread holds no lock when it reports an event. So in a test on a made-up machine, other threads may run before and
//! after each event.
//!
//! A subscriber is user code. So these functions call the subscriber only while the thread holds no lock of this crate,
//! and they contain the subscriber's panics. If the subscriber itself uses this crate during such a call, its actions
//! are not reported. Before a function builds an event, it checks whether a subscriber may listen to that event.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "there is no subscriber"))]

pub(crate) mod subscriber;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

#[cfg(feature = "tracing")]
use tracing::{Level, Span};

use crate::policy::blocking_detector::Found;
#[cfg(feature = "tracing")]
use crate::policy::worker::Finding;
use crate::sys::machine;

use super::item::entry::{Entry, Header, ItemType};
#[cfg(feature = "tracing")]
use super::pool::spec::PoolKind;
use super::pool::worker_pool::Pool;
use super::queue::shard::Shard;
use super::queue::workqueue::Queue;
use super::worker::shared::Worker;

use self::subscriber::Parent;
#[cfg(feature = "tracing")]
use self::subscriber::{is_of_this_thread, is_on, told};

/// The target of all events and of the span: `cmwq`.
#[cfg(feature = "tracing")]
pub const TARGET: &str = "cmwq";

/// The name of the span in which an item runs.
#[cfg(feature = "tracing")]
const EXECUTE: &str = "execute";

#[cfg(feature = "tracing")]
macro_rules! tell {
    ($level:ident, $name:literal, { $($fields:tt)* }) => {
        if is_on(Level::$level) {
            told(|| tracing::event!(name: $name, target: TARGET, Level::$level, { $($fields)* }, $name));
        }
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! tell {
    ($($nothing:tt)*) => {};
}

/// Returns whether a subscriber or a made-up machine might listen to the events of an item that is queued to this
/// queue. The issuer calls this function once, before it reports the item's events.
#[inline]
pub(super) fn listens(queue: &Queue) -> bool {
    is_heard() || queue.is_on_machine()
}

/// Returns whether a subscriber might listen to the events of items.
#[inline]
pub(super) fn is_heard() -> bool {
    #[cfg(feature = "tracing")]
    return is_on(Level::TRACE);
    #[cfg(not(feature = "tracing"))]
    false
}

/// Reports that an item is queued. The item might still have to wait for a slot of its limiter. `named` is the index of
/// the CPU that the issuer named, if it named one.
#[cold]
pub(super) fn queue_work(
    item: NonNull<Header>,
    item_type: &'static ItemType,
    shard: &Shard,
    named: Option<usize>,
) {
    machine::note(|| format!("queues {} on {:?}", item_type.name(), shard.queue().name()));
    tell!(TRACE, "queue_work", {
        work = item.addr().get(),
        function = item_type.name(),
        workqueue = shard.queue().name(),
        req_cpu = named.map(|index| shard.queue().executor.placement.cpu(index).cpu),
        cpu = cpu_of(shard.pool()),
        pool = shard.pool().spec.kind.name().as_str(),
    });
}

/// Reports that an item has a slot of its limiter, and goes to a worklist.
#[inline]
pub(super) fn activate_work(entry: &Entry) {
    tell!(TRACE, "activate_work", {
        work = entry.item().addr().get(),
        function = entry.item_type().name(),
        workqueue = entry.shard().queue().name(),
        cpu = cpu_of(entry.shard().pool()),
        pool = entry.shard().pool().spec.kind.name().as_str(),
    });
}

/// The span of an item that is being executed, if a subscriber listened when the item began.
#[must_use]
pub(super) struct Execution {
    /// The span, which the calling thread has entered. `Some(None)` if a subscriber listened, but the item has no span.
    /// The box keeps this struct small for the usual case that no subscriber listens.
    #[cfg(feature = "tracing")]
    span: Option<Option<Box<Span>>>,
}

/// Reports that a worker of this pool, or a rescuer that serves the pool, begins an item.
#[inline]
pub(super) fn execute_start(
    entry: &Entry,
    item_type: &'static ItemType,
    pool: &Pool,
    parent: Parent,
) -> Execution {
    Execution {
        #[cfg(feature = "tracing")]
        span: if is_heard() { Some(start(entry, item_type, pool, parent)) } else { None },
    }
}

/// Calls an item's function. If the calling thread belongs to a made-up machine, also reports the item to this machine.
#[cold]
#[inline(never)]
pub(super) fn call_on_machine<R>(
    entry: &Entry,
    item_type: &'static ItemType,
    pool: &Pool,
    function: impl FnOnce() -> R,
) -> std::thread::Result<R> {
    machine::begins(entry.item().addr().get(), item_type.name(), entry.shard().queue().name());
    machine::step();
    let result = catch_unwind(AssertUnwindSafe(|| {
        machine::panic_as_planned();
        function()
    }));
    machine::ends(result.is_err(), pool.core.settings.hooks.panic_handler.is_none());
    machine::step();
    result
}

/// A hook that makes the issuer's span current in the item. The hook is for
/// [`WorkQueueBuilder::carry`](crate::WorkQueueBuilder::carry) and
/// [`ExecutorBuilder::carry`](crate::ExecutorBuilder::carry).
///
/// If the item runs in a span `execute`, then `execute` stays the current span, because it is a child of the issuer's
/// span.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::builder("mails").carry(cmwq::trace::current_span).build()?;
/// let request = tracing::info_span!("request", id = 17);
/// let mail = request.in_scope(|| queue.spawn(|| tracing::info!("sent")))?; // The event lies in the request's span.
/// mail.join()?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "tracing")]
pub fn current_span() -> impl FnOnce() -> Option<tracing::span::EnteredSpan> + Send + 'static {
    let span = Span::current();
    move || if in_execution() && is_of_this_thread(&span) { None } else { Some(span.entered()) }
}

/// Returns whether the calling thread's current span is the span of an item.
#[cfg(feature = "tracing")]
fn in_execution() -> bool {
    let is_execution = |span: &tracing::Metadata<'_>| span.target() == TARGET && span.name() == EXECUTE;
    Span::current().metadata().is_some_and(is_execution)
}

/// Reports that the item has ended, with or without a panic.
#[inline]
pub(super) fn execute_end(
    execution: Execution,
    entry: &Entry,
    item_type: &'static ItemType,
    pool: &Pool,
    panicked: bool,
) {
    #[cfg(feature = "tracing")]
    if let Some(span) = execution.span {
        end(span, entry, item_type, pool, panicked);
    }
}

#[cfg(feature = "tracing")]
#[cold]
fn start(entry: &Entry, item_type: &'static ItemType, pool: &Pool, parent: Parent) -> Option<Box<Span>> {
    tell!(TRACE, "execute_start", {
        work = entry.item().addr().get(),
        function = item_type.name(),
        workqueue = entry.shard().queue().name(),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
    });
    let mut entered = None;
    told(|| {
        // The parent is the issuer's span, if there is one. This thread's present span does not become the parent,
        // because an earlier item may have left that span entered.
        let known = parent.span.as_ref().filter(|span| is_of_this_thread(span));
        let span = tracing::trace_span!(
            target: TARGET,
            parent: known.and_then(Span::id),
            EXECUTE,
            work = entry.item().addr().get(),
            function = item_type.name(),
            workqueue = entry.shard().queue().name(),
            cpu = cpu_of(pool),
            pool = pool.spec.kind.name().as_str(),
        );
        if !span.is_disabled() {
            // The span is stored before the subscriber enters it, because the subscriber may panic while it enters the
            // span.
            let span: &Span = entered.insert(Box::new(span));
            span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        }
    });
    parent.keep();
    entered
}

#[cfg(feature = "tracing")]
#[cold]
fn end(span: Option<Box<Span>>, entry: &Entry, item_type: &'static ItemType, pool: &Pool, panicked: bool) {
    if let Some(span) = span {
        // The exit and the drop are two separate calls, because each runs the subscriber's code, which may panic.
        told(|| {
            span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
        });
        told(|| drop(span));
    }
    Parent::default().keep();
    tell!(TRACE, "execute_end", {
        work = entry.item().addr().get(),
        function = item_type.name(),
        workqueue = entry.shard().queue().name(),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
        panicked,
    });
}

/// Reports that a pool has called the rescuer of this queue, because the pool can get no worker.
pub(super) fn mayday(workqueue: &str, pool: &Pool) {
    tell!(DEBUG, "mayday", {
        workqueue,
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
        pending = pool.pending(),
    });
}

/// Reports that a rescuer has taken an item from this pool, and is about to execute the item.
pub(super) fn rescued(entry: &Entry, pool: &Pool) {
    tell!(DEBUG, "rescued", {
        work = entry.item().addr().get(),
        function = entry.item_type().name(),
        workqueue = entry.shard().queue().name(),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
    });
}

/// Reports a finding of the manager about a worker's item, after the manager has acted on the finding.
pub(super) fn found(pool: &Pool, worker: &Worker, item_type: &'static str, found: Found) {
    #[cfg(feature = "tracing")]
    match found.finding {
        Finding::Asleep => blocked(pool, worker, item_type, found, "undeclared"),
        Finding::Blocks => blocked(pool, worker, item_type, found, "may_block"),
        Finding::Hog => cpu_intensive(pool, worker, item_type, found),
        Finding::Runs => {}
    }
}

#[cfg(feature = "tracing")]
fn blocked(pool: &Pool, worker: &Worker, item_type: &'static str, found: Found, how: &str) {
    tell!(DEBUG, "blocked", {
        function = item_type,
        workqueue = worker.queue_name(found.seen),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
        thread = worker.name(),
        how,
    });
}

#[cfg(feature = "tracing")]
fn cpu_intensive(pool: &Pool, worker: &Worker, item_type: &'static str, found: Found) {
    tell!(DEBUG, "cpu_intensive", {
        function = item_type,
        workqueue = worker.queue_name(found.seen),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
        thread = worker.name(),
        threshold_us = pool.core.settings.hog_threshold.map(|threshold| threshold.as_micros() as u64),
    });
}

/// Returns the CPU that a pool serves, or `None` if the pool serves a pod.
#[cfg(feature = "tracing")]
fn cpu_of(pool: &Pool) -> Option<usize> {
    match pool.spec.kind {
        PoolKind::PerCpu { cpu, .. } | PoolKind::Bh { cpu, .. } => Some(cpu),
        PoolKind::Unbound { .. } => None,
    }
}
