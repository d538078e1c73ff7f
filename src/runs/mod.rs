//! The crate itself, on [machines](crate::sys::machine) whose CPUs and time are made up. For tests only.
//!
//! No step of the engine is written again here: its own code runs, and other threads may come between any two accesses to an
//! atomic or a lock. Only `flushes` calls the cells by itself, for millions of orders. `CMWQ_SIM_RUNS` sets the number of
//! random runs. A run that fails prints its seed, and `CMWQ_SIM_SEED` repeats that one.
//!
//! What a run writes down lies behind the machine's own locks, which have no place in the crate's order of locks.
//!
//! | file | what |
//! |---|---|
//! | `setup` | what all runs need; `seeds` are those of random ones |
//! | `timelines` | the documented timelines, exactly |
//! | `undeclared` | loads without a guard: how soon others start, and how long it takes |
//! | `affinity` | the three tables of the documents about affinity scopes |
//! | `detection` | how soon sleepers and hogs are found, and how fast pools grow by that |
//! | `cap` | pools that share too few threads |
//! | `pods` | managed queues on machines of several caches: for how long an item may wait |
//! | `flushes` | random runs of flushes, with later items that wait for them; `prng` draws them |
//! | `rescuer` | when a rescuer comes |
//! | `programs` | random programs of every operation |

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod affinity;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod cap;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod detection;
mod flushes;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod pods;
mod prng;
mod programs;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod rescuer;
mod seeds;
mod setup;
mod timelines;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod undeclared;
