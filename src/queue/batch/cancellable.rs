//! Batches whose closures have tokens or a deadline.

use std::time::{Duration, Instant};

use crate::cancel::CancelToken;

use super::Batch;

/// Batches of closures that can be cancelled from outside.
impl<C: IntoIterator> Batch<'_, C> {
    /// Makes each item cancellable by `token`, as [`Submission::token`](crate::Submission::token) does. Each item gets
    /// its own token, which is a [child](CancelToken::child) of `token`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{CancelToken, JoinError, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let (queue, request) = (WorkQueue::new("parts"), CancelToken::new());
    /// request.cancel();
    /// let parts = queue.items((0..3).map(|n| move || n)).token(&request).within(Duration::from_secs(30));
    /// for part in parts.spawn()? {
    ///     assert!(matches!(part.join(), Err(JoinError::Cancelled)));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn token<T>(mut self, token: &CancelToken) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.leash.holds(token);
        self
    }

    /// Sets the time by which each item must begin, as [`Submission::deadline`](crate::Submission::deadline) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Instant;
    ///
    /// let queue = cmwq::WorkQueue::new("quotes");
    /// queue.items([|| unreachable!("it is too late"); 3]).deadline(Instant::now()).spawn_detached::<()>()?;
    /// queue.flush()?;
    /// assert_eq!(queue.counters().expired, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline<T>(mut self, deadline: Instant) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.leash.ends_at(deadline);
        self
    }

    /// Sets a [deadline](Self::deadline) that passes `time` after this call.
    pub fn within<T>(mut self, time: Duration) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.leash.ends_in(time);
        self
    }
}
