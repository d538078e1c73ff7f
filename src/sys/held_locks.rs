//! The records of the locks that each thread holds. Only a debug build records locks.

#[cfg(debug_assertions)]
pub(super) use recorded::{Held, Place};
#[cfg(not(debug_assertions))]
pub(super) use unrecorded::{Held, Place};

#[cfg(all(debug_assertions, any(test, feature = "testing")))]
pub(super) use recorded::{apart_from_all, held};
#[cfg(all(not(debug_assertions), any(test, feature = "testing")))]
pub(super) use unrecorded::{apart_from_all, held};

#[cfg(debug_assertions)]
mod recorded {
    use std::cell::Cell;
    use std::panic::Location;

    use crate::policy::locks::Rank;

    /// The maximum number of held locks that are recorded for a thread. A lock beyond this number is checked but not
    /// recorded, so later locks are not checked against this lock.
    const MOST: usize = 8;

    thread_local! {
        /// The locks that this thread holds.
        static HELD: [Cell<Option<Place>>; MOST] = const { [const { Cell::new(None) }; MOST] };
    }

    /// The rank of a lock, and the position of the code that made the lock.
    #[derive(Clone, Copy)]
    pub(crate) struct Place {
        rank: Rank,
        made: &'static Location<'static>,
    }

    /// A lock that this thread holds, as the index of its record in `HELD`. `None` if `HELD` has no record of the lock.
    pub(crate) struct Held(Option<usize>);

    impl Place {
        #[track_caller]
        pub(crate) const fn new(rank: Rank) -> Self {
            Self { rank, made: Location::caller() }
        }

        pub(crate) fn check(self) {
            let wrong = |held: &Self| !self.rank.may_follow(held.rank);
            let held = HELD.with(|held| held.iter().filter_map(Cell::get).find(wrong));
            if let Some(held) = held.filter(|_| !std::thread::panicking()) {
                panic!(
                    "a thread takes the lock {:?} of {} while it holds the lock {:?} of {}, against their order",
                    self.rank, self.made, held.rank, held.made
                );
            }
        }

        pub(crate) fn hold(self) -> Held {
            let hold = |held: &[Cell<Option<Self>>; MOST]| {
                let free = held.iter().position(|held| held.get().is_none())?;
                held[free].set(Some(self));
                Some(free)
            };
            Held(HELD.with(hold))
        }
    }

    impl Held {
        /// Calls `wait`, and counts the lock as not held during this call.
        pub(crate) fn apart(&mut self, wait: impl FnOnce()) {
            let place = self.0.and_then(|at| HELD.with(|held| held[at].take()));
            wait();
            if let Some((at, place)) = self.0.zip(place) {
                HELD.with(|held| held[at].set(Some(place)));
            }
        }
    }

    /// Calls the function as if this thread held no lock, because the function is not the thread's own code.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn apart_from_all<R>(function: impl FnOnce() -> R) -> R {
        let kept = HELD.with(|held| held.each_ref().map(Cell::take));
        let result = function();
        HELD.with(|held| held.iter().zip(kept).for_each(|(held, kept)| held.set(kept)));
        result
    }

    /// Describes a lock that the calling thread holds, if it holds one.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn held() -> Option<String> {
        let held = HELD.with(|held| held.iter().find_map(Cell::get))?;
        Some(format!("the lock {:?} of {}", held.rank, held.made))
    }

    impl Drop for Held {
        fn drop(&mut self) {
            if let Some(at) = self.0 {
                HELD.with(|held| held[at].set(None));
            }
        }
    }
}

#[cfg(not(debug_assertions))]
mod unrecorded {
    use crate::policy::locks::Rank;

    #[derive(Clone, Copy)]
    pub(crate) struct Place;
    pub(crate) struct Held;

    impl Place {
        #[inline(always)]
        pub(crate) const fn new(_rank: Rank) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn check(self) {}

        #[inline(always)]
        pub(crate) fn hold(self) -> Held {
            Held
        }
    }

    impl Held {
        #[inline(always)]
        pub(crate) fn apart(&mut self, wait: impl FnOnce()) {
            wait();
        }
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn apart_from_all<R>(function: impl FnOnce() -> R) -> R {
        function()
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn held() -> Option<String> {
        None
    }
}
