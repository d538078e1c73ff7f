//! CPU affinity on Linux. Masks can have any length here, because libc's `cpu_set_t` cannot hold CPUs above 1023.

#![allow(unsafe_code, reason = "the affinity calls of libc take raw pointers to masks")]

use std::io;
use std::mem::size_of_val;
use std::sync::mpsc;

use libc::{c_ulong, pid_t};

use crate::policy::cpu_set::CpuSet;
use crate::sys::machine::{self, Tid};
use crate::sys::thread::{self, thread_id};

const WORD_BITS: usize = c_ulong::BITS as usize;

#[inline]
pub(crate) fn current_cpu() -> Option<usize> {
    if let Some(cpu) = machine::current_cpu() {
        return Some(cpu);
    }
    // SAFETY: the call has no arguments and touches no memory of the program.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok()
}

/// Affinity belongs to threads, so the CPUs of the main thread stand for the CPUs of the process. `taskset` and the
/// parent process set the affinity of the main thread, and cpusets change it. The CPUs of the calling thread do not
/// count, because the calling thread may have pinned itself. While the main thread sleeps, all of its CPUs may be
/// offline. In this case the CPUs of the cpuset count. With version 2 of cgroups, the system moves the main thread to
/// these CPUs when it wakes.
pub(crate) fn process_cpus() -> io::Result<CpuSet> {
    let cpus = main_thread_cpus()?;
    if cpus.is_empty() { cpuset_cpus() } else { Ok(cpus) }
}

pub(crate) fn watched_cpus() -> Option<CpuSet> {
    main_thread_cpus().ok()
}

/// Returns the CPUs of the main thread that are online. The result may be empty while the main thread sleeps.
fn main_thread_cpus() -> io::Result<CpuSet> {
    if let Some(cpus) = machine::present_cpus() {
        return Ok(cpus);
    }
    // SAFETY: the call has no arguments and touches no memory of the program.
    thread_cpus(unsafe { libc::getpid() })
}

/// Returns the CPUs of the calling thread's cpuset that are online. A new thread asks for all CPUs, and the system
/// gives it those of the cpuset.
fn cpuset_cpus() -> io::Result<CpuSet> {
    let (tell, told) = mpsc::channel();
    let ask = move || {
        let asked = pin_thread(0, &(0..CpuSet::LIMIT).collect()).and_then(|()| thread_cpus(0));
        // The calling thread waits for the answer.
        drop(tell.send(asked));
    };
    let panicked = || io::Error::other("the thread that asks for the cpuset panicked");
    thread::spawn("cmwq/cpus".to_owned(), None, ask)?.join().map_err(|_| panicked())?;
    told.recv().map_err(|_| panicked())?
}

/// Binds the calling thread to one CPU. Uses the crate `core_affinity` only for CPUs that fit into the crate's mask,
/// because the crate panics for other CPUs.
pub(crate) fn pin_to_cpu(cpu: usize) -> bool {
    if machine::current().is_none() && cpu < libc::CPU_SETSIZE as usize {
        core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
    } else {
        cpu < CpuSet::LIMIT && pin_to_set(&CpuSet::single(cpu)).is_ok()
    }
}

pub(crate) fn pin_to_set(cpus: &CpuSet) -> io::Result<()> {
    match machine::current() {
        Some(own) => bind_made_up(own, cpus),
        None => pin_thread(0, cpus),
    }
}

/// Binds a thread of a made-up machine (a simulation for tests).
fn bind_made_up(thread: Tid, cpus: &CpuSet) -> io::Result<()> {
    match machine::bind(thread, cpus) {
        Some(true) => Ok(()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The lowest number of a thread of a made-up machine (a simulation for tests). The numbers of the system's threads are
/// always lower.
const MADE_UP: pid_t = 1 << 28;

/// A thread, identified by its number in the system or in its made-up machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadId(pid_t);

impl ThreadId {
    pub(crate) fn current() -> Self {
        Self(machine::current().map_or_else(|| thread_id() as pid_t, |own| MADE_UP + own as pid_t))
    }

    /// Returns the id of the calling thread in the system, even if the thread belongs to a made-up machine.
    #[allow(dead_code, reason = "used for made-up machines only")]
    pub(in crate::sys) fn of_system() -> Self {
        Self(thread_id() as pid_t)
    }

    /// Returns the thread's number in its made-up machine, or `None` for a thread of the system.
    pub(crate) fn made_up(self) -> Option<Tid> {
        (self.0 >= MADE_UP).then(|| (self.0 - MADE_UP) as Tid)
    }

    /// Returns the thread's number in the form that system calls take.
    pub(in crate::sys) fn number(self) -> pid_t {
        self.0
    }

    /// Returns the number by which the system's tools show the thread.
    pub(crate) fn shown(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }

    pub(crate) fn pin_to_set(self, cpus: &CpuSet) -> io::Result<()> {
        self.made_up().map_or_else(|| pin_thread(self.0, cpus), |thread| bind_made_up(thread, cpus))
    }

    /// Returns the CPUs on which the system lets the thread run.
    pub(crate) fn cpus(self) -> io::Result<CpuSet> {
        match self.made_up() {
            Some(thread) => machine::bound(thread).ok_or_else(|| io::ErrorKind::NotFound.into()),
            None => thread_cpus(self.0),
        }
    }
}

/// Binds thread `tid` to these CPUs. The number 0 stands for the calling thread.
fn pin_thread(tid: pid_t, cpus: &CpuSet) -> io::Result<()> {
    Mask::of(cpus).bind(tid)
}

/// A set of CPUs in the form that system calls take.
pub(in crate::sys) struct Mask(Vec<c_ulong>);

impl Mask {
    pub(in crate::sys) fn of(cpus: &CpuSet) -> Self {
        Self(to_mask(cpus))
    }

    /// Binds thread `tid` to the CPUs of the mask. The number 0 stands for the calling thread. A forked child may call
    /// this function, because it takes no lock and allocates nothing.
    pub(in crate::sys) fn bind(&self, tid: pid_t) -> io::Result<()> {
        // SAFETY: the pointer and the length describe the mask, which outlives the call and is only read.
        let result = unsafe { libc::sched_setaffinity(tid, size_of_val(&*self.0), self.0.as_ptr().cast()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns the CPUs to which thread `tid` is bound. The number 0 stands for the calling thread.
fn thread_cpus(tid: pid_t) -> io::Result<CpuSet> {
    let mut mask: Vec<c_ulong> = vec![0; 1024 / WORD_BITS];
    loop {
        // SAFETY: the pointer and the length describe `mask`, which outlives the call and is fully initialised. Any
        // bits that the call writes into `mask` are valid words.
        let result = unsafe { libc::sched_getaffinity(tid, size_of_val(&*mask), mask.as_mut_ptr().cast()) };
        if result == 0 {
            return Ok(from_mask(&mask));
        }
        let error = io::Error::last_os_error();
        // The kernel refuses a mask that is shorter than the kernel's own mask, but does not tell the required length.
        // So the next attempt uses a mask that is twice as long.
        if error.raw_os_error() != Some(libc::EINVAL) || mask.len() * WORD_BITS >= CpuSet::LIMIT {
            return Err(error);
        }
        mask.resize(mask.len() * 2, 0);
    }
}

fn to_mask(cpus: &CpuSet) -> Vec<c_ulong> {
    let mut mask = Vec::new();
    for cpu in cpus.iter() {
        mask.resize(cpu / WORD_BITS + 1, 0);
        mask[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    mask
}

fn from_mask(mask: &[c_ulong]) -> CpuSet {
    (0..mask.len() * WORD_BITS).filter(|cpu| mask[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread;

    /// Runs `test` in a separate thread, so that no thread of another test is pinned.
    fn in_a_thread(test: impl FnOnce() + Send + 'static) {
        thread::spawn("affinity".to_owned(), None, test).unwrap().join().unwrap();
    }

    /// spec: E2.1
    #[test]
    fn a_pinned_thread_runs_there_and_the_process_keeps_its_cpus() {
        in_a_thread(|| {
            let cpus = process_cpus().unwrap();
            for cpu in cpus.iter() {
                assert!(pin_to_cpu(cpu));
                assert_eq!(thread_cpus(0).unwrap(), CpuSet::single(cpu));
                assert_eq!(current_cpu(), Some(cpu));
            }
            assert_eq!(process_cpus().unwrap(), cpus);
            pin_to_set(&cpus).unwrap();
            assert_eq!(thread_cpus(0).unwrap(), cpus);
        });
    }

    /// spec: E2.1: even if the caller is pinned to one CPU, the cpuset has all CPUs of the process. The caller stays
    /// pinned.
    #[test]
    fn a_pinned_thread_learns_all_cpus_of_the_cpuset() {
        in_a_thread(|| {
            let cpus = process_cpus().unwrap();
            let own = CpuSet::single(cpus.iter().next().unwrap());
            pin_to_set(&own).unwrap();
            let cpuset = cpuset_cpus().unwrap();
            assert_eq!(cpuset.intersection(&cpus), cpus);
            assert_eq!(thread_cpus(0).unwrap(), own);
            for cpu in cpuset.iter() {
                pin_to_set(&CpuSet::single(cpu)).unwrap();
            }
        });
    }

    /// spec: A5
    #[test]
    fn a_thread_is_pinned_from_outside() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let pinned = thread::spawn("affinity".to_owned(), None, move || {
            tell.send(ThreadId::current()).unwrap();
            ended.recv().unwrap();
        });
        let thread = told.recv().unwrap();
        let cpus = process_cpus().unwrap();
        for cpu in cpus.iter() {
            thread.pin_to_set(&CpuSet::single(cpu)).unwrap();
            assert_eq!(thread.cpus().unwrap(), CpuSet::single(cpu));
        }
        end.send(()).unwrap();
        pinned.unwrap().join().unwrap();
        assert_eq!(process_cpus().unwrap(), cpus);
    }

    #[test]
    fn a_set_may_name_cpus_that_do_not_exist_but_not_only_such() {
        in_a_thread(|| {
            let cpus = process_cpus().unwrap();
            pin_to_set(&cpus.union(&CpuSet::single(CpuSet::LIMIT - 1))).unwrap();
            assert_eq!(thread_cpus(0).unwrap(), cpus);
            assert!(pin_to_set(&CpuSet::new()).is_err());
            assert!(pin_to_set(&CpuSet::single(CpuSet::LIMIT - 1)).is_err());
        });
    }

    #[test]
    fn pinning_to_a_cpu_that_does_not_exist_fails() {
        in_a_thread(|| {
            // Linux can be built for at most 8192 CPUs.
            for cpu in [8192, CpuSet::LIMIT - 1, CpuSet::LIMIT, usize::MAX] {
                assert!(!pin_to_cpu(cpu), "CPU {cpu}");
            }
        });
    }

    #[test]
    fn masks_of_any_length_are_converted() {
        for list in ["", "0", "63-64", "0-3,1023-1025,65535"] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(from_mask(&to_mask(&cpus)), cpus);
        }
    }
}
