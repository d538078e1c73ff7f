//! The slots of an executor, and the real CPUs behind them.
//!
//! The executor's CPUs are numbered by *slots*, 0 to n − 1. On the real machine a slot is a CPU. In a made-up topology,
//! one real CPU may serve several slots. In such a topology, a worker of a per-CPU pool queues items on the slot of its
//! pool, and any other thread queues items on the first slot of the real CPU on which the thread runs.

use crate::policy::cpu_set::CpuSet;
use crate::policy::environment::Slot;
use crate::sys::sync::AtomicU64;

/// The slots of an executor, and the way in which the slot of an item is chosen.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) slots: Box<[Slot]>,
    /// For each real CPU, the slot on which issuers that run there queue their items. The index is the number of the
    /// CPU.
    pub(crate) by_cpu: Box<[u32]>,
    pub(crate) mode: Mode,
}

#[derive(Debug)]
pub(crate) enum Mode {
    /// Every slot is a real CPU.
    Real,
    /// Several slots may share a real CPU.
    MadeUp,
    /// Each item gets a random slot, to break assumptions about locality (the kernel's `debug_force_rr_cpu`).
    Random(AtomicU64),
}

impl Placement {
    /// Makes the placement for these slots. `slots` is not empty. `random` is the seed of random placement, or `None`
    /// if items are not placed at random.
    pub(crate) fn new(slots: Vec<Slot>, random: Option<u64>) -> Self {
        let highest = slots.iter().map(|slot| slot.real).max().unwrap_or(0);
        let slot_for = |cpu: usize| {
            let own = slots.iter().position(|slot| slot.real == cpu);
            // An issuer on a CPU that the executor does not use gets the same slot each time.
            own.unwrap_or(cpu % slots.len()) as u32
        };
        let by_cpu = (0..=highest).map(slot_for).collect();
        let mode = match random {
            Some(seed) => Mode::Random(AtomicU64::new(seed)),
            None if slots.iter().all(|slot| slot.cpu == slot.real) => Mode::Real,
            None => Mode::MadeUp,
        };
        Self { slots: slots.into(), by_cpu, mode }
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn slot_info(&self, slot: usize) -> Slot {
        self.slots[slot]
    }

    /// Returns the slot of the CPU that has this number in the topology.
    pub(crate) fn slot_on(&self, cpu: usize) -> Option<usize> {
        self.slots.iter().position(|slot| slot.cpu == cpu)
    }

    /// Returns the real CPUs that serve the CPUs with these numbers in the topology.
    pub(crate) fn real(&self, cpus: &CpuSet) -> CpuSet {
        self.slots.iter().filter(|slot| cpus.contains(slot.cpu)).map(|slot| slot.real).collect()
    }
}
