//! Chooses the CPUs of an executor.

use std::io;

use crate::error::BuildExecutorError;
use crate::executor::builder::ExecutorBuilder;
use crate::policy::cpu_set::CpuSet;
use crate::policy::environment::MappedCpu;
use crate::policy::topology::Topology;
use crate::sys;
use crate::sys::machine;
use crate::sys::topology::TopologySource;

/// The CPUs of a new executor.
pub(super) struct ChosenCpus {
    pub(super) mapped: Vec<MappedCpu>,
    /// The CPUs of the process by which the others were chosen. `None` if the system does not tell them.
    pub(super) process: Option<CpuSet>,
}

/// Returns a flat machine of the process's CPUs, for the default executor if the system does not describe the machine.
pub(super) fn without_description() -> (Topology, ChosenCpus) {
    let process = sys::affinity::process_cpus().unwrap_or_else(|_| sys::affinity::assumed_cpus());
    let mapped = process.iter().map(|cpu| MappedCpu { cpu, real: cpu }).collect();
    (Topology::flat(&process), ChosenCpus { mapped, process: Some(process) })
}

impl ExecutorBuilder {
    /// Loads the topology. Also returns the CPUs that the process may use.
    pub(super) fn load_topology(&self) -> Result<(Topology, io::Result<CpuSet>), BuildExecutorError> {
        let process_cpus = || machine::present_cpus().map_or_else(sys::affinity::process_cpus, Ok);
        let is_probed = self.topology == TopologySource::Probe;
        if let Some(made_up) = machine::cpus().filter(|_| is_probed) {
            return Ok((Topology::flat(&made_up), process_cpus()));
        }
        let before = process_cpus();
        let topology = sys::topology::load(&self.topology).map_err(BuildExecutorError::Topology)?;
        let process = process_cpus();
        let topology = match (&before, &process) {
            (Ok(before), Ok(process)) if is_probed => {
                topology.of_process(self.cpus.as_ref(), before, process)
            }
            _ => topology,
        };
        Ok((topology, process))
    }

    /// Chooses which CPUs of the topology the executor uses, and which real CPUs serve them.
    pub(super) fn choose_cpus(
        &mut self,
        topology: &Topology,
        process: io::Result<CpuSet>,
    ) -> Result<ChosenCpus, BuildExecutorError> {
        let known: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
        let is_probed = self.topology == TopologySource::Probe;
        let cpus = match (self.cpus.take(), &process) {
            (Some(cpus), _) => cpus,
            (None, Ok(process)) if is_probed => process.intersection(&known),
            (None, Err(_)) if is_probed => return Err(BuildExecutorError::Cpus(process.unwrap_err())),
            (None, _) => known.clone(),
        };
        if cpus.is_empty() {
            return Err(BuildExecutorError::NoCpu);
        }
        if let Some(cpu) = cpus.iter().find(|cpu| !known.contains(*cpu)) {
            return Err(BuildExecutorError::UnknownCpu { cpu, known });
        }
        if is_probed {
            let mapped = cpus.iter().map(|cpu| MappedCpu { cpu, real: cpu }).collect();
            return Ok(ChosenCpus { mapped, process: process.ok() });
        }
        let process = process.map_err(BuildExecutorError::Cpus)?;
        let real: Vec<usize> = process.iter().collect();
        let turn = real.iter().cycle();
        let mapped = cpus.iter().zip(turn).map(|(cpu, real)| MappedCpu { cpu, real: *real }).collect();
        Ok(ChosenCpus { mapped, process: Some(process) })
    }
}
