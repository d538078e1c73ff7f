//! Reads the topology with hwloc. Only this file of the crate names hwloc's types.

use std::error::Error;
use std::sync::mpsc;

use hwlocality::Topology as Machine;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};

use super::{Cause, TopologySource};
use crate::policy::topology::Cpu;
use crate::sys::thread;

/// Reads every CPU that is online, including those that this process may not use.
pub(super) fn read(source: &TopologySource) -> Result<Vec<Cpu>, Cause> {
    if *source != TopologySource::Probe {
        return read_here(source);
    }
    // While hwloc probes the machine, it moves the calling thread from CPU to CPU. If hwloc moved the main thread,
    // other threads would read a wrong affinity of the process in the meantime.
    let (send, receive) = mpsc::channel();
    let probe = move || drop(send.send(read_here(&TopologySource::Probe)));
    let thread = thread::spawn("cmwq/topology".to_owned(), None, probe)?;
    match thread.join() {
        Ok(()) => receive.recv()?,
        Err(_) => Err("the probing thread panicked".into()),
    }
}

fn read_here(source: &TopologySource) -> Result<Vec<Cpu>, Cause> {
    let machine = load(source)?;
    let cpus = machine.objects_with_type(ObjectType::PU);
    Ok(cpus.filter_map(|pu| Some(to_cpu(&machine, pu, pu.os_index()?))).collect())
}

fn load(source: &TopologySource) -> Result<Machine, Box<dyn Error + Send + Sync>> {
    let builder = TopologyBuilder::new().with_flags(BuildFlags::INCLUDE_DISALLOWED)?;
    let builder = match source {
        TopologySource::Probe => builder,
        TopologySource::Synthetic(description) => builder.from_synthetic(description)?,
        // hwloc has two XML parsers. The smaller parser reads beyond the end of a truncated document.
        TopologySource::Xml(document) if !document.trim_end().ends_with("</topology>") => {
            return Err("the document does not end with `</topology>`".into());
        }
        TopologySource::Xml(document) => builder.from_xml(document)?,
    };
    Ok(builder.build()?)
}

fn to_cpu(machine: &Machine, pu: &TopologyObject, id: usize) -> Cpu {
    let core = pu.first_ancestor_with_type(ObjectType::Core).unwrap_or(pu);
    // For each CPU, the code looks for the CPU's own outermost cache, because the cores of a machine may have different
    // cache levels.
    let cache = pu.ancestors().filter(|object| object.object_type().is_cpu_data_cache()).last();
    let cache = cache.or_else(|| pu.ancestors().find(|object| is_package_or_node(object)));
    let cache = cache.unwrap_or_else(|| machine.root_object());
    Cpu { id, core: group(core), cache: group(cache), node: node(machine, id) }
}

/// Returns whether the object takes the place of the cache for CPUs that have no cache. Packages and NUMA nodes take
/// the cache's place, because no cache spans two of them.
fn is_package_or_node(object: &TopologyObject) -> bool {
    object.object_type() == ObjectType::Package || object.memory_arity() > 0
}

/// Returns the object's number, which no other object of the machine has.
fn group(object: &TopologyObject) -> usize {
    object.global_persistent_index() as usize
}

/// Returns the node nearest to a CPU. A CPU may be local to several nodes, for example to the fast memory of its
/// package and to the memory of its cluster. The nearest of these nodes is the one with the fewest CPUs. Among nodes
/// with equally few CPUs, the nearest is the one with the lowest number. If the CPU has no node, as on a machine
/// without NUMA, returns 0.
fn node(machine: &Machine, cpu: usize) -> usize {
    let local = machine.objects_with_type(ObjectType::NUMANode).filter_map(|node| {
        let cpus = node.cpuset()?;
        cpus.is_set(cpu).then_some((cpus.weight(), node.os_index()?))
    });
    local.min().map_or(0, |(_, index)| index)
}

#[cfg(test)]
pub(super) fn xml_of(description: &str) -> String {
    use hwlocality::topology::export::xml::XMLExportFlags;

    let machine = load(&TopologySource::Synthetic(description.to_owned())).unwrap();
    machine.export_xml(XMLExportFlags::empty()).unwrap().as_str().to_owned()
}
