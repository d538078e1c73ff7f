//! The sizes of stress tests.

/// Scales a count of a stress test by the environment variable `CMWQ_STRESS`, which is 1 by default.
#[must_use]
pub fn stress(count: usize) -> usize {
    let factor = std::env::var("CMWQ_STRESS").ok().and_then(|factor| factor.parse::<f64>().ok());
    ((count as f64 * factor.unwrap_or(1.0)) as usize).max(1)
}
