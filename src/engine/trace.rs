//! Everything that is told to `tracing`. Without the feature, these functions are empty.
//!
//! A subscriber is user code: no lock of ours is held around these calls, a panic in it is contained, and what it does that
//! would be told in turn is not. Whether anybody listens is asked before anything is put together.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "nobody is told"))]

#[cfg(feature = "tracing")]
use std::cell::Cell;
use std::ptr::NonNull;

#[cfg(feature = "tracing")]
use tracing::{Level, Span};

use crate::policy::suspect::Found;
#[cfg(feature = "tracing")]
use crate::policy::worker::Finding;

use super::entry::{Entry, Header};
use super::item_type::ItemType;
use super::pool::Pool;
#[cfg(feature = "tracing")]
use super::pool::PoolKind;
use super::shard::Shard;
#[cfg(feature = "tracing")]
use super::user_code;
use super::worker::Worker;

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
    /// A subscriber runs, called from here.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Might somebody listen to events of this level?
#[cfg(feature = "tracing")]
#[inline]
fn is_on(level: Level) -> bool {
    level <= tracing::level_filters::STATIC_MAX_LEVEL
        && level <= tracing::level_filters::LevelFilter::current()
}

/// Calls the subscriber.
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

/// Might a subscriber be called for items that are queued? Asked once before what is told of them.
#[inline]
pub(super) fn listens() -> bool {
    #[cfg(feature = "tracing")]
    return is_on(Level::TRACE);
    #[cfg(not(feature = "tracing"))]
    false
}

/// An item is queued, and may have to wait for a slot. `named`: the slot on which its issuer wants it.
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

/// An item has a slot, and goes to a worklist.
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

/// An item that is being executed, if somebody listened when it began.
#[must_use]
pub(super) struct Execution {
    /// `Some(None)`: somebody listened, and not to spans. One that is wanted was entered on the calling thread. In a box:
    /// what nobody needs is small.
    #[cfg(feature = "tracing")]
    span: Option<Option<Box<Span>>>,
}

/// A worker of this pool, or a rescuer for it, begins an item.
#[inline]
pub(super) fn execute_start(entry: &Entry, item_type: &'static ItemType, pool: &Pool) -> Execution {
    Execution {
        #[cfg(feature = "tracing")]
        span: if is_on(Level::TRACE) { Some(start(entry, item_type, pool)) } else { None },
    }
}

/// The item has ended, by a panic or not.
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
        // Whatever an item before has left entered, this one does not lie in it.
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
            // Kept first: entering it may panic.
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
        // Twice the subscriber's code, which may panic twice.
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

/// A pool that cannot have a worker has called the rescuer of this queue.
pub(super) fn mayday(workqueue: &str, pool: &Pool) {
    tell!(DEBUG, "mayday", {
        workqueue,
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
        pending = pool.pending(),
    });
}

/// A rescuer has taken an item of this pool, and executes it next.
pub(super) fn rescued(entry: &Entry, pool: &Pool) {
    tell!(DEBUG, "rescued", {
        work = entry.item().addr().get(),
        function = entry.item_type().name(),
        workqueue = entry.shard().queue().name(),
        cpu = cpu_of(pool),
        pool = pool.spec.kind.name().as_str(),
    });
}

/// What the manager has found out about a worker's item, which is of this type, was carried out.
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

/// The CPU that a pool serves, if it is one.
#[cfg(feature = "tracing")]
fn cpu_of(pool: &Pool) -> Option<usize> {
    match pool.spec.kind {
        PoolKind::PerCpu { cpu, .. } | PoolKind::Bh { cpu, .. } => Some(cpu),
        PoolKind::Unbound { .. } => None,
    }
}
