//! Chooses the CPUs of an executor.

use std::io;

use crate::error::BuildExecutorError;
use crate::executor::builder::ExecutorBuilder;
use crate::policy::cpu_set::CpuSet;
use crate::policy::environment::Slot;
use crate::policy::topology::Topology;
use crate::sys::topology::TopologySource;

impl ExecutorBuilder {
    /// Chooses which CPUs of the topology the executor uses. Returns these CPUs, and one [`Slot`] for each of them. A
    /// slot names a CPU of the topology, and the real CPU that serves it.
    pub(super) fn choose_cpus(
        &mut self,
        topology: &Topology,
        real: io::Result<CpuSet>,
    ) -> Result<(CpuSet, Vec<Slot>), BuildExecutorError> {
        let known: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
        let of_this_machine = matches!(self.topology, TopologySource::Probe);
        let cpus = match (self.cpus.take(), &real) {
            (Some(cpus), _) => cpus,
            (None, Ok(process)) if of_this_machine => {
                let common = process.intersection(&known);
                if common.is_empty() {
                    return Err(BuildExecutorError::NoCommonCpu { process: process.clone(), known });
                }
                common
            }
            (None, Err(_)) if of_this_machine => return Err(BuildExecutorError::Cpus(real.unwrap_err())),
            (None, _) => known.clone(),
        };
        if cpus.is_empty() {
            return Err(BuildExecutorError::NoCpu);
        }
        if let Some(cpu) = cpus.iter().find(|cpu| !known.contains(*cpu)) {
            return Err(BuildExecutorError::UnknownCpu { cpu, known });
        }
        let slots = if of_this_machine {
            cpus.iter().map(|cpu| Slot { cpu, real: cpu }).collect()
        } else {
            let real: Vec<usize> = real.map_err(BuildExecutorError::Cpus)?.iter().collect();
            let turn = real.iter().cycle();
            cpus.iter().zip(turn).map(|(cpu, real)| Slot { cpu, real: *real }).collect()
        };
        Ok((cpus, slots))
    }
}
