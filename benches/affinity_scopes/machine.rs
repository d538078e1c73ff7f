//! The available CPUs, the pods into which each scope divides them, and CPU time.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::Duration;

use cmwq::{AffinityScope, Attrs, BuildExecutorError, CpuSet, Executor, TopologySource, WorkQueue};
use rustix::time::{ClockId, clock_gettime};

use super::plan::SCOPES;

/// The machine on which the bench runs, or the machine that a topology describes.
pub(crate) struct Machine {
    topology: TopologySource,
    /// The real CPU for each CPU of the topology, in their order.
    pub(crate) cpus: Vec<usize>,
    /// For each scope, the real CPUs of each pod.
    pods: Vec<(AffinityScope, Vec<Vec<usize>>)>,
}

impl Machine {
    /// Reads the topology of this machine, or makes a machine of the described shape from its CPUs.
    pub(crate) fn probe(shape: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let topology =
            shape.map_or(TopologySource::Probe, |shape| TopologySource::Synthetic(shape.to_owned()));
        let executor = Executor::builder().topology(topology.clone()).build()?;
        let count = executor.cpus().len();
        let cpus: Vec<usize> = match shape {
            None => executor.cpus().iter().collect(),
            Some(_) => cpus_of_this_thread()?.into_iter().take(count).collect(),
        };
        if cpus.len() < count {
            let (shape, have) = (shape.unwrap_or(""), cpus.len());
            return Err(format!(
                "'{shape}' has {count} CPUs, but this process may use {have}: \
                 describe at most {have}, so that each has a real CPU of its own"
            )
            .into());
        }
        let pods = SCOPES.into_iter().map(|scope| Ok((scope, pods_of(&executor, scope)?)));
        let pods = pods.collect::<Result<_, Box<dyn Error>>>()?;
        Ok(Self { topology, cpus, pods })
    }

    pub(crate) fn pods(&self, scope: AffinityScope) -> &[Vec<usize>] {
        let found = self.pods.iter().find(|(known, _)| *known == scope);
        found.map_or(&[], |(_, pods)| pods)
    }

    pub(crate) fn executor(&self) -> Result<Executor, BuildExecutorError> {
        Executor::builder().topology(self.topology.clone()).build()
    }

    /// Describes the machine on which the numbers were measured.
    pub(crate) fn about(&self, command: &str) -> String {
        let mut text = format!("{}, {} CPUs", model(), self.cpus.len());
        if let TopologySource::Synthetic(shape) = &self.topology {
            // Writing to a string cannot fail, so the result is ignored.
            let _ = write!(text, ", as if its caches were '{shape}'");
        }
        text += "; pods:";
        for (scope, pods) in &self.pods {
            let sets: Vec<String> =
                pods.iter().map(|pod| pod.iter().copied().collect::<CpuSet>().to_string()).collect();
            let _ = write!(text, " {scope} {}{}", sets.join("|"), if *scope == SCOPES[5] { "" } else { "," });
        }
        format!("{text}  \n{}  \n`{command}`\n", compiler())
    }
}

/// Returns the pods of a scope, which are the sets of CPUs that strict workers are bound to.
fn pods_of(executor: &Executor, scope: AffinityScope) -> Result<Vec<Vec<usize>>, Box<dyn Error>> {
    let attrs = Attrs::new().scope(scope).strict(true);
    let queue = WorkQueue::builder("pods").attrs(attrs).build_on(executor)?;
    let mut pods: Vec<Vec<usize>> = Vec::new();
    for cpu in executor.cpus().iter() {
        let pod = queue.item(cpus_of_this_thread).on_cpu(cpu).spawn()?.join()??;
        if !pods.contains(&pod) {
            pods.push(pod);
        }
    }
    if pods.iter().map(Vec::len).sum::<usize>() > executor.cpus().len() {
        return Err(
            "the system does not permit binding workers to CPUs, so there are no pods to compare".into()
        );
    }
    Ok(pods)
}

/// Returns the CPU time of the process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(target_os = "linux")]
fn cpus_of_this_thread() -> std::io::Result<Vec<usize>> {
    let cpus = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).collect())
}

#[cfg(target_os = "linux")]
pub(crate) fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(not(target_os = "linux"))]
fn cpus_of_this_thread() -> std::io::Result<Vec<usize>> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "CPUs can be chosen on Linux only"))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn current_cpu() -> usize {
    0
}

fn model() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or("an unknown processor".into(), |(_, name)| name.trim().to_owned())
}

fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    version.ok().filter(|version| !version.is_empty()).unwrap_or_else(|| "an unknown compiler".into())
}
