//! Reads the topology from Linux's `/sys`.
//!
//! Where `/sys` gives no information, the reader assumes the simplest machine. A CPU without listed siblings is
//! a core by itself. If `/sys` lists no cache of a CPU, the CPU's innermost package or node takes the place of the
//! cache. CPUs without a listed node are on node 0.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Cause;
use crate::policy::cpu_set::CpuSet;
use crate::policy::topology::Cpu;

/// Sets of CPUs that share a part of the machine, each set with its first CPU.
#[derive(Default)]
struct Groups(Vec<(usize, CpuSet)>);

/// Reads every CPU that is online, from the tree at `root`. Returns `None` if there is no such tree, or if this process
/// may not read it.
pub(super) fn read(root: &Path) -> Result<Option<Vec<Cpu>>, Cause> {
    let folder = root.join("devices/system/cpu");
    let Some(online) = list(&folder.join("online"))? else { return Ok(None) };
    let nodes = nodes(&root.join("devices/system/node"), &online)?;
    let (mut cores, mut caches, mut outer) = (Groups::default(), Groups::default(), Groups::default());
    outer.0.extend(nodes.iter().filter_map(|(_, cpus)| Some((cpus.first()?, cpus.clone()))));
    for cpu in online.iter() {
        let folder = folder.join(format!("cpu{cpu}"));
        let topology = folder.join("topology");
        // Kernels before 5.3 have only the second file of each list.
        cores.add(cpu, &online, &topology, &["core_cpus_list", "thread_siblings_list"])?;
        outer.add(cpu, &online, &topology, &["package_cpus_list", "core_siblings_list"])?;
        for cache in data_caches(&folder.join("cache"))? {
            caches.add(cpu, &online, &cache, &["shared_cpu_list"])?;
        }
    }
    let cores = cores.by_cpu(|size| usize::MAX - size);
    // For a CPU with caches, the reader uses the outermost cache. For a CPU without caches, its innermost package or
    // node takes the place of the cache.
    let caches = caches.by_cpu(|size| size);
    let outer = outer.by_cpu(|size| usize::MAX - size);
    let cpu = |id| {
        // A group is numbered by its first CPU. So the groups that take the place of caches need a separate range of
        // numbers.
        let without = || CpuSet::LIMIT + outer.get(&id).map_or(CpuSet::LIMIT, |first| *first);
        let cache = caches.get(&id).copied().unwrap_or_else(without);
        Cpu { id, core: cores.get(&id).copied().unwrap_or(id), cache, node: node_of(&nodes, id) }
    };
    Ok(Some(online.iter().map(cpu).collect()))
}

impl Groups {
    /// Adds the set that the first existing file of `files` lists. Each CPU of a set lists the whole set, so each set
    /// is added only when `cpu` is its first CPU.
    fn add(&mut self, cpu: usize, online: &CpuSet, folder: &Path, files: &[&str]) -> Result<(), Cause> {
        for file in files {
            if let Some(cpus) = list(&folder.join(file))? {
                let cpus = cpus.intersection(online);
                if cpus.first() == Some(cpu) {
                    self.0.push((cpu, cpus));
                }
                break;
            }
        }
        Ok(())
    }

    /// Returns for each CPU the first CPU of its set. If a CPU is in several sets, the set whose size has the highest
    /// `rank` is used.
    fn by_cpu(mut self, rank: impl Fn(usize) -> usize) -> BTreeMap<usize, usize> {
        self.0.sort_by_key(|(_, cpus)| rank(cpus.len()));
        self.0.iter().flat_map(|(first, cpus)| cpus.iter().map(|cpu| (cpu, *first))).collect()
    }
}

/// Returns the NUMA nodes and their CPUs. Leaves out the nodes that have only memory.
fn nodes(folder: &Path, online: &CpuSet) -> Result<Vec<(usize, CpuSet)>, Cause> {
    let mut nodes = Vec::new();
    for (number, path) in numbered(folder, "node")? {
        let cpus = list(&path.join("cpulist"))?.unwrap_or_default().intersection(online);
        if !cpus.is_empty() {
            nodes.push((number, cpus));
        }
    }
    Ok(nodes)
}

/// Returns the node of a CPU. If the CPU has several nodes, returns the node with the fewest CPUs and, among equals,
/// the lowest number. If the CPU has no node, returns 0.
fn node_of(nodes: &[(usize, CpuSet)], cpu: usize) -> usize {
    let local = nodes.iter().filter(|(_, cpus)| cpus.contains(cpu));
    local.map(|(number, cpus)| (cpus.len(), *number)).min().map_or(0, |(_, number)| number)
}

/// Returns the folders of the caches through which a CPU's data goes.
fn data_caches(folder: &Path) -> Result<Vec<PathBuf>, Cause> {
    let mut caches = Vec::new();
    for (_, path) in numbered(folder, "index")? {
        if text(&path.join("type"))?.is_none_or(|kind| kind.trim() != "Instruction") {
            caches.push(path);
        }
    }
    Ok(caches)
}

/// Returns the entries of a folder whose file names consist of `name` and a number. The result is empty if there is no
/// such folder.
fn numbered(folder: &Path, name: &str) -> Result<Vec<(usize, PathBuf)>, Cause> {
    let Some(entries) = known(fs::read_dir(folder)).map_err(|error| at(folder, &error))? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| at(folder, &error))?.path();
        let file = path.file_name().and_then(|file| file.to_str());
        if let Some(number) = file.and_then(|file| file.strip_prefix(name)?.parse().ok()) {
            found.push((number, path));
        }
    }
    Ok(found)
}

/// Returns the CPUs that a file lists, or `None` if there is no such file.
fn list(path: &Path) -> Result<Option<CpuSet>, Cause> {
    let parse = |text: String| text.parse().map_err(|error| format!("{}: {error}", path.display()).into());
    text(path)?.map(parse).transpose()
}

fn text(path: &Path) -> Result<Option<String>, Cause> {
    known(fs::read_to_string(path)).map_err(|error| at(path, &error))
}

/// Returns `None` if the file does not exist or this process may not read it. A container may hide parts of the tree,
/// and a CPU may go offline while its files are read.
fn known<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn at(path: &Path, error: &io::Error) -> Cause {
    format!("{}: {error}", path.display()).into()
}
