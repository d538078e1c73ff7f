//! Reads the topology of a machine into the plain table that `policy` uses.
//!
//! Contract: a reader returns every online CPU of its source. The online CPUs include those that this process may not
//! use, because the caller decides which CPUs belong to pods (groups of CPUs that share worker pools). The numbers of
//! cores, caches and nodes are unique in the machine. A CPU that shares no core or cache with other CPUs has its own
//! numbers. If several readers can read a source, their results agree. Tests build all readers.
//!
//! * `hwloc` reads all sources. This reader needs the feature `hwloc`.
//! * `sysfs` reads this machine from Linux's `/sys`, and `synthetic` reads descriptions. Without the feature `hwloc`,
//!   the crate uses `sysfs` and `synthetic`, and XML is an error.
//! * If the system tells only the numbers of its CPUs, the crate assumes that each CPU is a core, and that all CPUs
//!   share one cache and one node.

use std::error::Error;
use std::fmt;
use std::fs;

use crate::policy::cpu_set::CpuSet;
use crate::policy::topology::{Cpu, Topology};
use crate::sys::affinity;

#[cfg(feature = "hwloc")]
mod hwloc;
#[cfg(any(test, not(feature = "hwloc")))]
mod synthetic;
#[cfg(all(target_os = "linux", any(test, not(any(feature = "hwloc", cmwq_portable)))))]
mod sysfs;

/// The reason why a source cannot be read.
type Cause = Box<dyn Error + Send + Sync>;

/// The source of the machine's topology: its cores, caches and NUMA nodes.
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
    /// This machine, as it is when the executor is built. The executor never uses a CPU that is offline at that time,
    /// even if the CPU comes online later. Items that are queued on such a CPU run on another CPU.
    ///
    /// hwloc probes the machine, and reads its own environment variables, such as `HWLOC_XMLFILE`. Without the feature
    /// `hwloc`, the crate reads Linux's `/sys`. On other systems, the crate assumes that the machine has one cache and
    /// one node. The crate also assumes one cache and one node, and logs a warning, if the process may use a CPU that
    /// the description lacks. This happens, for example, in a container whose `/sys` shows fewer CPUs than the process
    /// may use.
    #[default]
    Probe,
    /// A description in [hwloc's synthetic format](https://www.open-mpi.org/projects/hwloc/doc/v2.3.0/a00354.php), such
    /// as `"l3:4 core:3 pu:2"`. The description lists the kinds of objects in the machine, from the outermost kind to
    /// the CPUs (`pu`). Each kind has a number, which says how many of its objects are in one object of the preceding
    /// kind.
    ///
    /// Without the feature `hwloc`, each level must name its kind: `pack`, `die`, `numa` or `[numa]`, `group`, `l5` to
    /// `l1`, `core`, `pu`. The numbers of CPUs and nodes can be given as a list, `pu:2(indexes=0,2,1,3)`, or as
    /// interleaved loops, `pu:2(indexes=2*2:1*2)`. Sizes are ignored. Only hwloc can read numbers that are given by
    /// kinds, such as `pu:2(indexes=core:pu)`.
    Synthetic(String),
    /// An XML document, as `lstopo machine.xml` writes it. Even a document of this machine counts as a description of
    /// another machine (see [`ExecutorBuilder::topology`](crate::ExecutorBuilder::topology)). Without the feature
    /// `hwloc`, this source fails with [`TopologyError::NeedsHwloc`].
    ///
    /// hwloc trusts the document, so take it only from a source that you trust. A truncated document is an error, but a
    /// document that contradicts itself can crash the process.
    Xml(String),
}

impl fmt::Display for TopologySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe => f.write_str("the topology of this machine"),
            Self::Synthetic(description) => write!(f, "the synthetic topology {description:?}"),
            // The message leaves out the document, which may be long and which the caller knows.
            Self::Xml(_) => f.write_str("the topology in XML"),
        }
    }
}

/// The reason why no topology could be read.
///
/// # Examples
///
/// The message says which source was wrong, and what a correct source looks like:
///
/// ```
/// fn report(error: &cmwq::TopologyError) {
///     eprintln!("{error}");
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// The source cannot be read, or the machine cannot be probed. The [source](Error::source) of this error says why.
    #[non_exhaustive]
    Rejected {
        /// The source.
        from: TopologySource,
        /// The problem with the source.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// Only hwloc can read this source, but the crate was built without the feature `hwloc`.
    #[non_exhaustive]
    NeedsHwloc {
        /// The source.
        from: TopologySource,
    },
    /// The topology has no CPU.
    #[non_exhaustive]
    NoCpu {
        /// The source.
        from: TopologySource,
    },
    /// A CPU has a number that is not below [`CpuSet::LIMIT`].
    #[non_exhaustive]
    TooLarge {
        /// The source.
        from: TopologySource,
        /// The highest number of a CPU in the topology.
        cpu: usize,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { from, .. } => {
                write!(f, "{from} cannot be read; ")?;
                f.write_str(match from {
                    TopologySource::Probe if cfg!(feature = "hwloc") => {
                        "give a synthetic description or XML instead"
                    }
                    TopologySource::Probe => "give a synthetic description instead",
                    TopologySource::Synthetic(_) => "write levels such as \"l3:4 core:3 pu:2\"",
                    TopologySource::Xml(_) => "give the text of a file that `lstopo machine.xml` has written",
                })
            }
            Self::NeedsHwloc { from } => write!(
                f,
                "{from} needs hwloc: build cmwq with its default feature `hwloc`, or give a synthetic description"
            ),
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
            Self::NeedsHwloc { .. } | Self::NoCpu { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Reads the topology of the whole machine, including CPUs that this process may not use.
pub(crate) fn load(source: &TopologySource) -> Result<Topology, TopologyError> {
    #[cfg(feature = "hwloc")]
    let online = by_hwloc(source)?;
    #[cfg(not(feature = "hwloc"))]
    let online = without_hwloc(source)?;
    Ok(if *source == TopologySource::Probe { online.with_offline(&present()) } else { online })
}

/// Reads the online CPUs.
#[cfg(feature = "hwloc")]
fn by_hwloc(source: &TopologySource) -> Result<Topology, TopologyError> {
    let read = match source {
        TopologySource::Probe if cfg!(cmwq_portable) => flat(),
        _ => hwloc::read(source),
    };
    checked(source, read)
}

/// Reads the online CPUs in a build without hwloc. Test builds contain this function even if they have hwloc.
#[cfg(any(test, not(feature = "hwloc")))]
fn without_hwloc(source: &TopologySource) -> Result<Topology, TopologyError> {
    let read = match source {
        #[cfg(all(target_os = "linux", not(cmwq_portable)))]
        TopologySource::Probe => sysfs::read("/sys".as_ref()).and_then(|cpus| cpus.map_or_else(flat, Ok)),
        #[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
        TopologySource::Probe => flat(),
        TopologySource::Synthetic(description) => synthetic::read(description).map_err(Into::into),
        TopologySource::Xml(_) => return Err(TopologyError::NeedsHwloc { from: source.clone() }),
    };
    checked(source, read)
}

/// Returns the CPUs that are plugged into this machine, including those that are offline. Returns an empty set if the
/// system does not report these CPUs.
fn present() -> CpuSet {
    let list = if cfg!(all(target_os = "linux", not(cmwq_portable))) {
        fs::read_to_string("/sys/devices/system/cpu/present").ok()
    } else {
        None
    };
    list.and_then(|list| list.trim().parse().ok()).unwrap_or_default()
}

/// Returns the CPUs of the process, for a machine about which nothing else is known.
fn flat() -> Result<Vec<Cpu>, Cause> {
    Ok(Topology::flat(&affinity::process_cpus()?).cpus().to_vec())
}

fn checked(source: &TopologySource, read: Result<Vec<Cpu>, Cause>) -> Result<Topology, TopologyError> {
    let cpus = read.map_err(|cause| TopologyError::Rejected { from: source.clone(), cause })?;
    match cpus.iter().map(|cpu| cpu.id).max() {
        None => Err(TopologyError::NoCpu { from: source.clone() }),
        Some(cpu) if cpu >= CpuSet::LIMIT => Err(TopologyError::TooLarge { from: source.clone(), cpu }),
        Some(_) => Ok(Topology::new(cpus)),
    }
}

#[cfg(test)]
mod tests;
