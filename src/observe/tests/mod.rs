//! Texts and JSON of snapshots that were made by hand, held as they are.

mod sample;
mod texts;
#[cfg(feature = "serde")]
mod wire;
