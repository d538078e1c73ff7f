//! The amounts: work, limits, rates and times. They depend only on the number of CPUs, so all engines have the same.

use std::time::Duration;

/// The CPU time of a request for `/compute`. The work is a fixed number of hashes. The measurement first finds out the
/// number that takes this time.
pub(crate) const COMPUTE: Duration = Duration::from_millis(2);

/// How long a request for `/block` sleeps.
pub(crate) const BLOCK: Duration = Duration::from_millis(20);

/// The nice level of the threads that do the work, in the engines that set a level. It is relative to the level of the
/// service, which is mostly 0.
pub(crate) const NICE: i32 = 10;

/// The nice level of the load generator, relative to the service, if the system permits it. The generator has
/// precedence, because a real client has a machine of its own.
pub(crate) const NICE_OF_LOAD: i32 = -10;

/// The requests per second for `/health`.
pub(crate) const HEALTH_RATE: u32 = 200;

/// The time at the beginning of a measurement, in which no latency is recorded.
pub(crate) const WARM: Duration = Duration::from_secs(1);

/// The bounds of one kind of requests.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// The most requests that run or block at the same time.
    pub(crate) running: usize,
    /// The most requests that run, block or wait. Further requests are shed.
    pub(crate) admitted: usize,
}

/// Returns the nice level that is this much above that of the calling thread.
pub(crate) fn level(above: i32) -> i32 {
    let own = rustix::process::getpriority_process(None).unwrap_or(0);
    (own + above).clamp(-20, 19)
}

pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the bounds of requests for `/compute`. As many requests compute as there are CPUs.
pub(crate) fn compute_limit() -> Limit {
    Limit { running: cpus(), admitted: 16 * cpus() }
}

/// Returns the bounds of requests for `/block`. At its limit, the service completes as many of them as requests for
/// `/compute`.
pub(crate) fn block_limit() -> Limit {
    let share = BLOCK.as_millis() / COMPUTE.as_millis();
    let running = share as usize * cpus();
    Limit { running, admitted: running + 6 * cpus() }
}

/// Returns the requests per second for both kinds of work together. Half of the requests compute, and ask for
/// `overload` times the CPU time of the machine. The other half blocks, and asks for `overload` times the places of
/// requests that may block.
pub(crate) fn rate(overload: u32) -> u32 {
    let most = cpus() as f64 / COMPUTE.as_secs_f64();
    (2.0 * most * f64::from(overload)) as u32
}
