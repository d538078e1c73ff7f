//! The system's figures about the threads of this process. A figure is `None` if the system does not report it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the CPU time of the thread with this name.
pub(crate) fn cpu_time(name: &str) -> Option<Duration> {
    let thread = threads()?.find(|thread| name_of(thread).as_deref() == Some(name))?;
    // The first field is the time on a CPU in nanoseconds. The file `stat` counts only in hundredths of a second.
    let statistics = fs::read_to_string(thread.join("schedstat")).ok()?;
    Some(Duration::from_nanos(statistics.split(' ').next()?.parse().ok()?))
}

/// Returns how often the threads whose names have this prefix have left a CPU, voluntarily or not.
pub(crate) fn switches(prefix: &str) -> Option<u64> {
    let ours = threads()?.filter(|thread| name_of(thread).is_some_and(|name| name.starts_with(prefix)));
    ours.map(|thread| {
        let status = fs::read_to_string(thread.join("status")).ok()?;
        let field = |name: &str| -> Option<u64> {
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim().parse().ok()
        };
        Some(field("voluntary_ctxt_switches")? + field("nonvoluntary_ctxt_switches")?)
    })
    .sum()
}

/// Returns the time of all CPUs, and the idle part of it, in seconds.
pub(crate) fn machine() -> Option<(f64, f64)> {
    let statistics = fs::read_to_string("/proc/stat").ok()?;
    let fields = statistics.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    // The last two fields, the time of guests, are already included in the user time. The fourth and the fifth field
    // are idle time.
    let ticks: Vec<u64> = fields.take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some((seconds(ticks.iter().sum()), seconds(ticks.get(3)? + ticks.get(4)?)))
}

fn threads() -> Option<impl Iterator<Item = PathBuf>> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    Some(threads.filter_map(|thread| Some(thread.ok()?.path())))
}

fn name_of(thread: &Path) -> Option<String> {
    Some(fs::read_to_string(thread.join("comm")).ok()?.trim_end().to_owned())
}
