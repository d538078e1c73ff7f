//! The one clock of the process.

use std::sync::OnceLock;
use std::time::Instant;

use crate::policy::time::Time;

/// The time since the first call in this process. It never goes backwards.
#[allow(clippy::disallowed_methods, reason = "this is where time comes from")]
pub(crate) fn now() -> Time {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    // The origin is taken first: a later one could lie after `Instant::now()`.
    let origin = *ORIGIN.get_or_init(Instant::now);
    let nanos = Instant::now().duration_since(origin).as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_counts_on() {
        let before = now();
        let until = before + Duration::from_millis(1);
        while now() < until {
            std::hint::spin_loop();
        }
        assert!(now().since(before) >= Duration::from_millis(1));
    }
}
