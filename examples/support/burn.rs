//! Work that takes a CPU, of examples, benchmarks and `rivals`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Keeps a CPU busy for so much of this thread's CPU time: who is preempted has not worked meanwhile.
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
