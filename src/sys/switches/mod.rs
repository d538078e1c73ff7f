//! Records that the scheduler writes when a thread of this process gets a CPU or gives its CPU away.
//!
//! * `Ring::attach(thread, runs) -> io::Result<Ring>`: records the switches of `thread` from now on. `runs` says
//!   whether the caller believes that the thread is running now. A thread that waits for the caller's own CPU is not
//!   running. If `runs` is wrong, the thread's first sleep may go unnoticed, or a listener may be woken when the thread
//!   gets a CPU. The call fails if the system does not know records of switches, or does not permit such records. The
//!   call also fails if no descriptor or no lockable memory is left.
//! * `Ring::drain(tell) -> io::Result<()>`: removes the records that were written since the last call, and passes them
//!   to `tell` in order.
//! * `Ring::is_awake_on() -> Option<usize>`: the CPU of the last record, or `None` if the last record says that the
//!   thread began to sleep. The result is also `None` if there is no record so far, or if a later record may have been
//!   lost. The result describes the thread at the time of the last `drain`.
//! * `Ring::is_primed()`: whether a thread that waits for the ring's descriptor will be woken when the recorded thread
//!   next gives its CPU away. While `is_primed` returns false, the recorded thread's next sleep may go unnoticed. Until
//!   `is_primed` returns true, the caller must read the thread's state and drain the ring, once after attaching and
//!   then about every millisecond.
//! * `Ring::is_over()`: whether a listener has seen that the thread has ended.
//! * `permitted() -> io::Result<Readiness>`: succeeds if the calling thread could attach a ring to a thread now. As
//!   long as the `Readiness` exists, attaching is quick. Without a `Readiness`, a system that records no thread needs
//!   milliseconds for the first attachment.
//!
//! A ring wakes a listener (see [`Pause`](super::pause::Pause)) when the thread gives its CPU away, but not when the
//! thread gets a CPU. If a thread already sleeps when its ring is attached, this sleep leaves no record. So the caller
//! must read the thread's state once after attaching the ring.
//!
//! A forked process inherits the rings' descriptors, but not their mappings. The forked process inherits up to two
//! descriptors for each ring and one for each `Readiness`, and keeps them until it ends or executes another program. A
//! `Readiness` holds an event of the thread that called `permitted`.
//!
//! The portable version records no switches.

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

/// A context switch of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Switch {
    /// The thread gave its CPU away to wait for something.
    Slept,
    /// The system gave the thread's CPU to another thread, although the thread could go on.
    Preempted,
    /// The thread got a CPU.
    Resumed,
}
