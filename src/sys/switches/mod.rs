//! Records of when a thread of this process gets a CPU and gives it away, written by the scheduler.
//!
//! * `Ring::attach(thread, runs) -> io::Result<Ring>`: the switches of `thread` are recorded from now on. `runs` is
//!   whether it runs at the moment, as far as the caller knows: one that waits for the caller's own CPU does not. If it
//!   is wrong, the first sleep may go unnoticed, or the thread's getting a CPU may wake a listener. Fails if the system
//!   does not permit it, has no such records, or has no more descriptors or memory that may be locked.
//! * `Ring::drain(tell) -> io::Result<()>`: takes out the records since the last call, in order.
//! * `Ring::is_awake_on() -> Option<usize>`: the CPU of the last record, unless it is of a sleep. `None` also if there
//!   is no record so far, or one after it was lost. The answer is of the last `drain`.
//! * `Ring::is_primed()`: a thread that waits for the ring's descriptor will be woken when the recorded thread next
//!   gives its CPU away. While it is false, that may go unnoticed. Then the caller looks at the thread's state, and
//!   drains the ring, once after attaching and then about every millisecond.
//! * `Ring::is_over()`: a listener has seen that the thread has ended.
//! * `permitted() -> io::Result<Readiness>`: whether the calling thread could attach now. As long as the `Readiness`
//!   exists, attaching is quick. A system on which no thread is recorded needs milliseconds to begin.
//!
//! A ring wakes a listener (see [`Pause`](super::pause::Pause)) when the thread gives its CPU away, and not when it
//! gets one. A thread that already sleeps when it is attached leaves no record: look at its state once.
//!
//! A forked process inherits the descriptors, up to two for each ring and one of `Readiness`, but not the mappings. It
//! keeps them until it ends or executes another program. `Readiness` holds an event of the thread that asked for it.
//!
//! The portable version has no such records.

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod parity;
#[cfg(any(test, cmwq_portable, not(target_os = "linux")))]
#[cfg_attr(test, allow(dead_code, reason = "a type without values cannot be used in a test"))]
mod portable;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
pub(crate) use linux::{Readiness, Ring, permitted};
#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
pub(crate) use portable::{Readiness, Ring, permitted};

/// An event of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Switch {
    /// It waits for something.
    Slept,
    /// Its CPU was given to another thread; it could go on.
    Preempted,
    /// It has a CPU.
    Resumed,
}
