//! Affinity scopes on an issuer's workload: the three scenarios of the kernel's documentation, measured on this machine.
//!
//! ```text
//! cargo bench --bench affinity_scopes -- --quick
//! cargo bench --bench affinity_scopes -- --topology 'l3:2 core:1 pu:1'
//! cargo bench --bench affinity_scopes -- --help
//! ```
//!
//! The documentation encrypts the data that `fio` writes and verifies. In this bench, an *issuer* is a thread bound to
//! a CPU that keeps a window of 32 KiB blocks in flight. It fills a block with generated content, queues its SHA-512,
//! and sleeps. When a quarter of its window is done, it compares digests and contents, and fills and queues the same
//! blocks again. So worker and issuer touch the same data, which is faster within one cache. There are few different
//! contents with known digests, so comparing is cheap for the issuer.
//!
//! | scenario | issuers | window |
//! |---|---|---|
//! | 1 | one on every CPU | 64 blocks |
//! | 2 | on a third of the CPUs, one at least | 64 blocks, which saturates the machine |
//! | 3 | on a sixth of the CPUs, one at least | as many blocks in all as there are CPUs: too few, because the issuer has each block part of the time |
//!
//! | row | |
//! |---|---|
//! | `system` | one pod |
//! | `cache`, `cache (strict)` | a pod for each last-level cache |
//! | `cpu`, `cpu (strict)` | if the cache is only one pod: the smallest scope with two or more |
//! | `system, again` | the first row once more, to show the difference between two equal rows |
//! | `static partition` | no queue: the same blocks, divided among CPUs, each with a thread that fills, hashes and compares. This is the limit |
//!
//! Every row has an executor of its own, and all exist at once. A *round* gives each row a slice of time, in random
//! order. From round to round the issuers change their CPUs, alike for all rows, so that each CPU takes its turn. Times
//! are taken from the first submission until the window is done; CPU time is that of the process. A run consists of
//! several rounds, and the tables show five runs. Rows are compared by the ratios of their slices of one round: the
//! geometric mean of the middle half of them, with a 95 % interval by bootstrap. Criterion's report shows each slice as
//! a sample; its iteration is one block.
//!
//! *Placement* looks at items whose pod had a CPU without a known item when they were queued. It shows how many of
//! those started in their pod. An item that started elsewhere counts against the scope if its pod still had a CPU with
//! neither an item nor an awake issuer.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

#[path = "affinity_scopes/mod.rs"]
mod tables;

fn main() -> std::process::ExitCode {
    tables::main()
}
