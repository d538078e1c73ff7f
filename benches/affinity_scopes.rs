//! Affinity scopes on an issuer's workload: the three scenarios of the kernel's documentation, measured on this machine.
//!
//! ```text
//! cargo bench --bench affinity_scopes -- --quick
//! cargo bench --bench affinity_scopes -- --topology 'l3:2 core:1 pu:1'
//! cargo bench --bench affinity_scopes -- --help
//! ```
//!
//! The documentation encrypts what `fio` writes and verifies; here, an *issuer* is a thread bound to a CPU that keeps a
//! window of 32 KiB blocks in flight. It fills a block with generated content, queues its SHA-512, and sleeps. When a
//! quarter of its window is done it compares digests and contents, and fills and queues the same blocks anew: what the
//! worker and the issuer both touch is worth having in one cache. Few contents are used, and their digests are known, so
//! that comparing costs the issuer little.
//!
//! | scenario | issuers | window |
//! |---|---|---|
//! | 1 | one on every CPU | 64 blocks |
//! | 2 | on a third of the CPUs, one at least | 64 blocks, which saturates the machine |
//! | 3 | on a sixth of the CPUs, one at least | as many blocks in all as there are CPUs: too few, as a block is with its issuer part of the time |
//!
//! | row | |
//! |---|---|
//! | `system` | one pod |
//! | `cache`, `cache (strict)` | a pod for each last-level cache |
//! | `cpu`, `cpu (strict)` | where the cache is only one pod: the smallest scope with two or more |
//! | `system, again` | the first row once more: how far two equal rows come out apart |
//! | `static partition` | no queue: the same blocks, divided among CPUs, each with a thread that fills, hashes and compares. The limit |
//!
//! Every row has an executor of its own, and all live at once. A *round* gives each row a slice of time, in random order;
//! issuers change their CPUs from round to round, all rows alike, so that each CPU gets its turn. Time is taken from the
//! first queueing until the window is done; CPU time is that of the process. A run is so many rounds, the tables show five
//! runs. Rows are compared by the ratios of their slices of one round: the geometric mean of the middle half of them, with
//! a 95 % interval by bootstrap. Criterion's report shows each slice as a sample; its iteration is one block.
//!
//! *Placement* looks at items whose pod, when they were queued, had a CPU for which no item was known. How many of those
//! started in their pod? One that started elsewhere is held against the scope if the pod still had a CPU with neither an
//! item nor an awake issuer.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

#[path = "affinity_scopes/mod.rs"]
mod tables;

fn main() -> std::process::ExitCode {
    tables::main()
}
