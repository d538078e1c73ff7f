//! The CPUs on which threads run, and the binding of threads to CPUs.
//!
//! * `current_cpu() -> Option<usize>`: the CPU of the calling thread. The thread may have moved to another CPU by the
//!   time the caller uses the answer. `None` if the system does not tell the CPU.
//! * `process_cpus() -> io::Result<CpuSet>`: the CPUs that the process may use, never empty.
//! * `watched_cpus() -> Option<CpuSet>`: the CPUs that the process may use, if the system lets the caller bind threads
//!   again after these CPUs have changed. `None` on other systems. The set is empty while the main thread sleeps and
//!   all of its CPUs are offline.
//! * `pin_to_cpu(cpu) -> bool`: binds the calling thread to one CPU. Returns false if the system refuses to bind the
//!   thread, or cannot bind threads.
//! * `pin_to_set(&CpuSet) -> io::Result<()>`: binds the calling thread to a set. The system silently ignores CPUs that
//!   it does not have. Returns an error if the system has no CPU of the set.
//! * `ThreadId::current()` returns the id of the calling thread. `ThreadId::pin_to_set(&CpuSet) -> io::Result<()>`
//!   binds the thread with this id to a set. The thread must not have ended before this call, because the number of a
//!   thread that has ended may belong to another thread, even to a thread of another process. `ThreadId::cpus() ->
//!   io::Result<CpuSet>` returns the CPUs to which the system has bound the thread. `ThreadId::shown() -> Option<u32>`
//!   returns the thread's number, if the system numbers its threads.

use std::num::NonZeroUsize;
use std::thread;

use crate::policy::cpu_set::CpuSet;

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

/// Returns the CPUs that the caller assumes if `process_cpus` fails. The set has as many CPUs as the process may use,
/// but at least one. The CPUs of the set are numbered from 0 on.
pub(crate) fn assumed_cpus() -> CpuSet {
    (0..thread::available_parallelism().map_or(1, NonZeroUsize::get)).collect()
}
