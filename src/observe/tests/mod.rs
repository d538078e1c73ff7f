//! Compares the texts and the JSON of hand-made snapshots with golden files.

mod sample;
mod texts;
#[cfg(feature = "serde")]
mod wire;
