//! The hook that carries values from a submission into the run of its item, for all queues of an executor.

use crate::engine::carrier::Carrier;
use crate::executor::builder::ExecutorBuilder;

impl ExecutorBuilder {
    /// Sets a hook that carries thread-local values of an issuer (a thread that submits items) into its items. The hook
    /// applies to all queues of the executor. [`WorkQueueBuilder::carry`](crate::WorkQueueBuilder::carry) describes
    /// such hooks, and sets a hook for a single queue. By default, there is no hook.
    ///
    /// See [`on_thread_start`](Self::on_thread_start) for the values that a hook must not own.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::cell::Cell;
    ///
    /// thread_local!(static TENANT: Cell<u32> = const { Cell::new(0) });
    ///
    /// let capture = || {
    ///     let tenant = TENANT.get();
    ///     move || TENANT.set(tenant) // Each item sets its own tenant, so nothing is restored.
    /// };
    /// let executor = cmwq::Executor::builder().carry(capture).build()?;
    /// let queue = cmwq::WorkQueue::builder("invoices").build_on(&executor)?;
    /// TENANT.set(3);
    /// assert_eq!(queue.spawn(|| TENANT.get())?.join()?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn carry<E, G>(mut self, capture: impl Fn() -> E + Send + Sync + 'static) -> Self
    where
        E: FnOnce() -> G + Send + 'static,
        G: 'static,
    {
        self.hooks.carriers.push(Carrier::new(capture));
        self
    }
}
