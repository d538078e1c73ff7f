//! Decides on which of the executor's CPUs an item runs if its issuer has named a CPU or a NUMA node.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::cpu_set::CpuSet;
use super::topology::{Cpu, Topology};

/// For each CPU and each node of a machine, the executor's CPUs that run its items. The executor's CPUs have the
/// *indices* 0 to n − 1, in ascending order of the CPU numbers.
#[derive(Debug)]
pub(crate) struct Nearby {
    /// For each CPU number, the index of the executor's CPU that runs the items for that CPU, or `None` if the machine
    /// has no such CPU.
    by_cpu: Vec<Option<usize>>,
    by_node: BTreeMap<usize, Vec<usize>>,
}

impl Nearby {
    /// Finds, for each CPU and each node of a machine, the executor's CPUs that run its items. `used` is the set of the
    /// executor's CPUs, and contains at least one CPU.
    pub(crate) fn derive(topology: &Topology, used: &CpuSet) -> Self {
        let index_of: BTreeMap<usize, usize> = used.iter().zip(0..).collect();
        let known = topology.cpus().iter();
        let served: Vec<(Cpu, usize)> =
            known.filter_map(|cpu| Some((*cpu, *index_of.get(&cpu.id)?))).collect();
        let mut nearby = Self { by_cpu: Vec::new(), by_node: BTreeMap::new() };
        for cpu in topology.cpus() {
            nearby.by_cpu.resize(cpu.id, None);
            nearby.by_cpu.push(nearest(*cpu, &served));
            nearby.by_node.entry(cpu.node).or_default().extend(index_of.get(&cpu.id));
        }
        // The topology does not tell which CPUs are near an offline CPU, so offline CPUs are spread over all
        // of the executor's CPUs.
        for cpu in topology.offline().iter() {
            nearby.by_cpu.resize(nearby.by_cpu.len().max(cpu + 1), None);
            nearby.by_cpu[cpu] = cpu.checked_rem(served.len()).map(|turn| served[turn].1);
        }
        nearby
    }

    /// Returns the index of `cpu` itself if the executor uses this CPU. Otherwise returns the index of one of the
    /// nearest CPUs, which is always the same for a given CPU. So items for one CPU keep their order, and items for
    /// different CPUs are spread over the nearest CPUs.
    pub(crate) fn index_of_cpu(&self, cpu: usize) -> Option<usize> {
        *self.by_cpu.get(cpu)?
    }

    /// Returns the indices of the executor's CPUs on a node. The slice is empty if the executor has no CPU on the
    /// node. Returns `None` if the machine has no such node.
    pub(crate) fn indices_of_node(&self, node: usize) -> Option<&[usize]> {
        self.by_node.get(&node).map(Vec::as_slice)
    }
}

/// Returns the index of `cpu`. If `cpu` has no index, returns the index of a near CPU: one of the same core, or else of
/// the same cache, or else of the same node, or else any CPU.
fn nearest(cpu: Cpu, served: &[(Cpu, usize)]) -> Option<usize> {
    let distances: [fn(Cpu, Cpu) -> bool; 5] = [
        |one, other| one.id == other.id,
        |one, other| one.core == other.core,
        |one, other| one.cache == other.cache,
        |one, other| one.node == other.node,
        |_, _| true,
    ];
    distances.into_iter().find_map(|near| {
        let found: Vec<usize> =
            served.iter().filter(|(other, _)| near(cpu, *other)).map(|(_, index)| *index).collect();
        let turn = cpu.id.checked_rem(found.len())?;
        Some(found[turn])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// spec: W6.3 (an item for a CPU outside of the allowed set runs elsewhere): the item runs on a nearby CPU.
    #[test]
    fn the_nearest_used_cpu_serves_an_unused_one() {
        // The machine has two nodes with two caches each, two cores per cache, and two threads per core. The CPU
        // numbers of SMT siblings differ by eight.
        let topology = Topology::uniform(2, 2, 2, 2);
        let table = [
            // used, cpu, served by
            ("0-15", 5, 5),
            ("0-7", 13, 5),  // its sibling
            ("1,4-7", 0, 1), // its cache
            ("2-7", 1, 3),   // its node: 2 and 3 alternately
            ("2-7", 8, 2),
            ("4-7", 1, 5), // the other node: 4 to 7 one after the other
            ("4-7", 2, 6),
        ];
        for (used, cpu, by) in table {
            let used = cpus(used);
            let index = Nearby::derive(&topology, &used).index_of_cpu(cpu).unwrap();
            assert_eq!(used.iter().nth(index), Some(by), "{cpu} of {used}");
        }
        assert_eq!(Nearby::derive(&topology, &cpus("0")).index_of_cpu(16), None);
    }

    /// spec: W6.3 (an unknown CPU or node is an error): a number in a gap of the numbering belongs to no known CPU.
    #[test]
    fn nodes_and_cpus_keep_the_systems_numbers() {
        let cpu = |id, node| Cpu { id, core: id, cache: node, node };
        let topology = Topology::new(vec![cpu(3, 8), cpu(5, 8), cpu(6, 2)]);
        let nearby = Nearby::derive(&topology, &cpus("3,5"));
        assert_eq!(
            [0, 3, 4, 5, 6, 7].map(|cpu| nearby.index_of_cpu(cpu)),
            [None, Some(0), None, Some(1), Some(0), None]
        );
        assert_eq!(nearby.indices_of_node(8), Some(&[0, 1][..]));
        assert_eq!(nearby.indices_of_node(2), Some(&[][..]), "a node without used CPUs");
        assert_eq!(nearby.indices_of_node(0), None);
    }

    /// spec: W6.5 (an item for an offline CPU runs elsewhere)
    #[test]
    fn offline_cpus_are_served_by_others() {
        let topology = Topology::flat(&cpus("0,2,5")).with_offline(&cpus("0-3,7"));
        assert_eq!(*topology.offline(), cpus("1,3,7"));
        let nearby = Nearby::derive(&topology, &cpus("2,5"));
        let indices = (0..9).map(|cpu| nearby.index_of_cpu(cpu));
        let expected = [Some(0), Some(1), Some(0), Some(1), None, Some(1), None, Some(1), None];
        assert!(indices.eq(expected));
    }
}
