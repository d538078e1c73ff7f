//! The version for systems without CPU affinity. CPUs are numbered from 0, and the system chooses on which CPU a thread
//! runs.

use std::io;
use std::thread;

use crate::policy::cpu_set::CpuSet;
use crate::sys::machine;

#[inline]
pub(crate) fn current_cpu() -> Option<usize> {
    None
}

pub(crate) fn process_cpus() -> io::Result<CpuSet> {
    if let Some(cpus) = machine::present_cpus() {
        return Ok(cpus);
    }
    Ok((0..thread::available_parallelism()?.get().min(CpuSet::LIMIT)).collect())
}

pub(crate) fn watched_cpus() -> Option<CpuSet> {
    None
}

/// A thread, which cannot be bound to CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadId;

impl ThreadId {
    pub(crate) fn current() -> Self {
        Self
    }

    #[allow(dead_code, reason = "used for made-up machines only")]
    pub(in crate::sys) fn of_system() -> Self {
        Self
    }

    pub(crate) fn shown(self) -> Option<u32> {
        None
    }

    pub(crate) fn pin_to_set(self, cpus: &CpuSet) -> io::Result<()> {
        pin_to_set(cpus)
    }

    pub(crate) fn cpus(self) -> io::Result<CpuSet> {
        process_cpus()
    }
}

pub(crate) fn pin_to_cpu(_cpu: usize) -> bool {
    false
}

pub(crate) fn pin_to_set(_cpus: &CpuSet) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: X1.1
    #[test]
    fn there_are_cpus_but_no_pinning() {
        let cpus = process_cpus().unwrap();
        assert_eq!(cpus.first(), Some(0));
        assert_eq!(current_cpu(), None);
        assert!(!pin_to_cpu(0));
        assert_eq!(watched_cpus(), None);
        assert!(ThreadId::current().pin_to_set(&cpus).is_err());
        assert_eq!(ThreadId::current().cpus().unwrap(), cpus);
        assert_eq!(ThreadId::current().shown(), None);
        assert_eq!(pin_to_set(&cpus).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
