//! Texts and JSON of hand-made snapshots, compared with golden files.

mod sample;
mod texts;
#[cfg(feature = "serde")]
mod wire;
