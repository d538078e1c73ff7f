//! The clock from which the crate reads the time.

#[cfg(test)]
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use crate::policy::time::Time;
use crate::sys::{self, machine};

/// The origin of time, which is the time at which this process first read the clock.
struct Origin {
    instant: Instant,
    /// The origin in nanoseconds, read from `CLOCK_MONOTONIC`. The coarse clock counts from the same zero.
    coarse: u64,
}

/// Returns the origin. `now` takes the origin before it reads the clock, so that no time lies before the origin.
#[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
fn origin() -> &'static Origin {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    ORIGIN.get_or_init(|| Origin { instant: Instant::now(), coarse: imp::nanos() })
}

/// Returns the time since this process first read the clock. This time never goes backwards.
#[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
pub(crate) fn now() -> Time {
    if let Some(now) = machine::now() {
        return now;
    }
    let origin = origin().instant;
    let nanos = Instant::now().duration_since(origin).as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns this time as an `Instant` of the standard library, or `None` if the time is too far in the future.
pub(crate) fn instant(at: Time) -> Option<Instant> {
    origin().instant.checked_add(at.since(Time::default()))
}

/// Returns the present time as an `Instant`. On a made-up machine (a simulation for tests), returns the machine's time,
/// counted from the origin.
#[inline]
#[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
pub(crate) fn present() -> Instant {
    match machine::now() {
        Some(now) => instant(now).unwrap_or_else(Instant::now),
        None => Instant::now(),
    }
}

/// Converts this `Instant` of the standard library to a `Time`. An instant before the origin becomes the origin.
pub(crate) fn time(at: Instant) -> Time {
    let nanos = at.saturating_duration_since(origin().instant).as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the time of the last tick of the system's clock. The last tick was at most a few milliseconds ago. The call
/// takes a fifth of the time that [`now`] takes. If the system has no clock that ticks, returns the same time as
/// [`now`].
#[inline]
pub(crate) fn coarse() -> Time {
    if sys::PORTABLE || machine::listens() {
        return last_tick(now());
    }
    Time::from_nanos(imp::coarse_nanos().saturating_sub(origin().coarse))
}

/// Returns the time of the last tick of the coarse clock, in a portable build or on a made-up machine. In such a
/// build and on such a machine, the coarse clock ticks at every instant, unless a test sets another period.
#[cfg(not(test))]
#[inline(always)]
fn last_tick(now: Time) -> Time {
    now
}

#[cfg(test)]
fn last_tick(now: Time) -> Time {
    let period = TICK.get().as_nanos() as u64;
    Time::from_nanos(now.as_nanos() - now.as_nanos().checked_rem(period).unwrap_or(0))
}

#[cfg(test)]
thread_local! {
    /// The time between two ticks of the coarse clock that the calling thread sees on a made-up machine. Zero if the
    /// clock ticks at every instant.
    static TICK: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Sets the time between two ticks of the coarse clock that the calling thread sees on a made-up machine.
#[cfg(test)]
#[cfg_attr(
    any(cmwq_portable, cmwq_uncounted, not(target_os = "linux")),
    allow(dead_code, reason = "only the tests of CPU time need ticks")
)]
pub(crate) fn tick_every(period: Duration) {
    TICK.set(period);
}

/// Returns the time that has passed since the beginning of 1970, for reports. This time may go backwards, because the
/// system may set its clock back. On a made-up machine, whose time begins in 1970, returns the machine's time.
pub(crate) fn since_epoch() -> Duration {
    match machine::now() {
        Some(now) => now.since(Time::default()),
        None => SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod imp {
    #![allow(unsafe_code, reason = "libc reads a clock through a raw pointer")]

    /// Reads the clock of `Instant`.
    pub(super) fn nanos() -> u64 {
        read(libc::CLOCK_MONOTONIC)
    }

    #[inline]
    pub(super) fn coarse_nanos() -> u64 {
        read(libc::CLOCK_MONOTONIC_COARSE)
    }

    fn read(clock: libc::clockid_t) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer refers to memory of the right type. Every Linux has both the monotonic and the coarse
        // clock. If a clock did not exist, its time would always be zero.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
mod imp {
    pub(super) fn nanos() -> u64 {
        0
    }

    pub(super) fn coarse_nanos() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_clock_goes_on() {
        let before = now();
        let until = before + Duration::from_millis(1);
        while now() < until {
            std::hint::spin_loop();
        }
        assert!(now().since(before) >= Duration::from_millis(1));
    }

    /// spec: O1.4
    #[test]
    fn the_coarse_clock_lags_a_little() {
        let before = coarse();
        let until = now() + Duration::from_millis(30);
        while now() < until {
            let (coarse, now) = (coarse(), now());
            assert!(coarse <= now && now.since(coarse) < Duration::from_secs(10));
        }
        assert!(coarse().since(before) >= Duration::from_millis(1), "it goes on");
    }
}
