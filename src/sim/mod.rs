//! A simulator of the executor in virtual time, for tests only.
//!
//! It stands in for everything that is not policy: CPUs and their scheduler, threads, sleeping, waking, the
//! manager's thread. It performs what policy answers on bare values and knows no rule of concurrency
//! management itself. Runs are deterministic: the same workload and seed give the same run.
//!
//! A thread is a stack of [`Op`](script::Op)s. Each one is atomic and is one access to one shared word or one
//! critical section of the engine; between two of them any other thread may come. Only burning, sleeping,
//! pausing and the configured latencies cost virtual time. Whatever is free is therefore done within an
//! instant, and what policy promises can be checked exactly whenever time is about to advance.
//!
//! There are no bh pools here: their crew of one wakes no worker in place of another, and `policy::budget` is tested by
//! tables.
//!
//! | file | what |
//! |---|---|
//! | `script` | what items do, and the steps that threads are made of |
//! | `machine` | the clock, who goes next |
//! | `cpus` | the CPUs, who runs there, and who is put off |
//! | `pool` | what a pool, a worker and a gate consist of |
//! | `issue` | the steps from queueing an item to waking a worker |
//! | `worker` | the steps of a worker |
//! | `class` | the steps of pools that take each other's items |
//! | `rescuer` | the steps of a rescuer |
//! | `issuer` | issuers that keep a window of blocks in flight |
//! | `manager` | the steps of the manager |
//! | `cap` | what happens when there are as many threads as may be; streams that share too few |
//! | `scrutiny` | its look at a watched pool, and what it does about what it finds |
//! | `threads` | what can be learnt about threads; guards, and flags that items wait for |
//! | `checks` | what must hold, whatever the workload |
//! | `conserve` | for how long an item may wait while a CPU idles |
//! | `detection` | for how long somebody may sleep or hog without being found, and how fast a pool may grow by it |
//! | `undeclared` | figures: loads without a guard |
//! | `timelines` | golden tests: the documented timelines |
//! | `random` | random workloads on random machines, by seed |
//! | `pods` | the same for pools that take each other's items |
//! | `flushes` | random runs of flushes, later items waiting for them |
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
// The cells that it drives are loom's there, which work in a model only.
#[cfg(not(cmwq_loom))]
mod flushes;
mod issue;
mod issuer;
mod machine;
mod manager;
mod pods;
mod pool;
mod prng;
mod random;
mod rescuer;
mod script;
mod scrutiny;
mod threads;
mod timelines;
mod undeclared;
mod worker;
