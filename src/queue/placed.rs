//! Queueing on a CPU or NUMA node that the caller chooses.

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::refusal::QueueError;
use crate::error::Refused;
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::work::Work;

/// The caller chooses the CPU or node by its number in the executor's topology. On Linux, the topology of the machine
/// has the system's numbers.
///
/// A per-CPU or bh queue runs the item on this CPU. An unbound queue runs the item in the pod of this CPU.
impl WorkQueue {
    /// Queues a reusable item as [`queue`](Self::queue) does, but on the CPU `cpu`.
    ///
    /// If the executor does not use this CPU, a CPU near it serves the item. This is a CPU of the same core, or else of
    /// the same cache, the same node or the machine. A given CPU is always replaced by the same CPU.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, QueueError, Work, WorkQueue};
    ///
    /// let queue = WorkQueue::per_cpu("statistics").build()?;
    /// let count = Work::new(|| println!("counting on {:?}", std::thread::current().name()));
    /// let last = Executor::global().cpus().iter().last().unwrap();
    /// queue.queue_on(last, &count)?;
    /// assert_eq!(queue.queue_on(1 << 20, &count), Err(QueueError::UnknownCpu { cpu: 1 << 20 }));
    /// # queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::UnknownCpu`] if the topology has no such CPU, or an error of [`queue`](Self::queue).
    #[doc(alias = "queue_work_on")]
    #[doc(alias = "schedule_work_on")]
    pub fn queue_on(&self, cpu: usize, work: &Work) -> Result<bool, QueueError> {
        let place = self.executor().place_on_cpu(cpu)?;
        self.handle.queue().queue(place, &work.item)
    }

    /// Queues a closure as [`spawn`](Self::spawn) does, but on the CPU `cpu`. If the executor does not use this CPU, a
    /// CPU near it serves the item: see [`queue_on`](Self::queue_on).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, WorkQueue};
    ///
    /// let queue = WorkQueue::per_cpu("statistics").build()?;
    /// let counts = Executor::global().cpus().iter().map(|cpu| queue.spawn_on(cpu, move || cpu));
    /// let counts = counts.collect::<Result<Vec<_>, _>>()?;
    /// let cpus: usize = counts.into_iter().map(|count| count.join()).sum::<Result<_, _>>()?;
    /// assert_eq!(cpus, Executor::global().cpus().iter().sum::<usize>());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::UnknownCpu`] if the topology has no such CPU, or an error of [`spawn`](Self::spawn). All
    /// errors return the closure.
    #[doc(alias = "queue_work_on")]
    pub fn spawn_on<F, T>(&self, cpu: usize, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.executor().place_on_cpu(cpu) {
            Ok(place) => self.spawn_at(place, closure),
            Err(error) => Err(Refused::new(error, closure)),
        }
    }

    /// Queues a reusable item as [`queue`](Self::queue) does, but on a CPU of the NUMA node `node`. The item is queued
    /// on the caller's CPU if that CPU belongs to the node. Otherwise, successive calls use the node's CPUs one after
    /// the other. If the executor uses none of the node's CPUs, the item is queued on the caller's CPU.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{AffinityScope, Attrs, Executor, TopologySource, Work, WorkQueue};
    ///
    /// let two_nodes = TopologySource::Synthetic("numa:2 core:4 pu:1".into());
    /// let executor = Executor::builder().topology(two_nodes).build()?;
    /// let queue = WorkQueue::new("tables").attrs(Attrs::new().scope(AffinityScope::Numa)).build_on(&executor)?;
    /// let compact = Work::new(|| println!("near the memory of node 1"));
    /// assert!(queue.queue_on_node(1, &compact)?);
    /// assert!(queue.queue_on_node(2, &compact).is_err(), "there is none");
    /// # queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::UnknownNode`] if the topology has no CPU of such a node, or an error of
    /// [`queue`](Self::queue).
    #[doc(alias = "queue_work_node")]
    pub fn queue_on_node(&self, node: usize, work: &Work) -> Result<bool, QueueError> {
        let place = self.executor().place_on_node(node)?;
        self.handle.queue().queue(place, &work.item)
    }

    /// Queues a closure as [`spawn`](Self::spawn) does, but on a CPU of the NUMA node `node`, which is chosen as in
    /// [`queue_on_node`](Self::queue_on_node).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, TopologySource, WorkQueue};
    ///
    /// let two_nodes = TopologySource::Synthetic("numa:2 core:4 pu:1".into());
    /// let executor = Executor::builder().topology(two_nodes).build()?;
    /// let queue = WorkQueue::new("tables").build_on(&executor)?;
    /// let table = queue.spawn_on_node(1, || vec![0u8; 4096])?; // In the memory of node 1, where it is first touched.
    /// assert_eq!(table.join()?.len(), 4096);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::UnknownNode`] if the topology has no CPU of such a node, or an error of
    /// [`spawn`](Self::spawn). All errors return the closure.
    #[doc(alias = "queue_work_node")]
    pub fn spawn_on_node<F, T>(&self, node: usize, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.executor().place_on_node(node) {
            Ok(place) => self.spawn_at(place, closure),
            Err(error) => Err(Refused::new(error, closure)),
        }
    }

    pub(super) fn executor(&self) -> &ExecutorInner {
        &self.handle.queue().executor
    }
}
