//! The hook that carries values from a queue's submissions into the runs of the items.

use crate::engine::carrier::Carrier;
use crate::queue::builder::WorkQueueBuilder;

impl WorkQueueBuilder {
    /// Sets a hook that carries thread-local values of the issuer (the thread that submits an item) into the item's
    /// run. Such a value may be the id of a request, a tenant, or a tracing span.
    ///
    /// At each submission, the issuer calls `capture`, which reads the current values and returns a function. The
    /// worker calls this function directly before the item's own function. The worker drops the result of the returned
    /// function directly after the item's own function has returned or panicked. So the returned function should make
    /// the captured values current, and the drop of its result should restore the former values. If the item submits
    /// further items during its run, these items get the same values.
    ///
    /// If several hooks are set, all of them apply, in the order in which they were set. The hooks of the executor
    /// ([`ExecutorBuilder::carry`](crate::ExecutorBuilder::carry)) come first. After the run, the worker drops the
    /// hooks' results in the reverse order. By default, there is no hook, and a submission carries nothing.
    ///
    /// * A reusable item carries the values of the submission that made it pending. If the item is pending already, a
    ///   further submission drops the values that this submission itself has captured.
    ///   [`reschedule`](crate::Submission::reschedule) captures new values for the pending run.
    /// * A delayed item carries the values that were current when it was submitted. The first tick of a periodic item
    ///   carries the issuer's values. Each later tick carries the values of the tick before it.
    /// * A submission that is refused or cancelled drops its captured values.
    /// * If the hook or the function that it has returned panics, the item runs without the values of this hook.
    /// * Items that `capture` itself submits carry nothing.
    /// * If a hook owns a handle to its own queue, the queue stays in memory for ever.
    ///
    /// A hook costs three allocations per submission (four for the submission of a closure), up to two allocations per
    /// run, and the time of its calls. With the feature `tracing`, the function `cmwq::trace::current_span` can be
    /// used as a hook.
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
