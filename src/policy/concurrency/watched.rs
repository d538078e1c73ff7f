//! The part of the running word that says how the manager watches the pool.

#![forbid(unsafe_code)]

use super::{BRISK, CHECKED_SOON, COVERED, RARELY_CHECKED, Running, WATCHED};

impl Running {
    /// Returns whether the manager checks the pool only rarely, or is about to decide whether to check it rarely.
    pub(crate) const fn is_rarely_checked(self) -> bool {
        self.0 & RARELY_CHECKED != 0
    }

    /// Returns whether the pool is covered: it keeps up to twice as many workers running as its target says.
    pub(crate) const fn is_covered(self) -> bool {
        self.0 & COVERED != 0
    }

    /// Notes that the manager watches the pool from now on. Returns true if the manager did not watch the pool before.
    pub(crate) const fn watch(self) -> (Self, bool) {
        (Self(self.0 | WATCHED), !self.is_watched())
    }

    /// Notes that the manager no longer watches the pool. The caller must check the worklist once more after this call.
    pub(crate) const fn unwatch(self) -> Self {
        let next = self.cover(false).0;
        Self(next.0 & !(WATCHED | RARELY_CHECKED | BRISK | CHECKED_SOON))
    }

    /// Notes that the manager is about to check the pool, and may check it rarely afterwards. From now on, a worker
    /// that starts, or that puts an item on its local list, tells the manager. A brisk or covered pool is not checked
    /// rarely.
    pub(crate) const fn check_rarely(self) -> Self {
        if self.is_brisk() || self.is_covered() { self } else { Self(self.0 | RARELY_CHECKED) }
    }

    /// Notes that the manager checks the pool often from now on. Returns whether the manager checked the pool rarely
    /// before.
    pub(crate) const fn check_often(self) -> (Self, bool) {
        (Self(self.0 & !RARELY_CHECKED), self.is_rarely_checked())
    }

    /// Notes whether the pool is covered. Returns whether the word has changed. If the word has changed, the caller
    /// checks the worklist, as after [`retarget`](Self::retarget). A covered pool is checked often, because no ring of
    /// switch records (`alarms.rs`) reports that the pool's workers sleep.
    pub(crate) const fn cover(self, covers: bool) -> (Self, bool) {
        match self.target() {
            Some(target) if covers != self.is_covered() && !self.is_abandoned() => {
                let often = if covers { self.check_often().0 } else { self };
                (often.with_limit(target << covers as u32, covers), true)
            }
            _ => (self, false),
        }
    }
}
