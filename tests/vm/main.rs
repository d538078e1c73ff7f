//! Checks on emulated machines. They have up to 24 CPUs in four caches, two NUMA nodes, SMT siblings, and CPUs that
//! come and go.
//!
//! `make test-vm` boots a Linux kernel with this program on each of these machines, by means of `tests/vm/run`. The
//! program runs the checks of the machine that `CMWQ_VM` names, and compares with the kernel's files in `/sys`. Without
//! this variable, it does nothing.
//!
//! Emulated CPUs are slow, and may pause at any time. So no check asserts a duration, and a wait may last for tens of
//! seconds.
//!
//! | file | contents |
//! |---|---|
//! | `run` | builds, boots the machines, reports the results |
//! | `init` | the first program of a machine |
//! | `machines` | the expected machines |
//! | `sys` | the kernel's description of the machine |
//! | `pods` | pods of every scope, compared with the kernel's description |
//! | `places` | where items run |
//! | `changes` | CPUs that go and return, and quotas |
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

mod changes;
mod machines;
mod places;
mod pods;
mod support;
mod sys;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use crate::machines::{MACHINES, Machine};
use crate::support::TimeLimit;

/// The environment variable that names the emulated machine.
const MACHINE: &str = "CMWQ_VM";
/// The environment variable that restricts the checks to those whose names contain its value.
const ONLY: &str = "CMWQ_VM_ONLY";

struct Check {
    name: &'static str,
    run: fn(&Machine),
}

macro_rules! checks {
    ($($module:ident::$name:ident,)*) => {
        &[$(Check { name: concat!(stringify!($module), "::", stringify!($name)), run: $module::$name }),*]
    };
}

/// The checks for every machine.
const CHECKS: &[Check] = checks![
    pods::the_machine_is_the_expected_one,
    pods::pods_are_those_that_the_kernel_reports,
    places::strict_items_stay_in_the_pod_of_their_issuer,
    places::items_stay_within_the_mask_of_their_queue,
    places::items_of_a_cpu_run_on_it,
    places::items_of_a_node_run_on_it,
];

/// The checks that run only on machines whose set of CPUs changes.
const CHECKS_OF_CHANGES: &[Check] = checks![
    changes::pending_items_of_a_lost_cpu_still_run,
    changes::a_cpu_that_returns_is_used_again,
    changes::a_pod_that_lost_all_of_its_cpus_is_served_elsewhere,
    changes::nothing_is_lost_while_a_cpu_comes_and_goes_under_load,
    changes::items_for_a_cpu_that_was_offline_from_the_start_run,
    changes::an_executor_is_built_while_the_main_thread_has_no_cpu,
    changes::a_narrowed_cpuset_is_obeyed_and_a_widened_one_used,
    changes::managed_pools_follow_a_quota,
];

fn main() -> ExitCode {
    let Ok(name) = std::env::var(MACHINE) else {
        println!("skipped: this runs in the emulated machines of `make test-vm`");
        return ExitCode::SUCCESS;
    };
    let Some(machine) = MACHINES.iter().find(|machine| machine.name == name) else {
        eprintln!("{MACHINE} is {name:?}, which is no machine of tests/vm/machines.rs");
        return ExitCode::from(2);
    };
    let only = std::env::var(ONLY).unwrap_or_default();
    let checks = CHECKS.iter().chain(CHECKS_OF_CHANGES.iter().filter(|_| machine.changes));
    let checks = checks.filter(|check| check.name.contains(&only));
    let (mut passed, mut failed) = (0, 0);
    for check in checks {
        let begun = Instant::now();
        let limit = TimeLimit::of(check.name);
        // A check that fails still brings its CPUs back, so it does not affect the next check.
        let outcome = catch_unwind(AssertUnwindSafe(|| (check.run)(machine)));
        drop(limit);
        let seconds = begun.elapsed().as_secs_f64();
        if outcome.is_ok() {
            passed += 1;
            println!("ok {} ({seconds:.1} s)", check.name);
        } else {
            failed += 1;
            println!("FAILED {} ({seconds:.1} s)", check.name);
        }
    }
    println!("result {passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}
