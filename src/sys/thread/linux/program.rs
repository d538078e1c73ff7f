//! The scheduling of a program that a thread starts.

#![allow(unsafe_code, reason = "a closure is called in the forked child")]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::{process_nice, scheduling_of, set_nice, set_slice};
use crate::sys::affinity::{Mask, watched_cpus};

/// Makes the program start with the CPUs, the nice level and the time slice that the main thread has now. If the system
/// refuses one of these values, the program keeps the value of the thread that starts it.
pub(crate) fn reset_scheduling(command: &mut Command) {
    let cpus = watched_cpus().map(|cpus| Mask::of(&cpus));
    let nice = process_nice().ok();
    let slice = scheduling_of(std::process::id()).ok();
    let slice = slice.map(|attributes| Duration::from_nanos(attributes.sched_runtime));
    let reset = move || {
        if let Some(cpus) = &cpus {
            drop(cpus.bind(0));
        }
        if let Some(nice) = nice {
            drop(set_nice(nice));
        }
        if let Some(slice) = slice {
            drop(set_slice(slice));
        }
        Ok(())
    };
    // SAFETY: in the forked child, the closure only makes system calls and reads values that it owns. Neither the
    // closure nor the drop of a system error takes a lock or allocates.
    unsafe { command.pre_exec(reset) };
}
