//! The CPUs on which threads run.
//!
//! * `current_cpu() -> Option<usize>`: the CPU of the calling thread; the thread may have moved when the caller uses
//!   the answer. `None` if the system does not tell.
//! * `process_cpus() -> io::Result<CpuSet>`: the CPUs that the process may use, never empty.
//! * `watched_cpus() -> Option<CpuSet>`: the same, on systems where threads can be bound after a change; otherwise
//!   `None`.
//! * `pin_to_cpu(cpu) -> bool`: binds the calling thread to one CPU. Returns false if the system refuses or cannot.
//! * `pin_to_set(&CpuSet) -> io::Result<()>`: binds the calling thread to a set. The system silently ignores CPUs that
//!   it does not have; it is an error if none remains.
//! * `ThreadId::current()` and `ThreadId::pin_to_set(&CpuSet) -> io::Result<()>`: the same for another thread. That
//!   thread must not have ended: its number may belong to another thread by then, even of another process.
//!   `ThreadId::cpus() -> io::Result<CpuSet>` returns the CPUs to which the system has bound it, and
//!   `ThreadId::shown() -> Option<u32>` its number, if the system has such numbers.

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
#[cfg(any(test, cmwq_portable, not(target_os = "linux")))]
mod portable;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
pub(super) use linux::Mask;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
pub(crate) use linux::{ThreadId, current_cpu, pin_to_cpu, pin_to_set, process_cpus, watched_cpus};
#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
pub(crate) use portable::{ThreadId, current_cpu, pin_to_cpu, pin_to_set, process_cpus, watched_cpus};
