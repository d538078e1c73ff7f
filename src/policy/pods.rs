//! Pods: the groups of CPUs in which an unbound queue keeps its items.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

use super::cpu_set::CpuSet;
use super::topology::{Cpu, Topology};

/// The approximate number of cores in each shard of a cache. A cache has at least two shards if it has at least one and
/// a half times this number of cores.
const CORES_PER_SHARD: usize = 8;

/// Decides how near an item of an unbound queue stays to the CPU that queued it.
///
/// A scope divides the CPUs of the machine into pods. Each pod has its own workers, and an item goes to the pod of the
/// CPU that queued it. Small pods keep an item's data in nearby caches. If a pod cannot take an item, the item goes to
/// the nearest pod that can take it, unless the queue is [strict](crate::Attrs::strict).
///
/// # Examples
///
/// ```
/// use cmwq::AffinityScope;
///
/// assert_eq!(AffinityScope::default(), AffinityScope::Default);
/// assert_eq!(AffinityScope::CacheShard.to_string(), "cache_shard");
/// assert_eq!("numa".parse(), Ok(AffinityScope::Numa));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
#[doc(alias = "wq_affn_scope")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum AffinityScope {
    /// Each CPU is a pod by itself.
    #[doc(alias = "WQ_AFFN_CPU")]
    Cpu,
    /// The SMT siblings of a core are a pod.
    #[doc(alias = "WQ_AFFN_SMT")]
    Smt,
    /// CPUs that share a last-level cache are a pod. This scope is the best choice for most work.
    #[doc(alias = "WQ_AFFN_CACHE")]
    Cache,
    /// Like [`Cache`](Self::Cache), but the cores of a large cache are divided evenly into pods of about eight cores:
    /// 1–11 cores are one pod, 12–19 cores are two pods, and 20–27 cores are three. SMT siblings stay together. This
    /// scope is for machines on which one cache serves so many CPUs that the CPUs would contend for one pool.
    #[doc(alias = "WQ_AFFN_CACHE_SHARD")]
    CacheShard,
    /// CPUs of one NUMA node are a pod.
    #[doc(alias = "WQ_AFFN_NUMA")]
    Numa,
    /// All CPUs are one pod.
    #[doc(alias = "WQ_AFFN_SYSTEM")]
    System,
    /// The executor's default scope. If that default [changes](crate::Executor::set_default_scope), the queue's scope
    /// changes too. The default is [`Cache`](Self::Cache) unless the user sets another scope.
    #[default]
    #[doc(alias = "WQ_AFFN_DFL")]
    Default,
}

impl AffinityScope {
    /// All scopes but [`Default`](Self::Default), which stands for one of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Cpu, Self::Smt, Self::Cache, Self::CacheShard, Self::Numa, Self::System];

    /// Returns the kernel's name for the scope.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Smt => "smt",
            Self::Cache => "cache",
            Self::CacheShard => "cache_shard",
            Self::Numa => "numa",
            Self::System => "system",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for AffinityScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for AffinityScope {
    type Err = ParseAffinityScopeError;

    /// Parses the kernel's name for a scope. The name must be complete, because `cache_shard` begins with `cache`.
    fn from_str(name: &str) -> Result<Self, ParseAffinityScopeError> {
        let found = Self::ALL.into_iter().chain([Self::Default]).find(|scope| scope.name() == name);
        found.ok_or_else(|| ParseAffinityScopeError { name: name.to_owned() })
    }
}

/// The error for a text that does not name an affinity scope.
///
/// # Examples
///
/// ```
/// use cmwq::AffinityScope;
///
/// let error = "caches".parse::<AffinityScope>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`caches` is no affinity scope: write one of cpu, smt, cache, cache_shard, numa, system, default",
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseAffinityScopeError {
    name: String,
}

impl fmt::Display for ParseAffinityScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = AffinityScope::ALL.map(AffinityScope::name).join(", ");
        write!(f, "`{}` is no affinity scope: write one of {names}, default", self.name)
    }
}

impl Error for ParseAffinityScopeError {}

/// The allowed CPUs of a machine, divided into the pods of a scope.
///
/// Pods are numbered from 0 in the order of their lowest CPU. No pod is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pods {
    pods: Vec<CpuSet>,
    /// The pod of each CPU, by CPU number.
    pod_of: Vec<Option<usize>>,
}

impl Pods {
    /// Divides the CPUs of the machine into pods, and then restricts the pods to `allowed`. So the other CPUs in
    /// `allowed` do not influence whether two CPUs share a pod. A CPU that the topology does not know belongs to no
    /// pod.
    pub(crate) fn derive(topology: &Topology, scope: AffinityScope, allowed: &CpuSet) -> Self {
        let cpus = topology.cpus();
        let groups: Vec<usize> = match scope {
            AffinityScope::Cpu => cpus.iter().map(|cpu| cpu.id).collect(),
            AffinityScope::Smt => cpus.iter().map(|cpu| cpu.core).collect(),
            // The caller has replaced `Default` by the executor's default scope. If `Default` still arrives here, it
            // means the crate's own default.
            AffinityScope::Cache | AffinityScope::Default => cpus.iter().map(|cpu| cpu.cache).collect(),
            AffinityScope::CacheShard => cache_shards(cpus),
            AffinityScope::Numa => cpus.iter().map(|cpu| cpu.node).collect(),
            AffinityScope::System => vec![0; cpus.len()],
        };

        let mut pods: Vec<CpuSet> = Vec::new();
        let mut pod_of = Vec::new();
        let mut pod_of_group = BTreeMap::new();
        for (cpu, group) in cpus.iter().zip(groups).filter(|(cpu, _)| allowed.contains(cpu.id)) {
            let pod = *pod_of_group.entry(group).or_insert(pods.len());
            if pod == pods.len() {
                pods.push(CpuSet::new());
            }
            pods[pod].insert(cpu.id);
            pod_of.resize(cpu.id, None);
            pod_of.push(Some(pod));
        }
        Self { pods, pod_of }
    }

    /// Returns the pods restricted to `mask`. A CPU outside of `mask` still belongs to its pod if the mask leaves at
    /// least one CPU of the pod.
    pub(crate) fn restricted(&self, mask: &CpuSet) -> Self {
        let mut left: Vec<(usize, CpuSet)> =
            (0..).zip(self.pods.iter().map(|pod| pod.intersection(mask))).collect();
        left.retain(|(_, pod)| !pod.is_empty());
        left.sort_by_key(|(_, pod)| pod.first());
        let mut numbers = vec![None; self.pods.len()];
        left.iter().enumerate().for_each(|(number, (old, _))| numbers[*old] = Some(number));
        Self {
            pod_of: self.pod_of.iter().map(|pod| pod.and_then(|pod| numbers[pod])).collect(),
            pods: left.into_iter().map(|(_, pod)| pod).collect(),
        }
    }

    pub(crate) fn pods(&self) -> &[CpuSet] {
        &self.pods
    }

    pub(crate) fn pod_of(&self, cpu: usize) -> Option<usize> {
        self.pod_of.get(cpu).copied().flatten()
    }
}

/// Returns the shard of each CPU. Shards are numbered consecutively across all caches.
fn cache_shards(cpus: &[Cpu]) -> Vec<usize> {
    // Counts the cores of each cache, and gives each core its rank in the cache. The ranks ascend with the CPU numbers,
    // because `cpus` is sorted.
    let mut cores_of_cache: BTreeMap<usize, usize> = BTreeMap::new();
    let mut rank_in_cache: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for cpu in cpus {
        rank_in_cache.entry((cpu.cache, cpu.core)).or_insert_with(|| {
            let cores = cores_of_cache.entry(cpu.cache).or_default();
            *cores += 1;
            *cores - 1
        });
    }

    let mut first_shard: BTreeMap<usize, usize> = BTreeMap::new();
    let mut shards = 0;
    for (&cache, &cores) in &cores_of_cache {
        first_shard.insert(cache, shards);
        shards += shards_of(cores);
    }

    let shard = |cpu: &Cpu| {
        let rank = rank_in_cache[&(cpu.cache, cpu.core)];
        first_shard[&cpu.cache] + shard_of_core(rank, cores_of_cache[&cpu.cache])
    };
    cpus.iter().map(shard).collect()
}

/// Returns the number of shards of a cache with `cores` cores.
const fn shards_of(cores: usize) -> usize {
    let rounded = (cores + CORES_PER_SHARD / 2) / CORES_PER_SHARD;
    if rounded == 0 { 1 } else { rounded }
}

/// Returns the shard of the core with this `rank` in a cache of `cores` cores. The cores are divided evenly. If the
/// division leaves a remainder, each of the first shards gets one more core.
const fn shard_of_core(rank: usize, cores: usize) -> usize {
    let shards = shards_of(cores);
    let (size, larger) = (cores / shards, cores % shards);
    let in_larger = larger * (size + 1);
    if rank < in_larger { rank / (size + 1) } else { larger + (rank - in_larger) / size }
}

/// spec: A1
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that the pods agree with `pod_of`, and returns the pods as CPU lists.
    fn pods_in(topology: &Topology, scope: AffinityScope, allowed: &CpuSet) -> Vec<String> {
        let pods = Pods::derive(topology, scope, allowed);
        for (id, pod) in pods.pods().iter().enumerate() {
            assert!(pod.iter().all(|cpu| pods.pod_of(cpu) == Some(id)), "{scope}: pod_of disagrees on {pod}");
        }
        pods.pods().iter().map(CpuSet::to_string).collect()
    }

    fn all_of(topology: &Topology) -> CpuSet {
        topology.cpus().iter().map(|cpu| cpu.id).collect()
    }

    /// Checks the pods of each scope. A row contains a scope and its expected pods, separated by blanks.
    fn check(topology: &Topology, allowed: &CpuSet, rows: [(AffinityScope, &str); 6]) {
        for (scope, expected) in rows {
            assert_eq!(pods_in(topology, scope, allowed).join(" "), expected, "scope {scope}");
        }
    }

    use AffinityScope::{Cache, CacheShard, Cpu as CpuScope, Numa, Smt, System};

    /// spec: A1.1
    #[test]
    fn four_caches_of_three_cores_with_siblings() {
        let epyc = Topology::uniform(1, 4, 3, 2);
        let rows = [
            (CpuScope, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"),
            (Smt, "0,12 1,13 2,14 3,15 4,16 5,17 6,18 7,19 8,20 9,21 10,22 11,23"),
            (Cache, "0-2,12-14 3-5,15-17 6-8,18-20 9-11,21-23"),
            (CacheShard, "0-2,12-14 3-5,15-17 6-8,18-20 9-11,21-23"),
            (Numa, "0-23"),
            (System, "0-23"),
        ];
        check(&epyc, &all_of(&epyc), rows);
    }

    #[test]
    fn two_nodes() {
        let topology = Topology::uniform(2, 1, 2, 1);
        let rows = [
            (CpuScope, "0 1 2 3"),
            (Smt, "0 1 2 3"),
            (Cache, "0-1 2-3"),
            (CacheShard, "0-1 2-3"),
            (Numa, "0-1 2-3"),
            (System, "0-3"),
        ];
        check(&topology, &all_of(&topology), rows);
    }

    /// spec: A1.4
    #[test]
    fn without_an_l3_each_core_has_its_own_last_level() {
        let topology = Topology::uniform(1, 2, 1, 2);
        let rows = [
            (CpuScope, "0 1 2 3"),
            (Smt, "0,2 1,3"),
            (Cache, "0,2 1,3"),
            (CacheShard, "0,2 1,3"),
            (Numa, "0-3"),
            (System, "0-3"),
        ];
        check(&topology, &all_of(&topology), rows);
    }

    #[test]
    fn one_cpu() {
        let topology = Topology::uniform(1, 1, 1, 1);
        let rows = AffinityScope::ALL.map(|scope| (scope, "0"));
        check(&topology, &CpuSet::single(0), rows);
    }

    #[test]
    fn sparse_numbers_above_1024() {
        let cpu = |id, core, cache, node| Cpu { id, core, cache, node };
        let topology =
            Topology::new(vec![cpu(5000, 1, 1, 3), cpu(8, 0, 0, 0), cpu(5001, 1, 1, 3), cpu(1100, 2, 0, 0)]);
        let rows = [
            (CpuScope, "8 1100 5000 5001"),
            (Smt, "8 1100 5000-5001"),
            (Cache, "8,1100 5000-5001"),
            (CacheShard, "8,1100 5000-5001"),
            (Numa, "8,1100 5000-5001"),
            (System, "8,1100,5000-5001"),
        ];
        check(&topology, &all_of(&topology), rows);
        let pods = Pods::derive(&topology, Numa, &all_of(&topology));
        assert_eq!((pods.pod_of(9), pods.pod_of(6000)), (None, None));
    }

    /// spec: A1.2
    #[test]
    fn pods_have_only_allowed_cpus_and_none_is_empty() {
        let epyc = Topology::uniform(1, 4, 3, 2);
        let allowed: CpuSet = "5,9-10,12,16-17,21,40".parse().unwrap();
        let rows = [
            (CpuScope, "5 9 10 12 16 17 21"),
            (Smt, "5,17 9,21 10 12 16"),
            (Cache, "5,16-17 9-10,21 12"),
            (CacheShard, "5,16-17 9-10,21 12"),
            (Numa, "5,9-10,12,16-17,21"),
            (System, "5,9-10,12,16-17,21"),
        ];
        check(&epyc, &allowed, rows);
        let pods = Pods::derive(&epyc, Cache, &allowed);
        assert_eq!((pods.pod_of(0), pods.pod_of(40)), (None, None));
        assert!(pods_in(&epyc, System, &CpuSet::new()).is_empty());
    }

    #[test]
    fn a_cpu_that_a_queue_may_not_use_keeps_its_pod() {
        let epyc = Topology::uniform(1, 4, 3, 2);
        let pods = Pods::derive(&epyc, Cache, &all_of(&epyc)).restricted(&"9,4-5,18".parse().unwrap());
        assert_eq!(pods.pods().iter().map(CpuSet::to_string).collect::<Vec<_>>(), ["4-5", "9", "18"]);
        assert_eq!(
            [0, 3, 5, 6, 18, 23, 99].map(|cpu| pods.pod_of(cpu)),
            [None, Some(0), Some(0), Some(2), Some(2), Some(1), None]
        );
    }

    #[test]
    fn shards_divide_the_cores_of_a_cache_evenly() {
        for (cores, sizes) in [
            (1, vec![1]),
            (8, vec![8]),
            (11, vec![11]),
            (12, vec![6, 6]),
            (19, vec![10, 9]),
            (20, vec![7, 7, 6]),
            (27, vec![9, 9, 9]),
            (72, vec![8; 9]),
        ] {
            let topology = Topology::uniform(1, 1, cores, 1);
            let pods = Pods::derive(&topology, CacheShard, &all_of(&topology));
            assert_eq!(pods.pods().iter().map(CpuSet::len).collect::<Vec<_>>(), sizes, "{cores} cores");
        }
    }

    #[test]
    fn shards_keep_siblings_together_and_caches_apart() {
        let topology = Topology::uniform(1, 2, 12, 2);
        let shards = pods_in(&topology, CacheShard, &all_of(&topology));
        assert_eq!(shards, ["0-5,24-29", "6-11,30-35", "12-17,36-41", "18-23,42-47"]);
    }

    #[test]
    fn scopes_have_the_kernels_names_which_must_be_complete() {
        for scope in AffinityScope::ALL.into_iter().chain([AffinityScope::Default]) {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        for wrong in ["", "Cache", "cache_", "cach", "Default"] {
            assert!(wrong.parse::<AffinityScope>().is_err(), "{wrong}");
        }
    }

    fn any_topology() -> impl Strategy<Value = Topology> {
        let cpu = (0..1500_usize, 0..40_usize, 0..5_usize, 0..3_usize);
        let cpu = cpu.prop_map(|(id, core, cache, node)| Cpu { id, core, cache, node });
        prop::collection::vec(cpu, 1..100).prop_map(Topology::new)
    }

    proptest! {
        /// spec: A1.1
        #[test]
        fn pods_partition_the_allowed_cpus(
            topology in any_topology(),
            allowed in prop::collection::vec(0..1500_usize, 0..1500),
        ) {
            let known = all_of(&topology);
            let allowed: CpuSet = allowed.into_iter().collect();
            for scope in AffinityScope::ALL {
                let pods = Pods::derive(&topology, scope, &allowed);
                let union = pods.pods().iter().fold(CpuSet::new(), |all, pod| all.union(pod));
                prop_assert_eq!(&union, &allowed.intersection(&known));
                prop_assert_eq!(pods.pods().iter().map(CpuSet::len).sum::<usize>(), union.len());
                prop_assert!(pods.pods().iter().all(|pod| !pod.is_empty()));
                prop_assert!(pods.pods().is_sorted_by_key(CpuSet::first));
                for cpu in 0..1500 {
                    let pod = pods.pod_of(cpu);
                    prop_assert_eq!(pod, pods.pods().iter().position(|pod| pod.contains(cpu)));
                }
            }
        }
    }
}
