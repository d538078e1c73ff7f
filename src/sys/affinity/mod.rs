//! On which CPUs threads run.
//!
//! * `current_cpu() -> Option<usize>`: where the calling thread runs now; it may have moved when the caller
//!   looks. `None` if the system does not tell.
//! * `process_cpus() -> io::Result<CpuSet>`: the CPUs that the process may use, never empty.
//! * `watched_cpus() -> Option<CpuSet>`: the same, where threads can be bound to what has changed; else `None`.
//! * `pin_to_cpu(cpu) -> bool`: binds the calling thread to one CPU; false if the system refuses or cannot.
//! * `pin_to_set(&CpuSet) -> io::Result<()>`: binds the calling thread to a set, of which the system silently
//!   ignores CPUs that it does not have; an error if none remains.
//! * `ThreadId::current()` and `ThreadId::pin_to_set(&CpuSet) -> io::Result<()>`: the same for a thread from outside. The
//!   thread must not have ended: its number may be another one's by then, even another process's.
//!   `ThreadId::cpus() -> io::Result<CpuSet>` tells what the system has bound it to, and `ThreadId::shown() -> Option<u32>`
//!   its number, if the system has such numbers.

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
