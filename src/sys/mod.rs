//! What the operating system and the machine offer, each behind a small contract of our own.
//!
//! Only this folder names `libc`, `hwlocality`, `core_affinity`, `std::thread` and the atomics. It may use
//! policy's plain types, and nothing else of the crate.

pub(crate) mod sync;
pub(crate) mod wait;
