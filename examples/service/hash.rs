//! The hash that the service computes.

use cmwq::Cancelled;
use sha2::{Digest, Sha512};

/// The longest accepted body, in bytes.
pub(crate) const MOST_BYTES: u64 = 16 << 20;
const MOST_ROUNDS: u64 = 10_000_000;
/// The number of rounds between two checks of the token. A round takes a third of a microsecond, and a check some
/// nanoseconds.
const ROUNDS_BETWEEN_LOOKS: u64 = 64;

/// Returns the sum in hexadecimal, and ends early if the item is asked to stop.
pub(crate) fn sum(data: &[u8], rounds: u64) -> Result<String, Cancelled> {
    let token = cmwq::cancel_token();
    let mut sum = Sha512::digest(data);
    for round in 1..rounds {
        if round % ROUNDS_BETWEEN_LOOKS == 0 {
            token.check()?;
        }
        sum = Sha512::digest(sum);
    }
    Ok(sum.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect())
}

/// Returns the number of rounds, which is `N` in `?rounds=N`, or 1 by default.
pub(crate) fn rounds(url: &str) -> Result<u64, String> {
    let Some((_, query)) = url.split_once('?') else { return Ok(1) };
    let number = query.strip_prefix("rounds=").and_then(|number| number.parse().ok());
    number
        .filter(|number| (1..=MOST_ROUNDS).contains(number))
        .ok_or(format!("{query:?} is not understood; use rounds=N, with N from 1 to {MOST_ROUNDS}\n"))
}
