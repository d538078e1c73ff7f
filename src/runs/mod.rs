//! The crate itself, on [machines](crate::sys::machine) whose CPUs and time are made up. For tests only.
//!
//! In contrast to [`sim`](crate::sim), no step of the engine is written again here: its own code runs, and other threads may
//! come between any two accesses to an atomic or a lock.
//!
//! | file | what |
//! |---|---|
//! | `small` | the documented timelines, and a small load in many orders of steps |
//! | `programs` | random programs of every operation |

mod programs;
mod small;
