//! How submissions carry values into runs. A value that is current when an item is submitted, such as a request's id or
//! a span, is current again while the item runs.
//!
//! A [`Carrier`](crate::engine::carrier::Carrier) is a hook of the user. The issuer calls it before the item is
//! admitted. The hook returns a function that makes the captured values current again. This function is kept beside the
//! closure of a one-shot, or in the slow-path state of a reusable item. The worker calls it directly before the item's
//! function, and drops its result directly after the item's function has returned or panicked. Meanwhile the worker has
//! entered the item's token.
//!
//! If a hook panics, the item runs without the values of this hook. A submission without carriers costs the issuer one
//! comparison, and costs the worker nothing.

use crate::engine::carrier::{Captured, Carried};
use crate::engine::queue::bytes::Ask;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::{Cancelled, QueueError};
use crate::engine::trace;
use crate::engine::trace::subscriber::Parent;

use super::closure::Closure;
use super::context;
use super::entry::ItemType;
use super::token::Token;
use super::work::WorkHandle;

impl Queue {
    /// Captures the values that a submission to this queue carries. The caller holds no lock, and has not admitted the
    /// item yet.
    #[inline]
    pub(crate) fn carried(&self) -> Option<Carried> {
        if self.carries() { self.capture(Parent::current) } else { None }
    }

    /// Captures the values that a submission of this item carries. If the item submits itself, its next run gets the
    /// parent of the present run. Otherwise the spans of a periodic item would form a chain without an end.
    #[inline]
    pub(crate) fn carried_for(&self, work: &WorkHandle) -> Option<Carried> {
        if self.carries() { self.capture_for(work) } else { None }
    }

    #[cold]
    fn capture_for(&self, work: &WorkHandle) -> Option<Carried> {
        let item = work.item().as_ptr().cast_const();
        let is_own = context::current().is_some_and(|current| std::ptr::eq(current.item, item));
        self.capture(if is_own { Parent::of_run } else { Parent::current })
    }

    #[cold]
    fn capture(&self, parent: fn() -> Parent) -> Option<Carried> {
        Captured::capture(self.carriers.as_deref().unwrap_or_default(), parent)
    }

    /// Returns whether submissions to this queue may carry values.
    #[inline]
    pub(crate) fn carries(&self) -> bool {
        self.carriers.is_some() || trace::is_heard()
    }
}

/// A closure, and the values that its submission carries.
pub(crate) struct Carrying<F> {
    /// This field is dropped first, because it may own bytes, and the destructors of carried values may wait for room.
    pub(crate) closure: F,
    pub(crate) carried: Option<Carried>,
}

impl<F: Closure<T>, T> Closure<T> for Carrying<F> {
    const ITEM_TYPE: &'static ItemType = F::ITEM_TYPE;

    fn take_bytes(&mut self, queue: &Queue, ask: Ask) -> Result<(), QueueError> {
        self.closure.take_bytes(queue, ask)
    }

    fn token(&self) -> Option<&Token> {
        self.closure.token()
    }

    fn parent(&mut self) -> Parent {
        self.carried.as_mut().map(|carried| carried.parent()).unwrap_or_default()
    }

    fn obstacle(&self) -> Option<Cancelled> {
        self.closure.obstacle()
    }

    fn call(self) -> T {
        match self.carried {
            Some(carried) => self.closure.call_carrying(*carried),
            None => self.closure.call(),
        }
    }
}
