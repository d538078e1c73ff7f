//! Computation that uses a CPU, for examples, benchmarks and `rivals`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Uses this much CPU time of this thread. Time while the thread is preempted does not count.
pub(crate) fn burn(time: Duration) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let end = now() + time;
    while now() < end {
        std::hint::spin_loop();
    }
}
