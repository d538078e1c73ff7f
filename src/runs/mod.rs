//! The crate itself, on [machines](crate::sys::machine) whose CPUs and time are made up. For tests only.
//!
//! In contrast to [`sim`](crate::sim), no step of the engine is written again here: its own code runs, and other threads may
//! come between any two accesses to an atomic or a lock.
//!
//! | file | what |
//! |---|---|
//! | `timelines` | two of the documented timelines |
//! | `programs` | random programs of every operation |

mod programs;
mod timelines;
