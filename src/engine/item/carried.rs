//! Submissions can carry values from their issuer into the run of the item. A value such as a request's id or a span
//! may be current when an issuer submits an item. A value that the submission carries is current again while the item
//! runs.
//!
//! A [`Carrier`](crate::engine::carrier::Carrier) is a hook of the user. The issuer calls the hook before the item is
//! admitted. The hook returns a function that makes the captured values current again. This *enter function* is kept
//! beside the closure of a one-shot, or in the slow-path state of a reusable item. The worker calls the enter function
//! directly before the item's function, and drops the result of the enter function directly after the item's function
//! has returned or panicked. If the item has a token, the worker enters the token before it calls the enter function.
//! The worker leaves the token after it has dropped the enter function's result.
//!
//! If a hook panics, the item runs without the values of this hook. A submission without carriers costs the issuer one
//! comparison, and costs the worker nothing.

use crate::engine::carrier::{Captured, Carried};
use crate::engine::queue::workqueue::Queue;
use crate::engine::trace;
use crate::engine::trace::subscriber::Parent;

use super::context;
use super::work::WorkHandle;

impl Queue {
    /// Captures the values that a submission to this queue carries. The caller holds no lock, and has not admitted the
    /// item yet.
    #[inline]
    pub(crate) fn carried(&self) -> Option<Carried> {
        if self.carries() { self.capture(Parent::current) } else { None }
    }

    /// Captures the values that a submission of this item carries. If the item submits itself, the span of its next run
    /// gets the same parent as the span of the present run. Otherwise the spans of a periodic item would form a chain
    /// without an end.
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
