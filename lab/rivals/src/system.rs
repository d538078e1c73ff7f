//! The system's figures about this process. Figures that the system does not report are not shown.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// The resources that this process or thread has used so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    /// How often a thread left its CPU because it had to wait. `involuntary` is how often another thread took the CPU.
    pub(crate) voluntary: f64,
    pub(crate) involuntary: f64,
}

impl Usage {
    pub(crate) fn of_process() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn of_this_thread() -> Self {
        Self::of(UsageWho::RUSAGE_THREAD)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of_this_thread() -> Self {
        Self::default()
    }

    fn of(whom: UsageWho) -> Self {
        let Ok(usage) = getrusage(whom) else { return Self::default() };
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Self {
            cpu_seconds: seconds(usage.user_time()) + seconds(usage.system_time()),
            voluntary: usage.voluntary_context_switches() as f64,
            involuntary: usage.involuntary_context_switches() as f64,
        }
    }

    /// Subtracts the other usage, down to 0. The system counts in steps, so the usage of a part may exceed the usage of
    /// the whole.
    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            cpu_seconds: (self.cpu_seconds - other.cpu_seconds).max(0.0),
            voluntary: (self.voluntary - other.voluntary).max(0.0),
            involuntary: (self.involuntary - other.involuntary).max(0.0),
        }
    }
}

/// A part of this process's memory.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// The peak of all memory in use.
    Peak,
    /// The present memory that is not shared. It contains no files, programs or libraries.
    Anonymous,
}

/// Returns the memory in megabytes.
pub(crate) fn memory(which: Memory) -> Option<f64> {
    let name = match which {
        Memory::Peak => "VmHWM:",
        Memory::Anonymous => "RssAnon:",
    };
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?;
    Some(kilobytes.parse::<f64>().ok()? / 1024.0)
}

/// Returns the number of threads, from the number of links of a folder. The folder has a link for each thread, and two
/// more. Reading the number must be cheap, because the sleeper reads it each time it wakes up.
#[cfg(target_os = "linux")]
pub(crate) fn threads() -> Option<usize> {
    use std::os::unix::fs::MetadataExt;

    let links = fs::metadata("/proc/self/task").ok()?.nlink();
    usize::try_from(links).ok()?.checked_sub(2)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn threads() -> Option<usize> {
    None
}

/// Binds the calling thread to one of the CPUs that it may use, chosen by this number.
#[cfg(target_os = "linux")]
pub(crate) fn pin(number: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut one = CpuSet::new();
    one.set(cpus[number % cpus.len()]);
    // If binding is not permitted, the thread stays unbound, as on other systems.
    let _ = sched_setaffinity(None, &one);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_number: usize) {}
