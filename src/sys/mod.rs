//! The services of the operating system and the machine, each behind a small contract that this crate defines.
//!
//! Only this folder names `libc`, `hwlocality`, `core_affinity` and the atomics, and only this folder starts the
//! crate's threads. The folder uses nothing from the rest of the crate but the plain types of `policy`.
//!
//! Linux is the main platform. If a service has a Linux and a portable version, its `mod.rs` states the contract of
//! both, and the portable version does as little as the contract allows. Tests build both versions, and
//! `--cfg cmwq_portable` selects the portable versions on Linux. The loom models are built with only three modules of
//! this folder: `sync`, `wait` and `wakers`.

#[cfg(not(cmwq_loom))]
pub(crate) mod affinity;
#[cfg(not(cmwq_loom))]
pub(crate) mod cgroup;
#[cfg(not(cmwq_loom))]
pub(crate) mod clock;
#[cfg(not(cmwq_loom))]
pub(crate) mod fork;
#[cfg(not(cmwq_loom))]
mod held_locks;
#[cfg(not(cmwq_loom))]
mod lock;
#[cfg(not(cmwq_loom))]
mod lossy;
#[cfg(all(any(test, feature = "testing"), not(cmwq_loom)))]
pub(crate) mod machine;
#[cfg(not(any(test, feature = "testing", cmwq_loom)))]
#[path = "machine/none.rs"]
pub(crate) mod machine;
#[cfg(not(cmwq_loom))]
pub(crate) mod pause;
#[cfg(not(cmwq_loom))]
pub(crate) mod probe;
#[cfg(not(cmwq_loom))]
pub(crate) mod search;
#[cfg(all(unix, feature = "control", not(cmwq_loom)))]
pub(crate) mod socket;
#[cfg(not(cmwq_loom))]
#[cfg_attr(
    any(cmwq_portable, not(target_os = "linux")),
    allow(dead_code, reason = "these systems have no records")
)]
pub(crate) mod switches;
pub(crate) mod sync;
#[cfg(not(cmwq_loom))]
pub(crate) mod tasks;
#[cfg(not(cmwq_loom))]
pub(crate) mod thread;
#[cfg(not(cmwq_loom))]
pub(crate) mod thread_state;
#[cfg(not(cmwq_loom))]
pub(crate) mod topology;
pub(crate) mod wait;
pub(crate) mod wakers;
/// Whether the crate uses only services that every system has. With these services alone, threads are not bound to CPUs
/// and have no nice levels.
#[cfg(not(cmwq_loom))]
pub(crate) const PORTABLE: bool = cfg!(any(cmwq_portable, not(target_os = "linux")));

#[cfg(all(any(test, all(feature = "__testing", debug_assertions)), not(cmwq_loom)))]
mod yields;
#[cfg(not(any(test, all(feature = "__testing", debug_assertions), cmwq_loom)))]
#[path = "yields/none.rs"]
mod yields;
