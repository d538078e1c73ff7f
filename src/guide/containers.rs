//! Containers: shared libraries, CPU quota, seccomp, perf, and limits of tasks.
//!
//! The executor adapts to the limits of its container. The [dump](crate::Executor::dump) shows these limits, and what
//! the system has denied:
//!
//! | what the container does | effect | in the [`Snapshot`](crate::observe::Snapshot) |
//! |---|---|---|
//! | cpuset (`docker run --cpuset-cpus 0-3`), `taskset` | the executor uses these CPUs; it notices a change within a second while it has work | `cpus`, `lost_cpus` |
//! | a `/sys` that shows fewer CPUs (lxcfs) | the executor uses all CPUs that the process may use, and treats them as equals | a warning in the log, `cpus` |
//! | CPU quota (`--cpus 2`), cgroup v1 or v2 | each pod of a managed queue runs fewer items: its share of the quota, rounded down, but at least one | `cpu_quota` |
//! | seccomp or `kernel.perf_event_paranoid` above 2 denies `perf_event_open` | the executor finds missing guards by sampling, within milliseconds | `detection`, `detection_fallback` |
//! | no privilege to raise priorities | workers of `high_priority` queues have the normal nice level, but still pools and a [class](crate#classes) of their own | `nice_denied` |
//! | denies the affinity of threads | workers run anywhere | `affinity_denied` |
//! | limit of tasks (`--pids-limit`), `ulimit -u` | the default of `max_threads` is at most half of this limit, but never less than 4 for each CPU | `max_threads`, `thread_limit_reached` |
//! | hides `/proc` | a thread whose CPU time does not change for 3 ms counts as asleep | `detection_fallback` |
//!
//! A service should log these limits and refusals after its first items have run. The executor makes workers on demand,
//! so it learns only then what the system refuses:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let executor = cmwq::Executor::builder().build()?;
//! cmwq::WorkQueue::builder("first").high_priority(true).build_on(&executor)?.spawn(|| ())?.join()?;
//!
//! let snapshot = executor.dump();
//! println!("CPUs {}, quota {:?}, at most {:?} threads", snapshot.cpus, snapshot.cpu_quota, snapshot.max_threads);
//! if snapshot.nice_denied {
//!     println!("high priority needs root, CAP_SYS_NICE or RLIMIT_NICE");
//! }
//! if let Some(why) = &snapshot.detection_fallback {
//!     println!("missing guards are found by {}: {why}", snapshot.detection);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Shared libraries
//!
//! A program with the default features needs two C libraries at run time: `libhwloc.so.15`, which the build links
//! dynamically, and `libudev.so.1`, which hwloc needs. Without these libraries, the program does not start. Either
//! install the libraries in the image, or build without the feature `hwloc`. On Linux, builds with and without `hwloc`
//! find the same caches, cores and nodes.
//!
//! ```text
//! apt-get install libhwloc15 libudev1    # in the image, on Debian or Ubuntu
//! cargo add cmwq --no-default-features   # or, in the program, to do without both
//! ```
//!
//! # CPU quota
//!
//! On an executor of `n` CPUs with a quota of `q` CPUs, a pod of `p` CPUs runs max(1, ⌊q · p / n⌋) items of managed
//! queues, but no more than `p`. The executor reads the quotas of the process's cgroup and of all visible groups above
//! it, and uses the smallest of these quotas. While the executor has work, it notices a change of these quotas within a
//! second. Per-CPU and plain unbound queues ignore the quota. A container with a small quota on a machine with many
//! CPUs should use managed queues, or a cpuset.
//!
//! # seccomp and perf
//!
//! The default profile of Docker denies `perf_event_open` to processes without `CAP_PERFMON` or `CAP_SYS_ADMIN`, and
//! some distributions set `kernel.perf_event_paranoid` above 2. If the system denies `perf_event_open`, the executor
//! samples the states of threads, which needs no privilege. To let the executor read the scheduler's records of sleeps,
//! add the capability `PERFMON`, or permit the system call and lower the level to 2. A program with guards around all
//! its blocking calls needs neither samples nor records.
//!
//! # Limits of tasks
//!
//! The executor reads the limit of tasks when it is built. All threads of the container or of the user count towards
//! this limit, not only those of the executor. If the system refuses a thread nevertheless, work waits, and the
//! executor tries again, at most once a second. At its own limit, the executor ends idle threads of other pools to make
//! room, but not when the system refuses a thread. The executor tries to make threads in the order in which the pools
//! have asked for them, even if some of the threads are only spares. Meanwhile, rescuers run the items of queues with a
//! [rescuer](crate::WorkQueueBuilder::rescuer). With [`max_threads`](crate::ExecutorBuilder::max_threads), the program
//! sets its own limit. A queue that must never wait for a thread needs a rescuer, which is made with the queue.
//!
//! # Fork
//!
//! If a process forks after it has used an executor, this executor has no workers in the child: see
//! [Fork](crate#fork). A server that loads a program first and forks worker processes later makes the executor in each
//! worker process.
