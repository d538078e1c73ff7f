//! Atomics and locks whose operations have *points*, at which other threads may run. All unit tests have points.
//! Unoptimised builds with the feature `__testing` also have points, and the crate's other tests use such builds. No
//! user's build has points.
//!
//! In unit tests, a simulated [`machine`](super::machine) decides at each point which of its threads runs next.
//!
//! On real threads, a point does nothing unless the environment has `CMWQ_YIELD_SEED`. Real threads seldom hit a race
//! between two instructions, because hardly any time passes between them. With a seed, the thread may yield or sleep at
//! each point. So sooner or later, the threads interleave in each way that a race needs. Apart from the points, the
//! threads run the same code as in users' builds.
//!
//! Each thread draws its actions from its own pseudo-random sequence, which derives from the seed and the thread's
//! name. A thread without a name uses the number of earlier nameless threads instead. So a failed run can be repeated
//! as exactly as real threads permit.

#![allow(
    dead_code,
    unused_imports,
    reason = "these have the interface of the standard library, but only parts of it are used"
)]

use std::cell::Cell;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic;
use std::time::{Duration, Instant};

pub(crate) use std::sync::{Arc, atomic::Ordering};

/// The least calm thread yields once in this many points, on average.
const YIELD: u64 = 16;
/// The least calm thread sleeps once in this many points, on average. The calmest thread sleeps once in `16 * SLEEP`
/// points.
const SLEEP: u64 = 1024;
/// The longest sleep at a point, in microseconds.
const NAP_MICROS: u64 = 40;
/// If a yield or sleep takes longer than this, other threads compute on this CPU. Each further yield might then last
/// for a time slice of another thread. So the thread neither yields nor sleeps at its points until it has run for as
/// long as the last yield or sleep took. In this way, the points take at most half of the thread's time.
const LOST: Duration = Duration::from_micros(300);

/// The behaviour of a thread at its points.
#[derive(Clone, Copy)]
struct Temper {
    /// The state of the thread's pseudo-random sequence.
    state: u64,
    /// The calmness of the thread. The calmer a thread is, the more seldom it yields and sleeps. Threads of different
    /// calmness overtake each other.
    calm: u32,
    /// Until this time, the thread neither yields nor sleeps at its points.
    hurries: Option<Instant>,
}

thread_local! {
    static TEMPER: Cell<Option<Temper>> = const { Cell::new(None) };
}

/// Executes a point, at which other threads may run.
fn point() {
    #[cfg(test)]
    if super::machine::point() {
        return;
    }
    if let Some(seed) = seed() {
        act(seed);
    }
}

/// Yields or sleeps, as the thread's sequence says.
#[allow(clippy::disallowed_methods, reason = "a point yields and sleeps")]
fn act(seed: u64) {
    let mut temper = TEMPER.get().unwrap_or_else(|| Temper::of_this_thread(seed));
    let drawn = temper.next();
    let nap =
        (drawn % (SLEEP << temper.calm) == 0).then(|| Duration::from_micros((drawn >> 32) % NAP_MICROS));
    if nap.is_some() || drawn % (YIELD << temper.calm) == 0 {
        let begin = Instant::now();
        if temper.hurries.is_none_or(|end| begin >= end) {
            nap.map_or_else(std::thread::yield_now, std::thread::sleep);
            let took = begin.elapsed();
            temper.hurries = (took > LOST).then(|| begin + 2 * took);
        }
    }
    TEMPER.set(Some(temper));
}

impl Temper {
    fn of_this_thread(seed: u64) -> Self {
        static NAMELESS: atomic::AtomicU64 = atomic::AtomicU64::new(0);
        match std::thread::current().name() {
            Some(name) => Self::of(seed, name),
            None => Self::of(seed, NAMELESS.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Returns the temper (the behaviour at points) of a thread. `thread` is a value that distinguishes the thread from
    /// others.
    fn of(seed: u64, thread: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, thread).hash(&mut hasher);
        let mut temper = Self { state: hasher.finish(), calm: 0, hurries: None };
        temper.calm = (temper.next() % 5) as u32;
        temper
    }

    /// Returns the next number of the pseudo-random sequence (SplitMix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Returns the seed, if the environment has one.
fn seed() -> Option<u64> {
    static SEED: OnceLock<Option<u64>> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = std::env::var_os("CMWQ_YIELD_SEED")?;
        let number = given.to_str().and_then(|seed| seed.parse().ok());
        let seed = number.unwrap_or_else(|| panic!("CMWQ_YIELD_SEED is {given:?}; it must be a number"));
        // A test harness would capture and lose the output of `eprintln!`.
        drop(writeln!(std::io::stderr(), "threads yield at their points: CMWQ_YIELD_SEED={seed}"));
        Some(seed)
    })
}

/// Takes a lock between two points. The release of the lock needs no point of its own, because the thread's next
/// operation begins with a point. In unit tests, this function adds no points, because the locks have points of their
/// own.
pub(in crate::sys) fn around_lock<R>(take: impl FnOnce() -> R) -> R {
    if cfg!(test) { take() } else { around(take) }
}

/// Executes a point before the operation and another point after it.
fn around<R>(operation: impl FnOnce() -> R) -> R {
    point();
    let result = operation();
    point();
    result
}

/// Tells the calling thread's simulated machine that the thread accesses this value. Does nothing outside of unit
/// tests.
pub(crate) fn touch<T>(value: *const T, writes: bool) {
    #[cfg(test)]
    super::machine::touch(value.addr(), writes);
    _ = (value, writes);
}

pub(crate) fn fence(ordering: Ordering) {
    around(|| atomic::fence(ordering));
}

/// Defines an atomic type with the operations that all atomics have. The atomics have the layout and initial values of
/// the standard library's atomics.
macro_rules! atomic {
    ($name:ident$(<$parameter:ident>)?, $value:ty) => {
        #[repr(transparent)]
        pub(crate) struct $name$(<$parameter>)?(atomic::$name$(<$parameter>)?);

        impl$(<$parameter>)? $name$(<$parameter>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                touch(self, false);
                point();
                self.0.load(ordering)
            }

            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                touch(self, true);
                around(|| self.0.store(value, ordering));
            }

            pub(crate) fn swap(&self, value: $value, ordering: Ordering) -> $value {
                touch(self, true);
                around(|| self.0.swap(value, ordering))
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                touch(self, true);
                around(|| self.0.compare_exchange(current, new, success, failure))
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                touch(self, true);
                around(|| self.0.compare_exchange_weak(current, new, success, failure))
            }

            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                // This loop has points between the load and the exchange.
                let mut seen = self.load(failure);
                while let Some(next) = update(seen) {
                    match self.compare_exchange_weak(seen, next, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(actual) => seen = actual,
                    }
                }
                Err(seen)
            }

            pub(crate) fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub(crate) fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl$(<$parameter>)? Default for $name$(<$parameter>)? {
            fn default() -> Self {
                Self(Default::default())
            }
        }

        impl$(<$parameter>)? fmt::Debug for $name$(<$parameter>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// Defines the read-modify-write operations that only some atomics have.
macro_rules! operations {
    ($name:ident, $value:ty, $($operation:ident)*) => {
        impl $name {
            $(pub(crate) fn $operation(&self, value: $value, ordering: Ordering) -> $value {
                touch(self, true);
                around(|| self.0.$operation(value, ordering))
            })*
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicPtr<T>, *mut T);
atomic!(AtomicU32, u32);
atomic!(AtomicI64, i64);
atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);
operations!(AtomicBool, bool, fetch_and fetch_or fetch_xor);
operations!(AtomicU32, u32, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
operations!(AtomicI64, i64, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
operations!(AtomicU64, u64, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
operations!(AtomicUsize, usize, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(seed: u64, thread: &str) -> Vec<u64> {
        let mut temper = Temper::of(seed, thread);
        (0..100).map(|_| temper.next()).collect()
    }

    #[test]
    fn a_seed_and_a_name_give_the_same_sequence_again() {
        assert_eq!(sequence(1, "a"), sequence(1, "a"));
        assert_ne!(sequence(1, "a"), sequence(1, "b"));
        assert_ne!(sequence(1, "a"), sequence(2, "a"));
    }

    #[test]
    fn updates_are_those_of_the_standard_library() {
        let (own, standard) = (AtomicU64::new(5), atomic::AtomicU64::new(5));
        let half = |value: u64| (value > 1).then_some(value / 2);
        for _ in 0..4 {
            let updated = own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, half);
            assert_eq!(updated, standard.fetch_update(Ordering::Relaxed, Ordering::Relaxed, half));
        }
        assert_eq!(own.into_inner(), standard.into_inner());
    }
}
