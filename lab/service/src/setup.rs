//! The amounts: work, limits, rates and times. They depend only on the number of CPUs, so all engines have the same.

use std::time::Duration;

/// The CPU time of a request for `/compute`. The work is a fixed number of hashes, which the measurement counts first.
pub(crate) const COMPUTE: Duration = Duration::from_millis(2);

/// How long a request for `/block` sleeps.
pub(crate) const BLOCK: Duration = Duration::from_millis(20);

/// The nice level of the threads that do the work, in the engines that set one. It is relative to that of the service,
/// which is mostly 0.
pub(crate) const NICE: i32 = 10;

/// The nice level of the load generator, relative to the service, if it may have one. A real client has a machine of
/// its own.
pub(crate) const NICE_OF_LOAD: i32 = -10;

/// The requests per second for `/health`.
pub(crate) const HEALTH_RATE: u32 = 200;

/// The time at the begin of a measurement in which nothing is recorded.
pub(crate) const WARM: Duration = Duration::from_secs(1);

/// The bounds of one kind of requests.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// Requests that run or block at the same time.
    pub(crate) running: usize,
    /// Requests that run, block or wait. More are shed.
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

/// As many requests compute as there are CPUs.
pub(crate) fn compute_limit() -> Limit {
    Limit { running: cpus(), admitted: 16 * cpus() }
}

/// At this limit, the service completes as many requests for `/block` as for `/compute`.
pub(crate) fn block_limit() -> Limit {
    let share = BLOCK.as_millis() / COMPUTE.as_millis();
    let running = share as usize * cpus();
    Limit { running, admitted: running + 6 * cpus() }
}

/// Returns the requests per second for both kinds of work together. Half of them compute, and those ask for `overload`
/// times the CPU time of the machine. The other half asks for `overload` times the places that may block.
pub(crate) fn rate(overload: u32) -> u32 {
    let most = cpus() as f64 / COMPUTE.as_secs_f64();
    (2.0 * most * f64::from(overload)) as u32
}
