//! What the operating system and the machine offer, each behind a small contract of our own.
//!
//! Only this folder names `libc`, `hwlocality`, `core_affinity`, `std::thread` and the atomics. It may use
//! policy's plain types, and nothing else of the crate.
//!
//! Linux is the platform. Where a service has a Linux and a portable version, its `mod.rs` states the contract
//! that both keep, and the portable one does as little as the contract allows. Tests build both.

pub(crate) mod affinity;
pub(crate) mod clock;
pub(crate) mod sync;
pub(crate) mod thread;
pub(crate) mod topology;
pub(crate) mod wait;
