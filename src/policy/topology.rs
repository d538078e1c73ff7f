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
    /// The CPUs that the process may use although the description of the machine lacks them.
    unlisted: CpuSet,
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
        Self { cpus, offline: CpuSet::new(), unlisted: CpuSet::new() }
    }

    /// Adds the machine's offline CPUs, of which only the numbers are known. Ignores CPUs that are already in the
    /// table.
    pub(crate) fn with_offline(self, cpus: &CpuSet) -> Self {
        let known: CpuSet = self.cpus.iter().map(|cpu| cpu.id).collect();
        Self { offline: cpus.iter().filter(|cpu| !known.contains(*cpu)).collect(), ..self }
    }

    /// Replaces this description by a flat machine with the process's CPUs, if the description lacks a CPU of the
    /// process that the executor may use. Such a description numbers the CPUs in another way than the scheduler, and
    /// says nothing about the real CPUs. For example, the `/sys` of a container may show fewer CPUs than the process
    /// may use.
    ///
    /// `before` and `process` are the CPUs of the process before and after the machine was described. A CPU that is in
    /// only one of these sets came or went meanwhile, so the description may lack it. `chosen` are the CPUs that the
    /// user has chosen. Some of these CPUs may exist only in a description that the user has given to hwloc.
    pub(crate) fn of_process(self, chosen: Option<&CpuSet>, before: &CpuSet, process: &CpuSet) -> Self {
        let lasting = before.intersection(process);
        let unlisted = self.lacks(&chosen.unwrap_or(&lasting).intersection(&lasting));
        if unlisted.is_empty() {
            return self;
        }
        let described = self.cpus.iter().map(|cpu| cpu.id).collect();
        Self { unlisted, ..Self::flat(process).with_offline(&self.offline.union(&described)) }
    }

    /// Returns the CPUs of the set that the table lacks.
    fn lacks(&self, cpus: &CpuSet) -> CpuSet {
        cpus.iter().filter(|cpu| self.cpus.iter().all(|known| known.id != *cpu)).collect()
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

    pub(crate) fn unlisted(&self) -> &CpuSet {
        &self.unlisted
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

    /// spec: E2.1, E2.2: a container may describe other CPUs than those on which the process may run. The description
    /// is kept if it only lacks CPUs that come or go while the machine is described, or that the user has not chosen.
    #[test]
    fn a_description_that_lacks_a_cpu_of_the_process_is_replaced() {
        let cpus = |list: &str| -> CpuSet { list.parse().unwrap() };
        let described = Topology::uniform(1, 2, 1, 1).with_offline(&cpus("2-5"));
        for (chosen, before, process, unlisted, offline) in [
            (None, "1,4", "1,4", "4", "0,2-3,5"),
            (None, "8-9", "8-9", "8-9", "0-5"),
            (None, "4,8-9", "1,8-9", "8-9", "0,2-5"),
            (Some("1,8"), "8-9", "8-9", "8", "0-5"),
        ] {
            let chosen = chosen.map(cpus);
            let topology = described.clone().of_process(chosen.as_ref(), &cpus(before), &cpus(process));
            assert_eq!(topology.cpus(), Topology::flat(&cpus(process)).cpus(), "{process}");
            assert_eq!(
                (topology.unlisted(), topology.offline()),
                (&cpus(unlisted), &cpus(offline)),
                "{process}"
            );
        }
        for (chosen, before, process) in [
            (None, "0-1", "0-1"),
            (None, "0-1", "0-1,4"),
            (None, "0-1,4", "0-1"),
            (Some("0-1"), "0-1,4", "0-1,4"),
            (Some("0,7"), "0-1", "0-1"),
        ] {
            let topology =
                described.clone().of_process(chosen.map(cpus).as_ref(), &cpus(before), &cpus(process));
            assert_eq!(topology, described, "{chosen:?}, {before}, {process}");
        }
    }

    #[test]
    fn a_uniform_machine_numbers_siblings_last() {
        let topology = Topology::uniform(2, 2, 3, 2);
        assert_eq!(topology.cpus().len(), 24);
        assert_eq!(topology.cpus()[13], Cpu { id: 13, core: 1, cache: 0, node: 0 });
        assert_eq!(topology.cpus()[23], Cpu { id: 23, core: 11, cache: 3, node: 1 });
    }
}
