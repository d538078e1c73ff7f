//! The interface that only ports of kernel code need: the nine system queues, bh queues, freezing, power-efficient
//! queues, and calls on chosen CPUs. All parts of this interface have the kernel's semantics, and most have the
//! kernel's names. A page of the [guide](crate::guide::from_kernel) lists the kernel's names, and the differences from
//! the kernel.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::kernel::{self, ExecutorExt};
//!
//! let answer = kernel::events_unbound().spawn(|| 6 * 7)?;
//! assert_eq!(answer.join()?, 42);
//!
//! for queue in [
//!     kernel::events(),
//!     kernel::events_highpri(),
//!     kernel::events_long(),
//!     kernel::events_freezable(),
//!     kernel::events_power_efficient(),
//!     kernel::events_freezable_power_efficient(),
//!     kernel::events_bh(),
//!     kernel::events_bh_highpri(),
//! ] {
//!     queue.spawn_detached(|| println!("{:?}", cmwq::current_queue_name()))?;
//!     queue.flush()?;
//! }
//!
//! let executor = cmwq::Executor::builder().build()?;
//! let queue = kernel::bh("completions").build_on(&executor)?;
//! executor.run_on_each_cpu(|cpu| println!("CPU {cpu}"))?;
//! # drop(queue);
//! # Ok(())
//! # }
//! ```
//!
//! The functions of this module return the system queues of the [global executor](crate::Executor::global). The methods
//! of [`ExecutorExt`] return the system queues of any executor.
//!
//! | queue | its items run |
//! |---|---|
//! | [`events()`] | on the issuer's CPU |
//! | [`events_highpri()`] | on the issuer's CPU, with high priority |
//! | [`events_long()`] | on the issuer's CPU, and may take a long time |
//! | [`events_unbound()`] | near the issuer, as soon as possible |
//! | [`events_freezable()`] | as those of `events`, but not while frozen |
//! | [`events_power_efficient()`] | as those of `events`; unbound if the executor is power efficient |
//! | [`events_freezable_power_efficient()`] | as those of `events_power_efficient`, but not while frozen |
//! | [`events_bh()`], [`events_bh_highpri()`] | on the issuer's CPU, one after the other, and must not block |

mod builders;
mod executor;
mod system;

use crate::queue::WorkQueue;
use crate::queue::builder::WorkQueueBuilder;

pub use self::builders::{ExecutorBuilderExt, WorkQueueBuilderExt};
pub use self::executor::ExecutorExt;
pub use self::system::{
    events, events_bh, events_bh_highpri, events_freezable, events_freezable_power_efficient, events_highpri,
    events_long, events_power_efficient, events_unbound,
};

use self::sealed::Sealed;

mod sealed {
    /// A trait that only this crate can implement.
    pub trait Sealed {}
}

/// Returns a builder for a queue of short items that must not block and that should run soon, like the kernel's bottom
/// halves. Each CPU has one thread for bh items, and another thread for bh items of high priority. CPU 0, for example,
/// has the threads `cmwq/bh0` and `cmwq/bh0H`. All bh queues share these threads. A bh thread runs one item after the
/// other, in the order in which the items were queued on its CPU, regardless of what else runs on this CPU.
///
/// Bh queues have no concurrency management. While a bh item blocks, no other item takes its place, and all other items
/// of its thread wait. So in a bh item, blocking guards have no effect, including the guards of joins and flushes.
/// Debug builds report the use of a guard through `log`, once for each type of items. Use another kind of queue for
/// work that has to block.
///
/// A bh thread runs items in batches. The items that arrive during a batch form the next batch. After 2 ms, or after
/// the first batch and ten further batches, the thread yields its CPU to other threads once. After that, the bh thread
/// takes the next batch.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::Executor;
/// use std::sync::mpsc;
///
/// let queue = cmwq::kernel::bh("completions").build()?;
/// let (send, receive) = mpsc::channel();
/// let cpu = Executor::global().cpus().first().unwrap();
/// for n in 0..3 {
///     let send = send.clone();
///     queue.item(move || send.send(n)).on_cpu(cpu).spawn_detached()?;
/// }
/// queue.flush()?;
/// assert_eq!(receive.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "WQ_BH")]
pub fn bh(name: impl Into<String>) -> WorkQueueBuilder {
    WorkQueue::bh_builder(name.into())
}
