//! A simulator of the executor in virtual time, for tests only.
//!
//! It replaces everything that is not policy: CPUs and their scheduler, threads, sleeping, waking, the manager's
//! thread. It calls policy with plain values and carries out the answers. It has no rule of concurrency management of
//! its own. Runs are deterministic: the same workload and seed give the same run.
//!
//! A thread is a stack of [`Op`](script::Op)s. Each op is atomic: it is one access to one shared word, or one critical
//! section of the engine. Between two ops any other thread may run. Only burning, sleeping, pausing and the configured
//! latencies cost virtual time. All other ops happen within one instant. So the promises of policy can be checked
//! exactly whenever time is about to advance.
//!
//! Bh pools are not simulated: they have a single worker, which is never replaced. Tables test `policy::budget`.
//!
//! | file | content |
//! |---|---|
//! | `script` | the scripts of items, and the steps of threads |
//! | `machine` | the clock, and the choice of the next thread |
//! | `cpus` | the CPUs, their threads, and preemption |
//! | `pool` | the state of pools, workers and gates |
//! | `issue` | the steps from queueing an item to waking a worker |
//! | `worker` | the steps of a worker |
//! | `class` | the steps of pools that take each other's items |
//! | `rescuer` | the steps of a rescuer |
//! | `issuer` | issuers that keep a window of blocks in flight |
//! | `manager` | the steps of the manager |
//! | `cap` | the limit on threads; streams of items that share too few threads |
//! | `scrutiny` | the manager's look at a watched pool, and its actions on the findings |
//! | `threads` | the facts about threads; guards, and flags that items wait for |
//! | `checks` | rules that hold for every workload |
//! | `conserve` | how long an item may wait while a CPU idles |
//! | `detection` | how soon a sleeper or a hog is found, and how fast a pool may grow by that |
//! | `undeclared` | loads without a guard: their expected times |
//! | `timelines` | golden tests: the documented timelines |
//! | `random` | random workloads on random machines, by seed |
//! | `pods` | the same for pools that take each other's items |
//! | `flushes` | random runs of flushes, with later items that wait for them |
//! | `adversaries` | loads made against work conservation |
//! | `affinity` | the documents' affinity tables, simulated |

#![forbid(unsafe_code)]

mod adversaries;
mod affinity;
mod cap;
mod checks;
mod class;
mod conserve;
mod cpus;
mod detection;
// Under `cmwq_loom` its cells use loom's atomics, which work inside of a model only.
#[cfg(not(cmwq_loom))]
mod flushes;
mod issue;
mod issuer;
mod machine;
mod manager;
mod pods;
mod pool;
mod prng;
pub(crate) mod random;
mod rescuer;
mod script;
mod scrutiny;
mod threads;
mod timelines;
mod undeclared;
mod worker;
