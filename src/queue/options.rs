//! The options that submissions of one item and of many items have in common.

use std::time::Duration;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::item::place::Place;
use crate::engine::item::with_options::Name;
use crate::engine::refusal::QueueError;

/// The CPU or node that the caller has chosen for the items.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Target {
    #[default]
    Here,
    Cpu(usize),
    Node(usize),
}

/// The options that submissions of one item and of many items have in common.
#[derive(Clone, Default, Debug)]
pub(super) struct Options {
    target: Target,
    pub(super) after: Option<Duration>,
    pub(super) name: Option<Name>,
}

impl Options {
    /// Returns the [`Place`] (which CPU) for the items.
    pub(super) fn place(&self, executor: &ExecutorInner) -> Result<Place, QueueError> {
        match self.target {
            Target::Here => Ok(Place::Here),
            Target::Cpu(cpu) => executor.place_on_cpu(cpu),
            Target::Node(node) => executor.place_on_node(node),
        }
    }

    pub(super) fn cpu(&mut self, cpu: usize) {
        self.target = Target::Cpu(cpu);
    }

    pub(super) fn node(&mut self, node: usize) {
        self.target = Target::Node(node);
    }

    pub(super) fn delay_by(&mut self, delay: Duration) {
        self.after = Some(delay);
    }

    /// Returns the delay, which is zero if the caller has set none.
    pub(super) fn delay(&self) -> Duration {
        self.after.unwrap_or_default()
    }
}

/// Defines the options as methods of a type with a field `options`. `$item` names the submitted item or items. In the
/// examples, `$begin` begins a submission, and `$end` ends it.
macro_rules! options {
    ($item:literal, $begin:literal, $end:literal) => {
        #[doc = concat!("Submits ", $item, " on the CPU `cpu`, instead of the caller's. A per-CPU queue runs it on this")]
        /// CPU, and an unbound queue runs it in the pod of this CPU (the group of CPUs that share a pool with it). This
        /// option replaces an earlier [`on_node`](Self::on_node).
        ///
        /// `cpu` is the number of the CPU in the executor's topology. On Linux, the topology of the machine numbers
        /// CPUs as the system does. If the executor does not use this CPU, a CPU near it takes its place. The
        /// replacement is on the same core as `cpu` if possible, or else on the same cache, on the same node, or
        /// anywhere on the machine. A given CPU is always replaced by the same CPU. If the topology has no CPU with
        /// this number, the method that ends the submission returns
        /// [`QueueError::UnknownCpu`](crate::QueueError::UnknownCpu).
        ///
        /// # Examples
        ///
        /// ```
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let queue = cmwq::WorkQueue::per_cpu("statistics").build()?;
        /// let last = cmwq::Executor::global().cpus().iter().last().unwrap();
        #[doc = concat!("let submission = queue.", $begin, ".on_cpu(last);")]
        #[doc = concat!("submission.", $end, "?;")]
        /// # queue.flush()?;
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "queue_on")]
        #[doc(alias = "spawn_on")]
        #[doc(alias = "queue_work_on")]
        #[doc(alias = "schedule_work_on")]
        #[doc(alias = "queue_delayed_work_on")]
        #[doc(alias = "mod_delayed_work_on")]
        #[doc(alias = "work_on_cpu")]
        pub fn on_cpu(mut self, cpu: usize) -> Self {
            self.options.cpu(cpu);
            self
        }

        #[doc = concat!("Submits ", $item, " on a CPU of the NUMA node `node`: on the caller's CPU if that CPU belongs")]
        /// to the node. If the caller's CPU belongs to another node, successive submissions use the CPUs of `node` one
        /// after the other. If the executor uses none of the node's CPUs, this option has no effect. This option
        /// replaces an earlier [`on_cpu`](Self::on_cpu). If the topology has no CPU of a node with this number, the
        /// method that ends the submission returns [`QueueError::UnknownNode`](crate::QueueError::UnknownNode).
        ///
        /// # Examples
        ///
        /// ```
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// use cmwq::{Executor, TopologySource, WorkQueue};
        ///
        /// let two_nodes = TopologySource::Synthetic("numa:2 core:4 pu:1".into());
        /// let executor = Executor::builder().topology(two_nodes).build()?;
        /// let queue = WorkQueue::builder("tables").build_on(&executor)?;
        #[doc = concat!("let submission = queue.", $begin, ".on_node(1);")]
        #[doc = concat!("submission.", $end, "?;")]
        /// # queue.flush()?;
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "queue_on_node")]
        #[doc(alias = "spawn_on_node")]
        #[doc(alias = "queue_work_node")]
        pub fn on_node(mut self, node: usize) -> Self {
            self.options.node(node);
            self
        }

        #[doc = concat!("Submits ", $item, " after `delay`, no earlier. Items with equal deadlines are queued in the order")]
        /// of their submissions. (Here, an item's deadline is the end of its delay.) If the delay is zero, which is the
        /// default, an item is queued immediately.
        ///
        /// During its delay, an item is pending but not queued. So a [`flush`](WorkQueue::flush) of the queue does not
        /// wait for the item, and [`max_pending`](crate::WorkQueueBuilder::max_pending) does not count it. When the
        /// delay has ended, the item is queued even if the queue is full. An armed timer keeps the queue and the item
        /// alive. Arming a timer costs O(log n) for n armed timers.
        ///
        /// # Examples
        ///
        /// ```
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// use std::time::Duration;
        ///
        /// let queue = cmwq::WorkQueue::new("reminders");
        #[doc = concat!("let submission = queue.", $begin, ".after(Duration::from_millis(5));")]
        #[doc = concat!("submission.", $end, "?;")]
        /// # queue.flush()?;
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "spawn_after")]
        #[doc(alias = "queue_delayed")]
        #[doc(alias = "queue_delayed_work")]
        #[doc(alias = "schedule_delayed_work")]
        pub fn after(mut self, delay: Duration) -> Self {
            self.options.delay_by(delay);
            self
        }
    };
}
pub(super) use options;
