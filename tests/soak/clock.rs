//! How items and drivers spend time: in real time, or in the virtual time of the test kit.

use std::time::Duration;

#[cfg(feature = "testing")]
mod kit {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    use cmwq::{clock, testing};

    static IS_VIRTUAL: AtomicBool = AtomicBool::new(false);

    /// Makes the time of this process virtual. From now on, items and drivers belong to runs of the test kit.
    pub(crate) fn be_virtual() {
        IS_VIRTUAL.store(true, Relaxed);
    }

    pub(crate) fn is_virtual() -> bool {
        IS_VIRTUAL.load(Relaxed)
    }

    /// Sleeps without a guard.
    pub(super) fn sleep(time: Duration) {
        testing::advance(time);
    }

    pub(super) fn spin(time: Duration) {
        testing::compute(time);
    }

    pub(super) fn give_way() {
        testing::point();
    }

    pub(super) fn holds_within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
        let end = clock::now() + time;
        while !holds() {
            if clock::now() >= end {
                return false;
            }
            testing::advance(Duration::from_millis(50));
        }
        true
    }
}

#[cfg(not(feature = "testing"))]
mod kit {
    use std::time::Duration;

    pub(crate) fn is_virtual() -> bool {
        false
    }

    pub(super) fn sleep(_time: Duration) {}

    pub(super) fn spin(_time: Duration) {}

    pub(super) fn give_way() {}

    pub(super) fn holds_within(_time: Duration, _holds: impl FnMut() -> bool) -> bool {
        false
    }
}

#[cfg(feature = "testing")]
pub(crate) use kit::be_virtual;
pub(crate) use kit::is_virtual;

/// Sleeps without a guard.
pub(crate) fn sleep(time: Duration) {
    if is_virtual() { kit::sleep(time) } else { std::thread::sleep(time) }
}

/// Uses the CPU.
pub(crate) fn spin(time: Duration) {
    if is_virtual() { kit::spin(time) } else { testkit::spin(time) }
}

/// Yields to another thread.
pub(crate) fn give_way() {
    if is_virtual() { kit::give_way() } else { std::thread::yield_now() }
}

/// Returns whether the condition becomes true before this time is over.
pub(crate) fn holds_within(time: Duration, holds: impl FnMut() -> bool) -> bool {
    if is_virtual() { kit::holds_within(time, holds) } else { testkit::holds_within(time, holds) }
}
