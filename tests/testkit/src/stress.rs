//! The sizes of stress tests, and whether yields make each operation slow.

/// Scales a count of a stress test by the environment variable `CMWQ_STRESS`, which is 1 by default.
#[must_use]
pub fn stress(count: usize) -> usize {
    let factor = std::env::var("CMWQ_STRESS").ok().and_then(|factor| factor.parse::<f64>().ok());
    ((count as f64 * factor.unwrap_or(1.0)) as usize).max(1)
}

/// Returns whether threads yield and sleep around each atomic and lock of the crate. If so, each operation takes many
/// times as long.
#[must_use]
pub fn has_yields() -> bool {
    std::env::var_os("CMWQ_YIELD_SEED").is_some()
}
