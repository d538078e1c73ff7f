//! The machine's topology, read through hwloc and handed over as policy's plain table.

use std::error::Error;
use std::fmt;
use std::sync::mpsc;

use hwlocality::Topology as Machine;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};

use crate::policy::cpu_set::CpuSet;
use crate::policy::topology::{Cpu, Topology};
use crate::sys::thread;

/// Where the topology of the machine is read: its cores, caches and NUMA nodes.
///
/// # Examples
///
/// ```
/// use cmwq::TopologySource;
///
/// assert_eq!(TopologySource::default(), TopologySource::Probe);
///
/// // A machine with four caches, each of three cores with two threads.
/// let machine = TopologySource::Synthetic("l3:4 core:3 pu:2".to_owned());
/// # let _ = machine;
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum TopologySource {
    /// hwloc probes this machine, with regard to hwloc's own environment variables such as `HWLOC_XMLFILE`.
    #[default]
    Probe,
    /// A description in hwloc's synthetic format, such as `"l3:4 core:3 pu:2"`.
    Synthetic(String),
    /// An XML document, as `lstopo machine.xml` writes it.
    ///
    /// hwloc trusts what it reads there, so take it from nobody that you do not trust: a document that was
    /// cut short is an error, but one whose content contradicts itself can crash the process.
    Xml(String),
}

impl fmt::Display for TopologySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe => f.write_str("the topology of this machine"),
            Self::Synthetic(description) => write!(f, "the synthetic topology {description:?}"),
            // The document may be long, and is known to whoever gave it.
            Self::Xml(_) => f.write_str("the topology in XML"),
        }
    }
}

/// Why no topology could be read.
///
/// # Examples
///
/// The message says which source was wrong, and what a right one looks like:
///
/// ```
/// fn report(error: &cmwq::TopologyError) {
///     eprintln!("{error}");
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// hwloc did not accept the source, or could not probe the machine. What it said is the
    /// [source](Error::source) of this error.
    #[non_exhaustive]
    Rejected {
        /// What was to be read.
        from: TopologySource,
        /// What hwloc said.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The topology has no CPU.
    #[non_exhaustive]
    NoCpu {
        /// What was read.
        from: TopologySource,
    },
    /// The number of a CPU is not below [`CpuSet::LIMIT`].
    #[non_exhaustive]
    TooLarge {
        /// What was read.
        from: TopologySource,
        /// The highest number.
        cpu: usize,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { from, cause } => {
                write!(f, "hwloc cannot read {from}: {cause}; ")?;
                f.write_str(match from {
                    TopologySource::Probe => "give a synthetic description or XML instead",
                    TopologySource::Synthetic(_) => "write levels such as \"l3:4 core:3 pu:2\"",
                    TopologySource::Xml(_) => "give the text of a file that `lstopo machine.xml` has written",
                })
            }
            Self::NoCpu { from } => write!(f, "{from} has no CPU: at least one is needed"),
            Self::TooLarge { from, cpu } => {
                write!(f, "{from} has a CPU {cpu}: numbers must be below {}", CpuSet::LIMIT)
            }
        }
    }
}

impl Error for TopologyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rejected { cause, .. } => Some(&**cause),
            Self::NoCpu { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Reads the whole machine, with CPUs that this process may not use: who asks for pods says which ones count.
pub(crate) fn load(source: &TopologySource) -> Result<Topology, TopologyError> {
    if *source != TopologySource::Probe {
        return load_here(source);
    }
    // hwloc sends the probing thread from CPU to CPU. Were it the main thread, others would read a wrong
    // affinity of the process meanwhile.
    let rejected = |cause| TopologyError::Rejected { from: TopologySource::Probe, cause };
    let (send, receive) = mpsc::channel();
    let probe = move || drop(send.send(load_here(&TopologySource::Probe)));
    let thread =
        thread::spawn("cmwq/topology".to_owned(), None, probe).map_err(|error| rejected(error.into()))?;
    match thread.join() {
        Ok(()) => receive.recv().map_err(|error| rejected(error.into()))?,
        Err(_) => Err(rejected("the probing thread panicked".into())),
    }
}

fn load_here(source: &TopologySource) -> Result<Topology, TopologyError> {
    let machine = read(source).map_err(|cause| TopologyError::Rejected { from: source.clone(), cause })?;
    let cpus: Vec<Cpu> = machine
        .objects_with_type(ObjectType::PU)
        .filter_map(|pu| Some(to_cpu(&machine, pu, pu.os_index()?)))
        .collect();
    match cpus.iter().map(|cpu| cpu.id).max() {
        None => Err(TopologyError::NoCpu { from: source.clone() }),
        Some(cpu) if cpu >= CpuSet::LIMIT => Err(TopologyError::TooLarge { from: source.clone(), cpu }),
        Some(_) => Ok(Topology::new(cpus)),
    }
}

fn read(source: &TopologySource) -> Result<Machine, Box<dyn Error + Send + Sync>> {
    let builder = TopologyBuilder::new().with_flags(BuildFlags::INCLUDE_DISALLOWED)?;
    let builder = match source {
        TopologySource::Probe => builder,
        TopologySource::Synthetic(description) => builder.from_synthetic(description)?,
        // Of hwloc's two XML parsers, the small one reads beyond the end of a document that was cut short.
        TopologySource::Xml(document) if !document.trim_end().ends_with("</topology>") => {
            return Err("the document does not end with `</topology>`".into());
        }
        TopologySource::Xml(document) => builder.from_xml(document)?,
    };
    Ok(builder.build()?)
}

fn to_cpu(machine: &Machine, pu: &TopologyObject, id: usize) -> Cpu {
    let core = pu.first_ancestor_with_type(ObjectType::Core).unwrap_or(pu);
    // Each CPU's own outermost cache, as the cores of one machine may differ in the levels that they have.
    let cache = pu.ancestors().filter(|object| object.object_type().is_cpu_data_cache()).last();
    let cache = cache.or_else(|| pu.ancestors().find(|object| is_package_or_node(object)));
    let cache = cache.unwrap_or_else(|| machine.root_object());
    Cpu { id, core: group(core), cache: group(cache), node: node(machine, id) }
}

/// Stands in for the cache of CPUs without any: a cache is part of one package, and reaches no other node's
/// memory.
fn is_package_or_node(object: &TopologyObject) -> bool {
    object.object_type() == ObjectType::Package || object.memory_arity() > 0
}

/// A number that no other object of the machine has.
fn group(object: &TopologyObject) -> usize {
    object.global_persistent_index() as usize
}

/// The node nearest to a CPU. A CPU may be local to several: to the fast memory of its package, say, and to
/// that of its cluster. The one with the fewest CPUs counts, then the lowest; without any, node 0, as on a
/// machine that knows no NUMA.
fn node(machine: &Machine, cpu: usize) -> usize {
    let local = machine.objects_with_type(ObjectType::NUMANode).filter_map(|node| {
        let cpus = node.cpuset()?;
        cpus.is_set(cpu).then_some((cpus.weight(), node.os_index()?))
    });
    local.min().map_or(0, |(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::pods::{AffinityScope, Pods};
    use crate::sys::affinity::process_cpus;
    use hwlocality::topology::export::xml::XMLExportFlags;

    fn synthetic(description: &str) -> Result<Topology, TopologyError> {
        load(&TopologySource::Synthetic(description.to_owned()))
    }

    fn all_of(topology: &Topology) -> CpuSet {
        topology.cpus().iter().map(|cpu| cpu.id).collect()
    }

    fn pods(topology: &Topology, scope: AffinityScope) -> String {
        let pods = Pods::derive(topology, scope, &all_of(topology));
        pods.pods().iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" ")
    }

    fn xml_of(description: &str) -> String {
        let machine = read(&TopologySource::Synthetic(description.to_owned())).unwrap();
        machine.export_xml(XMLExportFlags::empty()).unwrap().as_str().to_owned()
    }

    /// spec: A1. The columns: description, then the pods of scopes smt, cache and numa.
    #[test]
    fn groups_are_those_of_the_description() {
        for (description, smt, cache, numa) in [
            ("l3:2 core:2 pu:2", "0-1 2-3 4-5 6-7", "0-3 4-7", "0-7"),
            ("numa:2 core:4 pu:1", "0 1 2 3 4 5 6 7", "0-3 4-7", "0-3 4-7"),
            // CPUs without caches share the nearest package, node or machine.
            ("core:2 pu:1", "0 1", "0-1", "0-1"),
            ("pack:2 core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-3"),
            ("pack:1 numa:2 core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-1 2-3"),
            ("l2:2 core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-3"),
            ("l3:2 l2:2 l1:1 core:1 pu:1", "0 1 2 3", "0-1 2-3", "0-3"),
            ("pu:1", "0", "0", "0"),
            ("pu:2", "0 1", "0-1", "0-1"),
            ("l3:2 core:1 pu:2(indexes=0,2,1,3)", "0,2 1,3", "0,2 1,3", "0-3"),
            ("l3:2 core:1 pu:1(indexes=2000,70)", "70 2000", "70 2000", "70,2000"),
        ] {
            let topology = synthetic(description).unwrap();
            assert_eq!(pods(&topology, AffinityScope::Smt), smt, "smt of {description}");
            assert_eq!(pods(&topology, AffinityScope::Cache), cache, "cache of {description}");
            assert_eq!(pods(&topology, AffinityScope::Numa), numa, "numa of {description}");
        }
    }

    #[test]
    fn xml_tells_the_same_as_the_description_that_it_came_from() {
        let description = "numa:2 l3:2 core:2 pu:2";
        let from_xml = load(&TopologySource::Xml(xml_of(description))).unwrap();
        assert_eq!(from_xml, synthetic(description).unwrap());
        assert_eq!(from_xml, Topology::new(from_xml.cpus().to_vec()));
    }

    #[test]
    fn a_bad_description_is_an_error_that_says_what_is_right() {
        for description in ["", " ", "garbage", "l3:4 core", "pu:0", "pu:-1", "core:2 l3:", "pu:2\0", "🦀"]
        {
            let error = synthetic(description).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(&format!("synthetic topology {description:?}")), "{message}");
            assert!(message.contains("write levels such as \"l3:4 core:3 pu:2\""), "{message}");
            assert!(error.source().is_some());
        }
        let error = synthetic("pu:1(indexes=65536)").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the synthetic topology \"pu:1(indexes=65536)\" has a CPU 65536: numbers must be below 65536"
        );
    }

    #[test]
    fn bad_xml_is_an_error_wherever_it_was_cut() {
        let xml = |document: &str| load(&TopologySource::Xml(document.to_owned()));
        let machine_without_cpus =
            "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\"/></topology>";
        for document in
            ["garbage", "\0</topology>", "<topology></topology>", "<a></topology>", machine_without_cpus]
        {
            assert!(xml(document).unwrap_err().to_string().contains("`lstopo machine.xml`"), "{document}");
        }
        let whole = xml_of("l3:2 core:1 pu:1");
        let whole = whole.trim_end_matches(['\n', '\0']);
        assert!(xml(whole).is_ok());
        for end in 0..whole.len() {
            assert!(xml(&whole[..end]).is_err(), "cut at {end}");
        }
    }

    /// spec: E2
    #[test]
    fn this_machine_has_every_cpu_of_the_process() {
        let topology = load(&TopologySource::Probe).unwrap();
        assert!(process_cpus().unwrap().is_subset(&all_of(&topology)));
    }
}
