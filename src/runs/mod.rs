//! Runs of the crate itself on [machines](crate::sys::machine) with simulated CPUs and simulated time. For tests only.
//!
//! The runs do not reimplement any step of the engine: the engine's own code runs, and other threads may run between
//! any two accesses to an atomic or a lock. Only `flushes` calls the cells directly, so that it can try millions of
//! orders of steps. `CMWQ_SIM_RUNS` sets the number of random runs. A run that fails prints its seed, and
//! `CMWQ_SIM_SEED` repeats the run of this seed.
//!
//! The machine's own locks protect the records of a run. These locks have no place in the crate's order of locks.
//!
//! | file | what |
//! |---|---|
//! | `setup` | the executors of all runs; `seeds` has the seeds of random runs |
//! | `again` | a run that is repeated |
//! | `timelines` | the timelines of the kernel documentation, reproduced exactly |
//! | `timers` | timers that fire while their queue is drained |
//! | `undeclared` | loads without a guard: how soon other items start, and how long the load takes |
//! | `affinity` | the three tables of the kernel documentation about affinity scopes |
//! | `detection` | how soon sleepers and hogs are found, and how fast pools grow because of such findings |
//! | `cap` | pools that share too few threads |
//! | `fairness` | queues with weights: their shares, and how long others wait behind a backlog |
//! | `brisk` | pools whose items are short: when they wake another worker |
//! | `pods` | managed queues on machines of several caches: for how long an item may wait |
//! | `parts` | the parts of a worklist: how many items overtake an item in another part, and for how long |
//! | `local` | items that stay with the worker whose item has queued them |
//! | `forks` | items that fork: how soon forks begin, and how many threads a recursion needs |
//! | `lost_cpu` | strict items while the process loses a CPU |
//! | `first_use` | threads that make the same object at its first use |
//! | `flushes` | random runs of flushes, with later items that wait for them; `prng` draws the steps |
//! | `rescuer` | the times at which a rescuer is called |
//! | `backlog` | the bound on pending items, while several threads submit batches |
//! | `shutdown` | the report of a shutdown whose time runs out |
//! | `scale` | the cost of short items on machines with many CPUs |
//! | `programs` | random programs of every operation |

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod affinity;
mod again;
mod backlog;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod brisk;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod cap;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod detection;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod fairness;
mod first_use;
mod flushes;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod forks;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod local;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod lost_cpu;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod parts;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod pods;
mod prng;
mod programs;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod rescuer;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod scale;
mod seeds;
mod setup;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod shutdown;
mod timelines;
mod timers;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod undeclared;
