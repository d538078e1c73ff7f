//! Decides in which order a pod helps the other pods: the nearest pods first. Also decides which pod is nearest to a
//! CPU that belongs to no pod.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::cpu_set::CpuSet;
use super::pods::Pods;
use super::topology::{Cpu, Topology};

const WORD: usize = u64::BITS as usize;

/// For each pod, the other pods of its class, divided into tiers by distance.
#[derive(Debug)]
pub(crate) struct Neighbours {
    words: usize,
    of: Vec<[Box<[u64]>; TIERS]>,
}

/// The number of tiers. For each pod, the first tier contains the pods that share a cache with it. The second tier
/// contains the other pods that share a node with it, and the third tier contains all remaining pods.
const TIERS: usize = 3;

impl Neighbours {
    pub(crate) fn derive(topology: &Topology, pods: &[CpuSet]) -> Self {
        let groups: Vec<_> = pods.iter().map(|pod| Groups::of(topology, pod)).collect();
        let words = pods.len().div_ceil(WORD);
        let (mut in_cache, mut in_node) = (BTreeMap::new(), BTreeMap::new());
        for (pod, groups) in groups.iter().enumerate() {
            groups.caches.iter().for_each(|cache| add(&mut in_cache, *cache, pod, words));
            groups.nodes.iter().for_each(|node| add(&mut in_node, *node, pod, words));
        }
        let tiers = |(pod, groups): (usize, &Groups)| {
            let mut taken = vec![0; words];
            taken[pod / WORD] |= 1 << (pod % WORD);
            let mut tier = |with: &dyn Fn(usize) -> u64| -> Box<[u64]> {
                let new = |(at, taken): (usize, &mut u64)| {
                    let new = with(at) & !*taken;
                    *taken |= new;
                    new
                };
                taken.iter_mut().enumerate().map(new).collect()
            };
            let near = tier(&|at| groups.caches.iter().fold(0, |bits, cache| bits | in_cache[cache][at]));
            let on_node = tier(&|at| groups.nodes.iter().fold(0, |bits, node| bits | in_node[node][at]));
            [near, on_node, tier(&|at| u64::MAX >> (WORD - (pods.len() - at * WORD).min(WORD)))]
        };
        Self { words, of: groups.iter().enumerate().map(tiers).collect() }
    }

    /// Calls `find` with the pods whose bits are set, until `find` returns a value. The pods nearest to `pod` come
    /// first. `word(n)` returns the bits of the 64 pods from number `64 * n` on. The search through equally near pods
    /// begins at `pod`, so that different pods do not all choose the same pod.
    pub(crate) fn find_nearest<T>(
        &self,
        pod: usize,
        word: impl Fn(usize) -> u64,
        mut find: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        self.of[pod].iter().find_map(|tier| {
            (0..self.words).find_map(|step| {
                let at = (pod / WORD + step) % self.words;
                let start = (pod % WORD) as u32;
                let mut turned = (word(at) & tier[at]).rotate_right(start);
                while turned != 0 {
                    let other = at * WORD + ((turned.trailing_zeros() + start) % u64::BITS) as usize;
                    let found = find(other);
                    if found.is_some() {
                        return found;
                    }
                    turned &= turned - 1;
                }
                None
            })
        })
    }
}

/// Sets the bit of a pod in the set of its group.
fn add(sets: &mut BTreeMap<usize, Vec<u64>>, group: usize, pod: usize, words: usize) {
    sets.entry(group).or_insert_with(|| vec![0; words])[pod / WORD] |= 1 << (pod % WORD);
}

/// The caches and nodes to which a pod's CPUs belong.
struct Groups {
    caches: BTreeSet<usize>,
    nodes: BTreeSet<usize>,
}

impl Groups {
    fn of(topology: &Topology, pod: &CpuSet) -> Self {
        let cpus = || topology.cpus().iter().filter(|cpu| pod.contains(cpu.id));
        Self { caches: cpus().map(|cpu| cpu.cache).collect(), nodes: cpus().map(|cpu| cpu.node).collect() }
    }
}

/// For each CPU that belongs to no pod, the pod that gets the CPU's items.
#[derive(Debug, Default)]
pub(crate) struct NearestPods {
    pods: usize,
    of: BTreeMap<usize, usize>,
}

impl NearestPods {
    /// Chooses one of the nearest pods for each CPU that belongs to no pod. The CPU's number decides among equally near
    /// pods, so that such CPUs are spread over these pods.
    pub(crate) fn derive(topology: &Topology, pods: &Pods) -> Self {
        let cpus = || topology.cpus().iter();
        let mut alone = cpus().filter(|cpu| pods.pod_of(cpu.id).is_none()).peekable();
        if alone.peek().is_none() {
            return Self { pods: pods.pods().len(), of: BTreeMap::new() };
        }
        let (mut in_cache, mut in_node) = (BTreeMap::new(), BTreeMap::new());
        for cpu in cpus() {
            // `pod_of` also returns the pod of a CPU that the mask has removed from the pod.
            if let Some(pod) = pods.pod_of(cpu.id).filter(|pod| pods.pods()[*pod].contains(cpu.id)) {
                in_cache.entry(cpu.cache).or_insert_with(BTreeSet::new).insert(pod);
                in_node.entry(cpu.node).or_insert_with(BTreeSet::new).insert(pod);
            }
        }
        let lists = |sets: BTreeMap<usize, BTreeSet<usize>>| -> BTreeMap<usize, Vec<usize>> {
            sets.into_iter().map(|(group, pods)| (group, pods.into_iter().collect())).collect()
        };
        let (in_cache, in_node) = (lists(in_cache), lists(in_node));
        let nearest = |cpu: &Cpu| {
            let near = in_cache.get(&cpu.cache).or_else(|| in_node.get(&cpu.node))?;
            Some((cpu.id, near[cpu.id % near.len()]))
        };
        Self { pods: pods.pods().len(), of: alone.filter_map(nearest).collect() }
    }

    /// Returns the pod for items of a CPU that belongs to no pod.
    pub(crate) fn nearest(&self, cpu: usize) -> usize {
        // If no pod is near, all pods are equally far.
        let any = || cpu.checked_rem(self.pods).unwrap_or(0);
        self.of.get(&cpu).copied().unwrap_or_else(any)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pods::AffinityScope;
    use super::*;
    use proptest::prelude::*;

    fn pods(topology: &Topology, scope: AffinityScope) -> Vec<CpuSet> {
        let all = topology.cpus().iter().map(|cpu| cpu.id).collect();
        Pods::derive(topology, scope, &all).pods().to_vec()
    }

    /// Returns all pods other than `pod`, in the order in which `pod` asks them.
    fn order(neighbours: &Neighbours, pod: usize, pods: usize) -> Vec<usize> {
        let mut left = vec![u64::MAX; pods.div_ceil(WORD)];
        std::iter::from_fn(|| {
            let next = neighbours.find_nearest(pod, |at| left[at], Some)?;
            left[next / WORD] &= !(1 << (next % WORD));
            Some(next)
        })
        .collect()
    }

    /// spec: A3.4: a pod asks the pods of its cache first, then the pods of its node, then all others.
    #[test]
    fn a_cpu_asks_its_cache_first_and_then_its_node() {
        // The machine has two nodes with two caches each, and two CPUs per cache.
        let topology = Topology::uniform(2, 2, 2, 1);
        let neighbours = Neighbours::derive(&topology, &pods(&topology, AffinityScope::Cpu));
        assert_eq!(order(&neighbours, 0, 8), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(order(&neighbours, 5, 8), [4, 6, 7, 0, 1, 2, 3]);
        let neighbours = Neighbours::derive(&topology, &pods(&topology, AffinityScope::Cache));
        assert_eq!(order(&neighbours, 1, 4), [0, 2, 3]);
        assert_eq!(order(&neighbours, 2, 4), [3, 0, 1]);
    }

    /// Returns the pods of the scope, restricted to the CPUs in `mask`.
    fn restricted(topology: &Topology, scope: AffinityScope, mask: &CpuSet) -> Pods {
        let all = topology.cpus().iter().map(|cpu| cpu.id).collect();
        Pods::derive(topology, scope, &all).restricted(mask)
    }

    /// Returns the same as [`NearestPods::nearest`], by a comparison of the CPU's groups with the groups of each pod.
    fn nearest_by_groups(topology: &Topology, pods: &[CpuSet], cpu: usize) -> usize {
        let own = Groups::of(topology, &CpuSet::single(cpu));
        let tier = |pod| {
            let of = Groups::of(topology, pod);
            if !own.caches.is_disjoint(&of.caches) {
                0
            } else {
                1 + u8::from(own.nodes.is_disjoint(&of.nodes))
            }
        };
        let tiers: Vec<_> = pods.iter().map(tier).collect();
        let least = tiers.iter().min().copied().unwrap_or(0);
        let nearest: Vec<_> = (0..pods.len()).filter(|pod| tiers[*pod] == least).collect();
        nearest.get(cpu % nearest.len().max(1)).copied().unwrap_or(0)
    }

    #[test]
    fn a_cpu_of_no_pod_goes_to_a_near_one() {
        let topology = Topology::uniform(2, 2, 2, 1);
        let nearest = |pods: &str| {
            let pods = restricted(&topology, AffinityScope::Cpu, &pods.parse().unwrap());
            NearestPods::derive(&topology, &pods)
        };
        let few = nearest("0,2,3,6");
        let near = [1, 7, 4].map(|cpu| few.nearest(cpu));
        assert_eq!(near, [0, 3, 3], "a pod of the same cache, otherwise of the same node");
        let far = nearest("0,2");
        assert_eq!([4, 5, 6, 7].map(|cpu| far.nearest(cpu)), [0, 1, 0, 1], "alternately");
    }

    proptest! {
        /// spec: A3.4
        #[test]
        fn every_pod_that_is_there_is_found_once(nodes in 1..4_usize, caches in 1..5_usize, cores in 1..20_usize) {
            let topology = Topology::uniform(nodes, caches, cores, 1);
            let pods = pods(&topology, AffinityScope::Cpu);
            let neighbours = Neighbours::derive(&topology, &pods);
            for pod in [0, pods.len() / 2, pods.len() - 1] {
                let mut found = order(&neighbours, pod, pods.len());
                found.sort_unstable();
                prop_assert_eq!(found, (0..pods.len()).filter(|other| *other != pod).collect::<Vec<_>>());
            }
        }

        #[test]
        fn a_cpu_of_no_pod_goes_to_one_of_the_nearest(
            (nodes, caches, cores) in (1..4_usize, 1..4_usize, 1..5_usize),
            scope in proptest::sample::select(AffinityScope::ALL.to_vec()),
            mask in proptest::collection::vec(any::<bool>(), 64),
        ) {
            let topology = Topology::uniform(nodes, caches, cores, 2);
            let mask = topology.cpus().iter().map(|cpu| cpu.id).filter(|cpu| mask[cpu % 64]).collect();
            let pods = restricted(&topology, scope, &mask);
            let nearest = NearestPods::derive(&topology, &pods);
            for cpu in (0..topology.cpus().len() + 9).filter(|cpu| pods.pod_of(*cpu).is_none()) {
                let expected = nearest_by_groups(&topology, pods.pods(), cpu);
                prop_assert_eq!(nearest.nearest(cpu), expected, "{}", cpu);
            }
        }
    }
}
