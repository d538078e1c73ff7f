//! What a queue's submissions carry into their runs.

use crate::engine::carrier::Carrier;
use crate::queue::builder::WorkQueueBuilder;

impl WorkQueueBuilder {
    /// Sets a hook that makes what is current for an issuer current in the item: the id of a request, a tenant, a
    /// tracing span, or any other thread-local value.
    ///
    /// At each submission, the issuer calls `capture`, which reads the current values and returns a function. The worker
    /// calls this function directly before the item's own function, and drops its result directly after the item's
    /// function has returned or panicked. So the function makes the values current, and the drop of its result restores
    /// the former values. What the item submits carries the same values on.
    ///
    /// If the hook is set several times, all hooks apply, in the order in which they were set. The hooks of the executor
    /// ([`ExecutorBuilder::carry`](crate::ExecutorBuilder::carry)) come first. The results are dropped in the reverse
    /// order. By default, there is no hook, and a submission carries nothing.
    ///
    /// * A reusable item carries what was current at the submission that made it pending. What a
    ///   submission that coalesces has captured is dropped. [`reschedule`](crate::Submission::reschedule) captures anew.
    /// * A delayed item carries what was current when it was submitted. A tick of a periodic item carries what was
    ///   current in the tick before it, and the first tick what was current for the issuer.
    /// * A submission that is refused or cancelled drops what it has captured.
    /// * If the hook panics, or the function that it has returned, the item runs without these values.
    /// * What `capture` itself submits carries nothing.
    /// * A hook that owns a handle to its own queue keeps the queue for ever.
    ///
    /// With a hook, a submission costs three allocations, the run up to two, and both cost the calls. With the feature `tracing`, the function
    /// `cmwq::trace::current_span` is a ready hook.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::cell::Cell;
    ///
    /// thread_local!(static REQUEST: Cell<u64> = const { Cell::new(0) });
    ///
    /// /// Makes a request current until it is dropped.
    /// struct InRequest { former: u64 }
    ///
    /// impl InRequest {
    ///     fn enter(id: u64) -> Self {
    ///         Self { former: REQUEST.replace(id) }
    ///     }
    /// }
    ///
    /// impl Drop for InRequest {
    ///     fn drop(&mut self) {
    ///         REQUEST.set(self.former);
    ///     }
    /// }
    ///
    /// let capture = || {
    ///     let id = REQUEST.get();
    ///     move || InRequest::enter(id)
    /// };
    /// let queue = cmwq::WorkQueue::builder("mails").carry(capture).build()?;
    /// let _request = InRequest::enter(17);
    /// assert_eq!(queue.spawn(|| REQUEST.get())?.join()?, 17);
    /// # Ok(())
    /// # }
    /// ```
    pub fn carry<E, G>(mut self, capture: impl Fn() -> E + Send + Sync + 'static) -> Self
    where
        E: FnOnce() -> G + Send + 'static,
        G: 'static,
    {
        self.carriers.push(Carrier::new(capture));
        self
    }
}
