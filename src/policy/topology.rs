//! The policy layer's view of the machine: a plain table of CPUs, with the core, the cache and the node of each CPU.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::cpu_set::CpuSet;

/// One logical CPU. Two CPUs with the same `core`, `cache` or `node` number share that part of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cpu {
    /// The operating system's number for the CPU.
    pub(crate) id: usize,
    /// The number of the core. CPUs of the same core are SMT siblings.
    pub(crate) core: usize,
    /// The number of the last-level cache.
    pub(crate) cache: usize,
    /// The operating system's number for the NUMA node.
    pub(crate) node: usize,
}

/// All CPUs of a machine in ascending order. The numbers of cores, caches and nodes are unique in the whole machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Topology {
    cpus: Vec<Cpu>,
    offline: CpuSet,
}

impl Topology {
    /// Sorts `cpus`, and numbers their cores and caches from 0 in the order of their lowest CPU. So two descriptions of
    /// one machine are equal, even if their numbers come from different sources. If several CPUs have the same id, only
    /// the first is kept.
    pub(crate) fn new(mut cpus: Vec<Cpu>) -> Self {
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        let mut cores = BTreeMap::new();
        let mut caches = BTreeMap::new();
        for cpu in &mut cpus {
            cpu.core = number(&mut cores, cpu.core);
            cpu.cache = number(&mut caches, cpu.cache);
        }
        Self { cpus, offline: CpuSet::new() }
    }

    /// Adds the machine's offline CPUs, of which only the numbers are known. Ignores CPUs that are already in the
    /// table.
    pub(crate) fn with_offline(self, cpus: &CpuSet) -> Self {
        let known: CpuSet = self.cpus.iter().map(|cpu| cpu.id).collect();
        Self { offline: cpus.iter().filter(|cpu| !known.contains(*cpu)).collect(), ..self }
    }

    /// Returns a machine of which only the CPU numbers are known. The machine has one node and one cache, and no SMT.
    pub(crate) fn flat(cpus: &CpuSet) -> Self {
        Self::new(cpus.iter().map(|id| Cpu { id, core: id, cache: 0, node: 0 }).collect())
    }

    pub(crate) fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    pub(crate) fn offline(&self) -> &CpuSet {
        &self.offline
    }
}

/// Returns the number of `group`. A new group gets the next number.
fn number(numbers: &mut BTreeMap<usize, usize>, group: usize) -> usize {
    let next = numbers.len();
    *numbers.entry(group).or_insert(next)
}

#[cfg(test)]
impl Topology {
    /// Returns a regular machine. The machine's CPUs are numbered as x86 firmware numbers them: the first threads of
    /// all cores have the lowest numbers, and the second threads follow.
    pub(crate) fn uniform(
        nodes: usize,
        caches_per_node: usize,
        cores_per_cache: usize,
        threads: usize,
    ) -> Self {
        let caches = nodes * caches_per_node;
        let cores = caches * cores_per_cache;
        let cpu = |id| {
            let core = id % cores;
            let cache = core / cores_per_cache;
            Cpu { id, core, cache, node: cache / caches_per_node }
        };
        Self::new((0..cores * threads).map(cpu).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_one_machine_are_equal() {
        let described = vec![
            Cpu { id: 3, core: 40, cache: 9, node: 0 },
            Cpu { id: 1, core: 40, cache: 9, node: 0 },
            Cpu { id: 2, core: 77, cache: 8, node: 0 },
            Cpu { id: 0, core: 77, cache: 8, node: 0 },
            Cpu { id: 0, core: 5, cache: 5, node: 5 },
        ];
        assert_eq!(Topology::new(described), Topology::uniform(1, 2, 1, 2));
    }

    #[test]
    fn a_uniform_machine_numbers_siblings_last() {
        let topology = Topology::uniform(2, 2, 3, 2);
        assert_eq!(topology.cpus().len(), 24);
        assert_eq!(topology.cpus()[13], Cpu { id: 13, core: 1, cache: 0, node: 0 });
        assert_eq!(topology.cpus()[23], Cpu { id: 23, core: 11, cache: 3, node: 1 });
    }
}
