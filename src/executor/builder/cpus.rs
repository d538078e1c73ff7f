//! Chooses the CPUs of an executor.

use std::io;

use crate::error::BuildExecutorError;
use crate::executor::builder::ExecutorBuilder;
use crate::policy::cpu_set::CpuSet;
use crate::policy::environment::MappedCpu;
use crate::policy::topology::Topology;
use crate::sys;
use crate::sys::affinity::{assumed_cpus, process_cpus};
use crate::sys::machine;
use crate::sys::topology::TopologySource;

/// The CPUs of the process, as read while the machine was described.
pub(super) struct Process {
    /// The CPUs before the description. `None` if they were not read, or if the system did not tell them.
    pub(super) before: Option<CpuSet>,
    /// The CPUs after the description.
    pub(super) now: io::Result<CpuSet>,
}

/// The CPUs of a new executor.
pub(super) struct ChosenCpus {
    pub(super) mapped: Vec<MappedCpu>,
    /// All CPUs that the process might use at some moment of the choice. If the process has lost one of these, the
    /// manager's first check of the machine finds that. `None` if the system does not tell the CPUs of the process.
    pub(super) process: Option<CpuSet>,
}

/// Returns a flat machine of the process's CPUs, for the default executor if the machine cannot be described. If the
/// system does not tell the CPUs either, the machine has as many CPUs as the process may use. The caller logs why the
/// machine could not be described.
pub(super) fn without_description() -> (Topology, ChosenCpus) {
    let process = process_cpus().ok();
    let cpus = process.clone().unwrap_or_else(assumed_cpus);
    let mapped = cpus.iter().map(|cpu| MappedCpu { cpu, real: cpu }).collect();
    (Topology::flat(&cpus), ChosenCpus { mapped, process })
}

impl ExecutorBuilder {
    /// Loads the topology. Also returns the CPUs that the process may use.
    pub(super) fn load_topology(&self) -> Result<(Topology, Process), BuildExecutorError> {
        let load = || sys::topology::load(&self.topology).map_err(BuildExecutorError::Topology);
        if !self.probes() {
            return Ok((load()?, Process { before: None, now: process_cpus() }));
        }
        if let Some(made_up) = machine::cpus() {
            return Ok((Topology::flat(&made_up), Process { before: None, now: process_cpus() }));
        }
        // If the system tells the CPUs only afterwards, those count alone.
        let before = process_cpus().ok();
        let topology = load()?;
        let now = process_cpus();
        let topology = match &now {
            Ok(now) => topology.of_process(self.cpus.as_ref(), before.as_ref().unwrap_or(now), now),
            Err(_) => topology,
        };
        Ok((topology, Process { before, now }))
    }

    /// Chooses which CPUs of the topology the executor uses, and which real CPUs serve them.
    pub(super) fn choose_cpus(
        &mut self,
        topology: &Topology,
        process: Process,
    ) -> Result<ChosenCpus, BuildExecutorError> {
        let known: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
        let Process { before, now } = process;
        let cpus = match (self.cpus.take(), &now) {
            (Some(cpus), _) => cpus,
            (None, Ok(now)) if self.probes() => now.intersection(&known),
            (None, Err(_)) if self.probes() => return Err(BuildExecutorError::Cpus(now.unwrap_err())),
            (None, _) => known.clone(),
        };
        if cpus.is_empty() {
            return Err(BuildExecutorError::NoCpu);
        }
        if let Some(cpu) = cpus.iter().find(|cpu| !known.contains(*cpu)) {
            return Err(BuildExecutorError::UnknownCpu { cpu, known });
        }
        if self.probes() {
            let mapped = cpus.iter().map(|cpu| MappedCpu { cpu, real: cpu }).collect();
            let process = now.ok().map(|now| before.map_or(now.clone(), |before| before.union(&now)));
            return Ok(ChosenCpus { mapped, process });
        }
        let now = now.map_err(BuildExecutorError::Cpus)?;
        let real: Vec<usize> = now.iter().collect();
        let turn = real.iter().cycle();
        let mapped = cpus.iter().zip(turn).map(|(cpu, real)| MappedCpu { cpu, real: *real }).collect();
        Ok(ChosenCpus { mapped, process: Some(now) })
    }

    /// Returns whether the topology is that of this machine.
    fn probes(&self) -> bool {
        self.topology == TopologySource::Probe
    }
}
