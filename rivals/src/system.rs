//! What the system tells of this process. Where it does not, nothing is shown.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// What was used up to now.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    /// Times that a thread left its CPU because it had to wait, and because another one took it.
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

    /// What is left without the other. The system counts in steps, so that a part may be more than the whole.
    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            cpu_seconds: (self.cpu_seconds - other.cpu_seconds).max(0.0),
            voluntary: (self.voluntary - other.voluntary).max(0.0),
            involuntary: (self.involuntary - other.involuntary).max(0.0),
        }
    }
}

/// Which of this process's memory.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// All that is in use, at the time when it was most.
    Peak,
    /// What is nobody else's now: no files, programs or libraries.
    Anonymous,
}

/// In megabytes.
pub(crate) fn memory(which: Memory) -> Option<f64> {
    let name = match which {
        Memory::Peak => "VmHWM:",
        Memory::Anonymous => "RssAnon:",
    };
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?;
    Some(kilobytes.parse::<f64>().ok()? / 1024.0)
}

/// Of all CPUs since the machine was started, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct MachineTime {
    pub(crate) all: u64,
    /// In which a virtual CPU wanted to run, and its host had something else to do.
    pub(crate) stolen: u64,
}

pub(crate) fn machine_time() -> Option<MachineTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    // What follows are guests' parts of what was counted before.
    let ticks: Vec<u64> = ticks.take(8).map(|ticks| ticks.parse().ok()).collect::<Option<_>>()?;
    Some(MachineTime { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
}

/// How many threads there are. A folder has a link for each one in it and two more, which is cheap to ask for: the sleeper
/// asks every time it wakes up.
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

/// Binds the calling thread to the CPU of this number among those that it may use.
#[cfg(target_os = "linux")]
pub(crate) fn pin(number: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut one = CpuSet::new();
    one.set(cpus[number % cpus.len()]);
    // Where that is forbidden, it goes unpinned, as it does where it cannot be asked for.
    let _ = sched_setaffinity(None, &one);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_number: usize) {}
