//! The clock of the crate, for code whose tests run in virtual time (module `testing`).

use std::time::Instant;

use crate::sys::clock;

/// Returns the present time, like [`Instant::now`]. In a test that runs in virtual time (feature `testing`), the
/// returned time is the virtual time.
///
/// Code that measures time or computes deadlines should call this function instead of [`Instant::now`], and subtract
/// such times from each other instead of calling [`Instant::elapsed`]. Then the tests of this code can run in virtual
/// time. Outside of a test in virtual time, the call costs the same as `Instant::now`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let begin = cmwq::clock::now();
/// cmwq::blocking::thread::sleep(Duration::from_millis(2));
/// assert!(cmwq::clock::now() - begin >= Duration::from_millis(2));
/// ```
#[must_use]
#[inline]
pub fn now() -> Instant {
    clock::present()
}
