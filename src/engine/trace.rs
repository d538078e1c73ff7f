//! The events and spans for `tracing`. Without the feature `tracing`, the functions of this module are empty.
//!
//! A subscriber is user code. So these functions call the subscriber only while the thread holds no lock of this crate,
//! and they contain the subscriber's panics. If the subscriber itself uses this crate during such a call, its actions
//! are not reported. Before a function builds an event, it checks whether a subscriber listens.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "there is no subscriber"))]

#[cfg(feature = "tracing")]
use std::cell::Cell;
use std::ptr::NonNull;

#[cfg(feature = "tracing")]
use tracing::{Level, Span};

use crate::policy::blocking_detector::Found;
#[cfg(feature = "tracing")]
use crate::policy::worker::Finding;

use super::item::entry::{Entry, Header, ItemType};
#[cfg(feature = "tracing")]
use super::pool::spec::PoolKind;
use super::pool::worker_pool::Pool;
use super::queue::shard::Shard;
#[cfg(feature = "tracing")]
use super::user_code;
use super::worker::shared::Worker;

/// The target of all events and of the span: `cmwq`.
#[cfg(feature = "tracing")]
pub const TARGET: &str = "cmwq";

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

#[cfg(feature = "tracing")]
thread_local! {
    /// Whether a function of this module is calling a subscriber on this thread.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a subscriber might listen to events of this level.
#[cfg(feature = "tracing")]
#[inline]
fn is_on(level: Level) -> bool {
    level <= tracing::level_filters::STATIC_MAX_LEVEL
        && level <= tracing::level_filters::LevelFilter::current()
}

/// Calls the subscriber, unless this thread is already inside such a call.
#[cfg(feature = "tracing")]
#[cold]
fn told(tell: impl FnOnce()) {
    TELLING.with(|telling| {
        if !telling.replace(true) {
            user_code::call(tell);
            telling.set(false);
        }
    });
}

/// Returns whether a subscriber might listen to the events of an item that is queued. The issuer calls this once,
/// before it reports the item's events.
#[inline]
pub(super) fn listens() -> bool {
    #[cfg(feature = "tracing")]
    return is_on(Level::TRACE);
    #[cfg(not(feature = "tracing"))]
    false
}

/// Reports that an item is queued. The item might still have to wait for a slot of its limiter. `named` is the slot of
/// the CPU that the issuer named, if any.
#[cold]
pub(super) fn queue_work(
    item: NonNull<Header>,
    item_type: &'static ItemType,
    shard: &Shard,
    named: Option<usize>,
) {
    tell!(TRACE, "queue_work", {
        work = item.addr().get(),
        function = item_type.name(),
        workqueue = shard.queue().name(),
        req_cpu = named.map(|slot| shard.queue().executor.placement.slot_info(slot).cpu),
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
    /// The span, which the calling thread has entered. `Some(None)` if the subscriber listened, but not to spans. The
    /// span is boxed, so that this struct is small while no subscriber listens.
    #[cfg(feature = "tracing")]
    span: Option<Option<Box<Span>>>,
}

/// Reports that a worker of this pool, or a rescuer that serves the pool, begins an item.
#[inline]
pub(super) fn execute_start(entry: &Entry, item_type: &'static ItemType, pool: &Pool) -> Execution {
    Execution {
        #[cfg(feature = "tracing")]
        span: if is_on(Level::TRACE) { Some(start(entry, item_type, pool)) } else { None },
    }
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
fn start(entry: &Entry, item_type: &'static ItemType, pool: &Pool) -> Option<Box<Span>> {
    tell!(TRACE, "execute_start", {
        work = entry.item().addr().get(),
        function = item_type.name(),
        workqueue = entry.shard().queue().name(),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
    });
    let mut entered = None;
    told(|| {
        // The span has no parent, because an earlier item may have left a span entered on this thread.
        let span = tracing::trace_span!(
            target: TARGET,
            parent: None,
            "execute",
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
    tell!(TRACE, "execute_end", {
        work = entry.item().addr().get(),
        function = item_type.name(),
        workqueue = entry.shard().queue().name(),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
        panicked,
    });
}

/// Reports that a pool that can get no worker has called the rescuer of this queue.
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

/// Reports a finding of the manager about a worker's item, after the finding was carried out.
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
