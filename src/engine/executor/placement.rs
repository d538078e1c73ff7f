//! The index of each of an executor's CPUs, and the real CPU that serves this CPU.
//!
//! The executor's CPUs have the *indices* 0 to n − 1, in the order of their numbers in the topology. On the real
//! machine, each of these CPUs is a real CPU. In a made-up topology, one real CPU may serve several CPUs of the
//! executor. In such a topology, a worker of a per-CPU pool queues items on the CPU of its pool. Any other thread
//! queues items on the first CPU that is served by the real CPU on which the thread runs.

use crate::policy::cpu_set::CpuSet;
use crate::policy::environment::MappedCpu;
use crate::sys::sync::AtomicU64;

/// The CPUs of an executor, and the way in which the CPU of an item is chosen.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) cpus: Box<[MappedCpu]>,
    /// For each real CPU, the index of the executor's CPU on which issuers that run on this real CPU queue their items.
    /// The real CPU's number is the position in this array.
    pub(crate) by_cpu: Box<[u32]>,
    pub(crate) mode: Mode,
}

#[derive(Debug)]
pub(crate) enum Mode {
    /// Each CPU of the executor is a real CPU.
    Real,
    /// Several CPUs of the executor may share a real CPU.
    MadeUp,
    /// Each item gets a random CPU, to break assumptions about locality (the kernel's `debug_force_rr_cpu`).
    Random(AtomicU64),
}

impl Placement {
    /// Makes the placement for these CPUs. There is at least one. `random` is the seed of random placement, or `None`
    /// if items are not placed at random.
    pub(crate) fn new(cpus: Vec<MappedCpu>, random: Option<u64>) -> Self {
        let highest = cpus.iter().map(|cpu| cpu.real).max().unwrap_or(0);
        let index_for = |real: usize| {
            let own = cpus.iter().position(|cpu| cpu.real == real);
            // An issuer on a CPU that the executor does not use gets the same index each time.
            own.unwrap_or(real % cpus.len()) as u32
        };
        let by_cpu = (0..=highest).map(index_for).collect();
        let mode = match random {
            Some(seed) => Mode::Random(AtomicU64::new(seed)),
            None if cpus.iter().all(|cpu| cpu.cpu == cpu.real) => Mode::Real,
            None => Mode::MadeUp,
        };
        Self { cpus: cpus.into(), by_cpu, mode }
    }

    /// Returns the number of CPUs.
    pub(crate) fn len(&self) -> usize {
        self.cpus.len()
    }

    pub(crate) fn cpu(&self, index: usize) -> MappedCpu {
        self.cpus[index]
    }

    /// Returns the index of the CPU that has this number in the topology.
    pub(crate) fn index_of(&self, cpu: usize) -> Option<usize> {
        self.cpus.iter().position(|own| own.cpu == cpu)
    }

    /// Returns the real CPUs that serve the executor's CPUs `cpus`, which are numbered as in the topology.
    pub(crate) fn real(&self, cpus: &CpuSet) -> CpuSet {
        self.cpus.iter().filter(|own| cpus.contains(own.cpu)).map(|own| own.real).collect()
    }
}
