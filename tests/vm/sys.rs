//! Reads the kernel's description of the machine in the simplest way, independently of the crate.

use std::fs;

use cmwq::{AffinityScope, CpuSet};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

pub(crate) fn online() -> CpuSet {
    list(&format!("{CPUS}/online")).expect("the kernel tells the CPUs that are online")
}

/// Takes a CPU offline or online. The write returns when the change is complete.
pub(crate) fn set_online(cpu: usize, online: bool) {
    let file = format!("{CPUS}/cpu{cpu}/online");
    fs::write(&file, if online { "1" } else { "0" }).unwrap_or_else(|error| panic!("{file}: {error}"));
}

/// Returns whether a thread of this process sleeps.
pub(crate) fn is_asleep(thread: i32) -> bool {
    let stat =
        fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("the thread has not ended");
    stat.contains(") S ")
}

/// Returns the pod of a CPU as the kernel describes it. Returns `None` for a scope that the kernel does not know.
pub(crate) fn pod(scope: AffinityScope, cpu: usize) -> Option<CpuSet> {
    let topology = |file: &str| list(&format!("{CPUS}/cpu{cpu}/topology/{file}"));
    Some(match scope {
        AffinityScope::Cpu => CpuSet::single(cpu),
        AffinityScope::Smt => topology("core_cpus_list").expect("a core"),
        AffinityScope::Cache => last_cache(cpu).or_else(|| topology("package_cpus_list")).expect("a package"),
        AffinityScope::Numa => nodes().into_iter().find(|(_, node)| node.contains(cpu)).expect("a node").1,
        AffinityScope::System => online(),
        _ => return None,
    })
}

/// Returns the CPUs that share a CPU's outermost data cache.
fn last_cache(cpu: usize) -> Option<CpuSet> {
    let caches = (0..).map_while(|index| {
        let cache = format!("{CPUS}/cpu{cpu}/cache/index{index}");
        let read = |file: &str| fs::read_to_string(format!("{cache}/{file}")).ok();
        let level: u32 = read("level")?.trim().parse().expect("a level");
        Some((level, read("type")?, list(&format!("{cache}/shared_cpu_list"))?))
    });
    let caches = caches.filter(|(_, kind, _)| kind.trim() != "Instruction");
    Some(caches.max_by_key(|(level, ..)| *level)?.2)
}

/// Returns every node with its CPUs. If the kernel reports no nodes, all CPUs belong to node 0.
pub(crate) fn nodes() -> Vec<(usize, CpuSet)> {
    let Some(nodes) = list(&format!("{NODES}/online")) else { return vec![(0, online())] };
    let cpus = |node| list(&format!("{NODES}/node{node}/cpulist")).expect("a list of the node's CPUs");
    nodes.iter().map(|node| (node, cpus(node))).collect()
}

/// Reads a list of numbers such as `0-3,8`, if the file exists.
fn list(file: &str) -> Option<CpuSet> {
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim();
    if text.is_empty() {
        return Some(CpuSet::new());
    }
    Some(text.parse().unwrap_or_else(|error| panic!("{file}: {error}")))
}
