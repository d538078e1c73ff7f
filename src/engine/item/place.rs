//! The CPU on which an item is queued. By default, this is the issuer's own CPU if the executor uses that CPU.

use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::{affinity, thread};

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::executor::placement::{Mode, Placement};
use crate::engine::pool::spec::PoolKind;
use crate::engine::refusal::QueueError;
use crate::engine::worker::worker_thread;

/// The place that an issuer wants for an item. A CPU is given by its index in [`Placement`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// A place near the issuer.
    Here,
    /// A place near the CPU with this index, on which the issuer ran when it chose the place.
    Near(usize),
    /// The CPU with this index, in every placement mode. The item stays in the pod of that CPU.
    Bound(usize),
}

impl Place {
    /// Returns whether the issuer named the place. An item whose place was named stays in the pod of that place.
    #[inline]
    pub(crate) fn is_bound(self) -> bool {
        matches!(self, Self::Bound(_))
    }

    /// Returns the index of the CPU that the issuer named, if it named one.
    #[inline]
    pub(crate) fn named(self) -> Option<usize> {
        match self {
            Self::Bound(index) => Some(index),
            Self::Here | Self::Near(_) => None,
        }
    }
}

impl Placement {
    /// Returns the index of the CPU on which an item with this place is queued.
    #[inline]
    pub(crate) fn index_for(&self, place: Place) -> usize {
        match place {
            Place::Here => self.index(),
            Place::Near(index) | Place::Bound(index) => index,
        }
    }

    /// Returns the index of the CPU on which an item is queued if the calling thread names no place.
    #[inline]
    fn index(&self) -> usize {
        match &self.mode {
            Mode::Real => self.index_of_thread(),
            Mode::MadeUp => self.index_of_worker().unwrap_or_else(|| self.index_of_thread()),
            Mode::Random(state) => split_mix(state) as usize % self.cpus.len(),
        }
    }

    #[inline]
    fn index_of_thread(&self) -> usize {
        let Some(cpu) = affinity::current_cpu() else { return self.index_without_cpu() };
        self.by_cpu.get(cpu).map_or_else(|| cpu % self.cpus.len(), |index| *index as usize)
    }

    /// Returns the index of the CPU on which the calling thread queues items if the system does not report the current
    /// CPU. A worker uses the CPU that its pool serves. Any other thread uses one CPU for all its items, so that they
    /// stay in order. Threads that are not workers are spread over the executor's CPUs.
    fn index_without_cpu(&self) -> usize {
        let spread = || (thread::number() % self.cpus.len() as u64) as usize;
        self.index_of_worker().unwrap_or_else(spread)
    }

    /// Returns the index of the CPU that the calling worker's pool serves. Returns `None` if the calling thread is not
    /// a worker, or if the worker's pool serves a pod. Also returns `None` if the worker belongs to another executor,
    /// and the index stands for another CPU, or for no CPU, in this executor.
    fn index_of_worker(&self) -> Option<usize> {
        worker_thread::with_current(|worker| {
            let pool = &worker?.pool;
            match pool.spec.kind {
                PoolKind::PerCpu { index, cpu, .. } | PoolKind::Bh { index, cpu, .. }
                    if self.cpus.get(index).is_some_and(|own| own.cpu == cpu) =>
                {
                    Some(index)
                }
                _ => None,
            }
        })
    }
}

impl ExecutorInner {
    /// Returns the place for a CPU of the topology. The place is that CPU if the executor uses it, and otherwise a CPU
    /// near it.
    pub(crate) fn place_on_cpu(&self, cpu: usize) -> Result<Place, QueueError> {
        let index = self.nearby()?.index_of_cpu(cpu).ok_or(QueueError::UnknownCpu { cpu })?;
        Ok(Place::Bound(index))
    }

    /// Returns a place on a node of the topology. The place is the issuer's own CPU if that CPU belongs to the node, or
    /// if the executor uses no CPU of the node. Otherwise, successive calls return the CPUs of the node in turn.
    pub(crate) fn place_on_node(&self, node: usize) -> Result<Place, QueueError> {
        let indices = self.nearby()?.indices_of_node(node).ok_or(QueueError::UnknownNode { node })?;
        let here = self.placement.index_for(Place::Here);
        if indices.is_empty() || indices.contains(&here) {
            return Ok(Place::Bound(here));
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        Ok(Place::Bound(indices[turn % indices.len()]))
    }
}

/// Returns the next number of a pseudo-random sequence (SplitMix64). All issuers share the state of the sequence,
/// which is one atomic word.
fn split_mix(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut z = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::cpu_set::CpuSet;
    use crate::policy::environment::MappedCpu;

    #[test]
    fn an_issuer_on_an_unused_cpu_gets_an_index() {
        let cpus = vec![MappedCpu { cpu: 4, real: 4 }, MappedCpu { cpu: 6, real: 6 }];
        let placement = Placement::new(cpus, None);
        assert_eq!(&*placement.by_cpu, [0, 1, 0, 1, 0, 1, 1]);
        assert!(placement.index() < 2);
    }

    #[test]
    fn a_made_up_pod_is_served_by_the_real_cpus_behind_it() {
        let cpus = (0..8).map(|cpu| MappedCpu { cpu, real: cpu % 2 }).collect();
        let placement = Placement::new(cpus, None);
        assert_eq!(placement.real(&[0, 2, 4].into_iter().collect()), CpuSet::single(0));
        assert_eq!(placement.real(&[4, 5].into_iter().collect()), [0, 1].into_iter().collect());
    }

    #[test]
    fn random_placement_reaches_every_index() {
        let cpus = (0..8).map(|cpu| MappedCpu { cpu, real: 0 }).collect();
        let placement = Placement::new(cpus, Some(1));
        let reached: CpuSet = (0..200).map(|_| placement.index()).collect();
        assert_eq!(reached.len(), 8);
    }
}
