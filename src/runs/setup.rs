//! Functions that make the executors and durations that the runs on simulated machines need.

use std::time::Duration;

use crate::{Executor, ExecutorBuilder, TopologySource};

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Makes an executor that has all CPUs of a machine. `machine` is the synthetic description of this machine.
pub(super) fn executor(machine: &str, set: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder) -> Executor {
    set(Executor::builder().topology(TopologySource::Synthetic(machine.to_owned()))).build().unwrap()
}
