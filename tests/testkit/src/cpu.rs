//! Functions that use CPU time, and a function that binds a thread to a CPU.

use std::io;
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Uses this much CPU time of the calling thread. The time in which the thread is preempted does not count.
#[cfg(unix)]
pub fn burn(time: Duration) {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let end = now() + Timespec::try_from(time).expect("it is short");
    while now() < end {
        std::hint::spin_loop();
    }
}

/// Keeps a CPU busy for about this time. The time in which the thread is preempted counts.
pub fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Binds the calling thread to one CPU.
///
/// # Errors
///
/// If the system does not permit the call, or is not Linux.
#[cfg(target_os = "linux")]
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &cpus)?)
}

/// Binds the calling thread to one CPU.
///
/// # Errors
///
/// If the system does not permit the call, or is not Linux.
#[cfg(not(target_os = "linux"))]
pub fn pin(_cpu: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
