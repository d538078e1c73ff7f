//! Trees in the form of Linux's `/sys`, made from a plain description of a machine.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "a child process is started, as a user would")]

use std::fs;
use std::path::{Path, PathBuf};

use super::super::*;
use super::{all_of, pods};
use crate::policy::pods::AffinityScope;

/// A folder that is removed when this value is dropped.
struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

impl Tree {
    /// Makes a tree. Each line names a part that CPUs share (`online`, `core`, `package`, a cache such as `l2` or
    /// `l1i`, `node7`), and the sets of CPUs that share such a part. CPUs that are `offline` have folders, but only few
    /// files in them.
    fn new(name: &str, lines: &str) -> Self {
        let mut nodes = CpuSet::new();
        let tree = Self(std::env::temp_dir().join(format!("cmwq-{}-{name}", std::process::id())));
        for line in lines.lines() {
            let mut words = line.split_whitespace();
            let Some(what) = words.next() else { continue };
            let sets: Vec<CpuSet> = words.map(|list| list.parse().unwrap()).collect();
            match what {
                "online" => tree.online(&sets[0]),
                "offline" => sets[0].iter().for_each(|cpu| tree.take_offline(cpu)),
                node if node.starts_with("node") => {
                    let cpus = sets.first().cloned().unwrap_or_default();
                    nodes.insert(node.trim_start_matches("node").parse().unwrap());
                    tree.list(&format!("node/{node}"), &["cpulist"], &["cpumap"], &cpus);
                }
                _ => sets.iter().enumerate().for_each(|(number, set)| tree.share(what, number, set)),
            }
        }
        tree.list("node", &["online", "possible"], &[], &nodes);
        for node in nodes.iter() {
            let distance = |other| if other == node { "10" } else { "20" };
            let distances: Vec<&str> = nodes.iter().map(distance).collect();
            tree.write(&format!("node/node{node}"), "distance", &distances.join(" "));
        }
        tree
    }

    fn online(&self, cpus: &CpuSet) {
        self.list("cpu", &["online", "present", "possible"], &[], cpus);
    }

    fn take_offline(&self, cpu: usize) {
        drop(fs::remove_dir_all(self.path(&format!("cpu/cpu{cpu}"))));
        self.write(&format!("cpu/cpu{cpu}"), "online", "0");
    }

    fn share(&self, what: &str, number: usize, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            let topology = format!("cpu/cpu{cpu}/topology");
            match what {
                "core" => {
                    self.list(&topology, &["core_cpus_list"], &["core_cpus"], cpus);
                    self.write(&topology, "core_id", &number.to_string());
                }
                // Kernels before 5.3 have only files with these names.
                "siblings" => {
                    self.list(&topology, &["thread_siblings_list"], &["thread_siblings"], cpus);
                    self.write(&topology, "core_id", &number.to_string());
                }
                "package" => {
                    self.list(&topology, &["package_cpus_list"], &["package_cpus"], cpus);
                    self.write(&topology, "physical_package_id", &number.to_string());
                }
                cache => self.cache(cpu, cache, cpus),
            }
        }
    }

    fn cache(&self, cpu: usize, cache: &str, cpus: &CpuSet) {
        let caches = format!("cpu/cpu{cpu}/cache");
        let index = fs::read_dir(self.path(&caches)).map_or(0, Iterator::count);
        let folder = format!("{caches}/index{index}");
        let (level, kind) = match cache.strip_suffix('i') {
            Some(level) => (level, "Instruction"),
            None => (cache, "Unified"),
        };
        self.write(&folder, "level", level.trim_start_matches('l'));
        self.write(&folder, "type", kind);
        self.list(&folder, &["shared_cpu_list"], &["shared_cpu_map"], cpus);
    }

    fn list(&self, folder: &str, lists: &[&str], masks: &[&str], cpus: &CpuSet) {
        let words = cpus.iter().last().unwrap_or(0) / 32;
        let word = |word| {
            (0..32).filter(|bit| cpus.contains(word * 32 + bit)).fold(0_u32, |all, bit| all | 1 << bit)
        };
        let mask: Vec<String> = (0..=words).rev().map(|at| format!("{:08x}", word(at))).collect();
        lists.iter().for_each(|file| self.write(folder, file, &cpus.to_string()));
        masks.iter().for_each(|file| self.write(folder, file, &mask.join(",")));
    }

    fn path(&self, folder: &str) -> PathBuf {
        self.0.join("sys/devices/system").join(folder)
    }

    fn write(&self, folder: &str, file: &str, text: &str) {
        fs::create_dir_all(self.path(folder)).unwrap();
        fs::write(self.path(folder).join(file), format!("{text}\n")).unwrap();
    }
}

fn read(root: &Path) -> Topology {
    let cpus = sysfs::read(&root.join("sys")).unwrap().unwrap();
    checked(&TopologySource::Probe, Ok(cpus)).unwrap()
}

const TWO_NODES: &str = "two nodes of one CPU";

const MACHINES: [(&str, &str, &str, &str, &str); 15] = [
    (
        "caches",
        "online 0-23
         core 0,12 1,13 2,14 3,15 4,16 5,17 6,18 7,19 8,20 9,21 10,22 11,23
         l1 0,12 1,13 2,14 3,15 4,16 5,17 6,18 7,19 8,20 9,21 10,22 11,23
         l1i 0,12 1,13 2,14 3,15 4,16 5,17 6,18 7,19 8,20 9,21 10,22 11,23
         l3 0-2,12-14 3-5,15-17 6-8,18-20 9-11,21-23
         package 0-23
         node0 0-23",
        "0,12 1,13 2,14 3,15 4,16 5,17 6,18 7,19 8,20 9,21 10,22 11,23",
        "0-2,12-14 3-5,15-17 6-8,18-20 9-11,21-23",
        "0-23",
    ),
    (
        "nodes",
        "online 0-7
         core 0 1 2 3 4 5 6 7
         l3 0-3 4-7
         package 0-3 4-7
         node0 0-3
         node1 4-7",
        "0 1 2 3 4 5 6 7",
        "0-3 4-7",
        "0-3 4-7",
    ),
    (
        "siblings",
        "online 0-3\ncore 0-1 2-3\nl2 0-1 2-3\nl3 0-3\npackage 0-3\nnode0 0-3",
        "0-1 2-3",
        "0-3",
        "0-3",
    ),
    ("names of old kernels", "online 0-3\nsiblings 0-1 2-3\nl2 0-3\nnode0 0-3", "0-1 2-3", "0-3", "0-3"),
    // The first CPU of two cores and of two caches is offline. The last CPU of one core is offline, and so are all CPUs
    // of another core. The sets contain the offline CPUs, as on old kernels. Newer kernels leave offline CPUs out of
    // the sets.
    (
        "offline",
        "online 1-3,5,8
         core 0-1 2-3 4-5 6-7 8-9
         l3 0-3 4-7 8-9
         package 0-9
         node0 1-3
         node1 5,8
         offline 0,4,6-7,9",
        "1 2-3 5 8",
        "1-3 5 8",
        "1-3 5,8",
    ),
    // This machine has two fast cores with two threads each, a cluster of slow cores, and two cores without an L3
    // cache.
    (
        "fast and slow",
        "online 0-9
         core 0-1 2-3 4 5 6 7 8 9
         l2 0-1 2-3 4-7 8-9
         l3 0-7
         package 0-9
         node0 0-9",
        "0-1 2-3 4 5 6 7 8 9",
        "0-7 8-9",
        "0-9",
    ),
    (
        "no L3",
        "online 0-3\ncore 0 1 2 3\nl1 0 1 2 3\nl2 0-1 2-3\npackage 0-3\nnode0 0-3",
        "0 1 2 3",
        "0-1 2-3",
        "0-3",
    ),
    ("no caches", "online 0-3\ncore 0 1 2 3\npackage 0-1 2-3\nnode0 0-3", "0 1 2 3", "0-1 2-3", "0-3"),
    (
        "nodes below packages",
        "online 0-3\ncore 0 1 2 3\npackage 0-3\nnode0 0-1\nnode1 2-3",
        "0 1 2 3",
        "0-1 2-3",
        "0-1 2-3",
    ),
    ("some caches", "online 0-3\ncore 0 1 2 3\nl2 0-1\npackage 0-3\nnode0 0-3", "0 1 2 3", "0-1 2-3", "0-3"),
    ("one CPU", "online 0\ncore 0\nl1 0\npackage 0\nnode0 0", "0", "0", "0"),
    (
        "nodes without CPUs",
        "online 0-3\ncore 0 1 2 3\nl3 0-3\npackage 0-3\nnode0\nnode1 0-1\nnode2\nnode4 2-3",
        "0 1 2 3",
        "0-3",
        "0-1 2-3",
    ),
    ("memory first", "online 0-3\ncore 0 1 2 3\npackage 0-3\nnode0\nnode1 0-3", "0 1 2 3", "0-3", "0-3"),
    (
        TWO_NODES,
        "online 0-3\ncore 0 1 2 3\nl3 0-3\npackage 0-3\nnode0 0-3\nnode1 2-3",
        "0 1 2 3",
        "0-3",
        "0-1 2-3",
    ),
    (
        "sparse numbers",
        "online 5,70,1030,4095\ncore 5,1030 70,4095\nl3 5,70,1030,4095\npackage 5,70,1030,4095\nnode3 5,70,1030,4095",
        "5,1030 70,4095",
        "5,70,1030,4095",
        "5,70,1030,4095",
    ),
];

/// spec: A1.4, A6.1. The columns are a name, the lines of the tree, and the pods of the scopes `smt`, `cache` and
/// `numa`.
#[test]
fn groups_are_those_of_the_tree() {
    for (name, lines, smt, cache, numa) in MACHINES {
        let tree = Tree::new(name, lines);
        let topology = read(&tree.0);
        assert_eq!(pods(&topology, AffinityScope::Smt), smt, "smt of {name}");
        assert_eq!(pods(&topology, AffinityScope::Cache), cache, "cache of {name}");
        assert_eq!(pods(&topology, AffinityScope::Numa), numa, "numa of {name}");
    }
}

/// spec: A6.1: the reader finds 1100 CPUs, whose numbers are the multiples of 3. The last 32 CPUs form pairs of
/// threads, and have two caches.
#[test]
fn more_than_a_thousand_cpus_with_gaps_are_all_read() {
    let cpus = |from: usize, to: usize| (from..to).map(|cpu| cpu * 3).collect::<CpuSet>();
    let pairs: Vec<String> = (534..550).map(|pair| cpus(pair * 2, pair * 2 + 2).to_string()).collect();
    let (plain, one, other) = (cpus(0, 1068), cpus(1068, 1084), cpus(1084, 1100));
    let (all, pairs) = (cpus(0, 1100), pairs.join(" "));
    let topology =
        read(&Tree::new("large", &format!("online {all}\ncore {pairs}\nl3 {one} {other}\nnode1 {other}")).0);
    assert_eq!(pods(&topology, AffinityScope::Cache), format!("{plain} {one} {other}"));
    assert_eq!(pods(&topology, AffinityScope::Numa), format!("{} {other}", plain.union(&one)));
    assert!(pods(&topology, AffinityScope::Smt).ends_with(&format!(" 3201 {pairs}")), "{pairs}");
    assert_eq!(all_of(&topology), all);
}

/// spec: A6.1: where the tree hides facts, the reader assumes the simplest machine.
#[test]
fn a_tree_that_tells_little_is_a_plain_machine() {
    let tree = Tree::new("bare", "online 0-3");
    assert_eq!(read(&tree.0), Topology::flat(&"0-3".parse().unwrap()));
    assert!(sysfs::read(&tree.0.join("elsewhere")).unwrap().is_none());
    tree.write("cpu", "online", "0-3,x");
    let error = sysfs::read(&tree.0.join("sys")).unwrap_err().to_string();
    assert!(error.contains("cpu/online: `x` is no CPU number"), "{error}");
}

/// spec: A6.3: hwloc reads another root only if its environment names that root, so a child process reads the tree.
#[cfg(feature = "hwloc")]
#[test]
fn hwloc_tells_the_same_of_every_tree() {
    // Linux never shows a CPU in two nodes, and hwloc would ignore the second node. So this test leaves out the tree
    // with a CPU in two nodes.
    for (name, lines, ..) in MACHINES.into_iter().filter(|(name, ..)| *name != TWO_NODES) {
        let tree = Tree::new(&format!("{name} for hwloc"), lines);
        let mut child = testkit::again("sys::topology::tests::trees::a_child_reads_its_tree_by_both");
        let child = child.env("HWLOC_FSROOT", &tree.0).env("HWLOC_COMPONENTS", "linux,stop");
        let output = testkit::output(child).unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{name}: {said}{errors}");
    }
}

/// The test that the child process of [`hwloc_tells_the_same_of_every_tree`] runs. Without a tree, the test compares
/// nothing.
#[cfg(feature = "hwloc")]
#[test]
fn a_child_reads_its_tree_by_both() {
    let Some(root) = std::env::var_os("HWLOC_FSROOT") else { return };
    let by_hwloc = checked(&TopologySource::Probe, hwloc::read(&TopologySource::Probe)).unwrap();
    assert_eq!(by_hwloc, read(root.as_ref()));
}
