//! The functions that the test programs, the unit tests, the benches and the lab of cmwq share.
//!
//! | module | |
//! |---|---|
//! | `waits` | polls until a condition holds; ends a test that hangs |
//! | `programs` | runs programs, the present program again, and the built examples |
//! | `skips` | reports that a test is skipped |
//! | `stress` | the sizes of stress tests |
//! | `lines` | a logger that keeps its lines |
//! | `cpu` | uses CPU time, binds a thread to a CPU |
//! | `stats`, `table`, `conditions` | the numbers of a measurement, as a table, and the machine that it ran on |
//! | `picture`, `chart` | draw the parts of a chart, and a chart of bars |
//! | `terminal` | runs a program in a terminal whose screen can be read (feature `terminal`) |
//! | `threads` | facts about the threads of this process (Linux) |
//! | `cgroup` | a cgroup for a test (Linux) |
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

#[cfg(target_os = "linux")]
pub mod cgroup;
pub mod chart;
pub mod conditions;
mod cpu;
mod lines;
pub mod picture;
mod programs;
mod skips;
pub mod stats;
mod stress;
pub mod table;
#[cfg(feature = "terminal")]
pub mod terminal;
#[cfg(target_os = "linux")]
pub mod threads;
mod waits;

#[cfg(unix)]
pub use cpu::burn;
pub use cpu::{pin, spin};
pub use lines::{LINES, Lines};
pub use programs::{again, assert_passed, emulator, example, itself, output, output_within, wait};
pub use skips::{SKIPS, skip, skip_test};
pub use stress::{has_yields, stress};
pub use waits::{SOON, TimeLimit, eventually, holds_within, polled};
