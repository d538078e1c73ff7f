//! The CPUs of the counted threads.

use std::error::Error;

use cmwq::CpuSet;

/// Returns the first two CPUs that this process may use.
#[cfg(target_os = "linux")]
pub(crate) fn first_two() -> Result<CpuSet, Box<dyn Error + Send + Sync>> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let cpus: CpuSet =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(2).collect();
    if cpus.len() < 2 {
        return Err("there is only one CPU, but a pod of two is needed".into());
    }
    Ok(cpus)
}

/// Binds the calling thread to one CPU.
#[cfg(target_os = "linux")]
pub(crate) fn stay_on(cpu: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &one)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn first_two() -> Result<CpuSet, Box<dyn Error + Send + Sync>> {
    Err(crate::request::ELSEWHERE.into())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn stay_on(_cpu: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    Err(crate::request::ELSEWHERE.into())
}
