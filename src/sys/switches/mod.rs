//! Records of when a thread of this process gets a CPU and gives it away, written by the scheduler itself.
//!
//! * `Ring::attach(thread) -> io::Result<Ring>`: from now on, what `thread` does is recorded. Fails if the system does
//!   not permit it, has no such records, or runs out of descriptors or of memory that may be locked.
//! * `Ring::drain(tell) -> io::Result<()>`: takes out what was recorded since, in order.
//! * `Ring::is_primed()`: whoever waits for the ring's descriptor will be woken when the thread next gives its CPU away. As
//!   long as it is not so, that may go unnoticed: the caller looks at the thread's state, and drains, once after
//!   attaching and then every millisecond or so.
//! * `Ring::is_over()`: the thread has ended, as somebody has seen who waited.
//! * `permitted() -> io::Result<Readiness>`: would attaching work, for the calling thread, now? As long as the answer is kept,
//!   attaching is quick: a system that records switches of nobody needs milliseconds to begin with it.
//!
//! A ring wakes whoever waits for its descriptor (with [`Bell`](super::bell)) when the thread gives its CPU away, and not
//! when it gets one. A thread that sleeps already when it is attached to leaves no record: look at its state once.
//!
//! A forked process inherits the descriptors, up to two for each ring and one of `Readiness`, but not the mappings. It
//! keeps them until it ends or executes another program. `Readiness` holds an event of the thread that asked for it.
//!
//! The portable version knows no such records.

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod parity;
#[cfg(any(test, cmwq_portable, not(target_os = "linux")))]
#[cfg_attr(test, allow(dead_code, reason = "what cannot be made cannot be used in a test"))]
mod portable;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
pub(crate) use linux::{Readiness, Ring, permitted};
#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
pub(crate) use portable::{Readiness, Ring, permitted};

/// What happened to a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Switch {
    /// It waits for something.
    Slept,
    /// Its CPU was given to another thread; it would go on.
    Preempted,
    /// It has a CPU.
    Resumed,
}
