//! The error for a closure that a queue refused. The error hands the closure back.
#![allow(unsafe_code, reason = "a closure that only its owner can reach may be shared between threads")]

use std::fmt;

use crate::engine::refusal::QueueError;

/// The error for a one-shot (an item that runs once) that a queue did not accept. The error [gives the closure
/// back](Self::into_closure). The error is `Send` and `Sync` if the closure is `Send`, so `?` turns it into an error
/// type such as `anyhow::Error` or `Box<dyn Error + Send + Sync>`, and into a [`QueueError`]. Even a queue without
/// `max_pending` refuses items while a hundred million items wait for a slot (see [`QueueError::Full`]).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{QueueError, WorkQueue};
/// use std::sync::mpsc;
///
/// let queue = WorkQueue::ordered("one at a time").max_pending(1).build()?;
/// let (release, wait) = mpsc::channel::<()>();
/// let (began, has_begun) = mpsc::channel();
/// let busy = queue.spawn(move || {
///     began.send(()).unwrap();
///     cmwq::blocking(|| wait.recv())
/// })?;
/// has_begun.recv()?;
/// let second = queue.spawn(|| ())?;
/// let refused = queue.spawn(|| "third").unwrap_err();
/// assert_eq!(refused.error, QueueError::Full);
/// assert_eq!((refused.into_closure())(), "third");
/// release.send(())?;
/// second.join()?;
/// # busy.join()?.unwrap();
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct Refused<F> {
    /// Why the one-shot was refused.
    pub error: QueueError,
    closure: ByValue<F>,
}

impl<F> Refused<F> {
    pub(crate) fn new(error: QueueError, closure: F) -> Self {
        Self { error, closure: ByValue::new(closure) }
    }

    /// Returns the closure, untouched.
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = cmwq::WorkQueue::new("closed");
    /// queue.destroy()?;
    /// let answer = match queue.spawn(|| 42) {
    ///     Ok(handle) => handle.join().unwrap(),
    ///     Err(refused) => (refused.into_closure())(), // The caller runs it.
    /// };
    /// assert_eq!(answer, 42);
    /// # Ok::<(), cmwq::WaitError>(())
    /// ```
    #[must_use]
    pub fn into_closure(self) -> F {
        self.closure.into_inner()
    }
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<F> std::error::Error for Refused<F> {}

/// Keeps the error and drops the closure. With this conversion, `?` can return an error that is `Send` and `Sync` even
/// if the closure is not.
impl<F> From<Refused<F>> for QueueError {
    fn from(refused: Refused<F>) -> Self {
        refused.error
    }
}

/// Holds a value that cannot be reached through a reference to the holder. So errors that contain closures are `Sync`,
/// even if the closures are not `Sync`.
pub(crate) struct ByValue<V>(V);

// SAFETY: a shared reference to this type gives no access to the value.
unsafe impl<V> Sync for ByValue<V> {}

impl<V> ByValue<V> {
    pub(crate) fn new(value: V) -> Self {
        Self(value)
    }

    pub(crate) fn into_inner(self) -> V {
        self.0
    }
}
