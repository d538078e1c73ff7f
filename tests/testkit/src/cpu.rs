//! Ways to use CPU time.

use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Uses this much CPU time of this thread. Time while the thread is preempted does not count.
#[cfg(unix)]
pub fn burn(time: Duration) {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let end = now() + Timespec::try_from(time).expect("it is short");
    while now() < end {
        std::hint::spin_loop();
    }
}

/// Keeps a CPU busy for about this long. Time while the thread is preempted counts.
pub fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
