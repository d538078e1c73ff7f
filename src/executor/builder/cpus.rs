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
        if let (true, Ok(before), Ok(process)) = (is_probed, &before, &process) {
            // A CPU that comes or goes during the probe does not count. The CPUs that the user has chosen may be those
            // of a description that the user has given to hwloc.
            let lasting = before.intersection(process);
            let unlisted = topology.lacks(&self.cpus.as_ref().unwrap_or(&lasting).intersection(&lasting));
            if !unlisted.is_empty() {
                return Ok((topology.replaced(process, unlisted), Ok(process.clone())));
            }
        }
        Ok((topology, process))
    }

    /// Chooses which CPUs of the topology the executor uses, and which real CPUs serve them.
    pub(super) fn choose_cpus(
        &mut self,
        topology: &Topology,
        real: io::Result<CpuSet>,
    ) -> Result<Vec<MappedCpu>, BuildExecutorError> {
        let known: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
        let is_probed = self.topology == TopologySource::Probe;
        let cpus = match (self.cpus.take(), &real) {
            (Some(cpus), _) => cpus,
            (None, Ok(process)) if is_probed => process.intersection(&known),
            (None, Err(_)) if is_probed => return Err(BuildExecutorError::Cpus(real.unwrap_err())),
            (None, _) => known.clone(),
        };
        if cpus.is_empty() {
            return Err(BuildExecutorError::NoCpu);
        }
        if let Some(cpu) = cpus.iter().find(|cpu| !known.contains(*cpu)) {
            return Err(BuildExecutorError::UnknownCpu { cpu, known });
        }
        if is_probed {
            return Ok(cpus.iter().map(|cpu| MappedCpu { cpu, real: cpu }).collect());
        }
        let real: Vec<usize> = real.map_err(BuildExecutorError::Cpus)?.iter().collect();
        let turn = real.iter().cycle();
        Ok(cpus.iter().zip(turn).map(|(cpu, real)| MappedCpu { cpu, real: *real }).collect())
    }
}
