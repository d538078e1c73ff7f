//! Forks: the process in which an object was made.
//!
//! A forked child has the memory of its parent and none of its threads: threads that do not exist in the child may hold
//! locks, or have begun waits. So each object that relies on threads records the process that made it ([`Origin`]), and
//! checks it before it takes a lock or waits.
//!
//! Contract of a *word*: it keeps the value that is stored in it, and reads 0 in every process that was forked since.
//! The check is one relaxed load: a child begins with one thread, after the fork, and sees the memory as the fork left
//! it.
//!
//! * `linux::word()`: a page that the system empties at each fork, by whichever call. None before Linux 4.14, or under
//!   an emulator that only claims to empty it.
//! * `portable::word()`: a word that a handler of `pthread_atfork` empties; the library's `fork` calls the handler. On
//!   systems that do not fork, it is never emptied.

#![allow(unsafe_code, reason = "the word, and the one value of a process, are published by pointer")]

use std::ptr;
use std::sync::OnceLock;

use super::sync::{AtomicPtr, AtomicU64, Ordering};

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
mod portable;

pub(crate) use portable::end_process;

/// The process in which an object was made, among those that lead to this one by forks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin(u64);

/// Null until it is first needed.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The number of the last process that asked for its origin. A child continues the numbers of its parent, so its number
/// differs from the numbers of all of its ancestors.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Origin {
    /// Returns the origin for the calling process.
    pub(crate) fn here() -> Self {
        let word = word();
        match word.load(Ordering::Relaxed) {
            0 => {
                let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                let set = word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
                Self(set.map_or_else(|by_another_thread| by_another_thread, |_| next))
            }
            number => Self(number),
        }
    }

    /// Returns whether the calling process was forked since, so that it is another process.
    #[inline]
    pub(crate) fn is_forked(self) -> bool {
        word().load(Ordering::Relaxed) != self.0
    }
}

#[inline]
fn word() -> &'static AtomicU64 {
    // SAFETY: it is null, or points to a word, which is never freed. Acquire pairs with the release in `find_word`: a
    // word in a static was initialised before.
    unsafe { WORD.load(Ordering::Acquire).as_ref() }.unwrap_or_else(find_word)
}

#[cold]
fn find_word() -> &'static AtomicU64 {
    #[cfg(all(target_os = "linux", not(cmwq_portable)))]
    let word = linux::word().unwrap_or_else(portable::word);
    #[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
    let word = portable::word();
    let ours = ptr::from_ref(word).cast_mut();
    // If another thread installed its word first, that word is used, and a page of ours stays mapped and unused.
    match WORD.compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => word,
        // SAFETY: as in `word`.
        Err(theirs) => unsafe { &*theirs },
    }
}

/// A value that a process has one of, made when first used. A child makes its own: it does not wait for a thread of its
/// parent that was making one. The parent's value stays where it is, for objects that refer to it.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<Place<T>>);

struct Place<T> {
    origin: Origin,
    value: OnceLock<T>,
}

impl<T: Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the value, if it was made.
    pub(crate) fn get(&self) -> Option<&'static T> {
        self.present().and_then(|place| place.value.get())
    }

    /// Provides the value. Gives it back if there is one already.
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.place().value.set(value)
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        self.place().value.get_or_init(make)
    }

    fn present(&self) -> Option<&'static Place<T>> {
        // SAFETY: it is null, or points to a place that was leaked below and published with release.
        let place = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        place.filter(|place| !place.origin.is_forked())
    }

    /// Returns this process's place for the value.
    fn place(&self) -> &'static Place<T> {
        loop {
            let seen = self.0.load(Ordering::Acquire);
            if let Some(place) = self.present() {
                return place;
            }
            let place = Box::into_raw(Box::new(Place { origin: Origin::here(), value: OnceLock::new() }));
            let set = self.0.compare_exchange(seen, place, Ordering::AcqRel, Ordering::Acquire);
            if set.is_err() {
                // SAFETY: it is from the box above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(place) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `child` in a forked process. Returns its result.
    #[cfg(target_os = "linux")]
    fn in_a_child(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls nothing that takes a lock another thread may hold, and ends without exit handlers.
        match unsafe { libc::fork() } {
            0 => end_process(i32::from(!child())),
            id => {
                assert!(id > 0);
                let mut status = 0;
                // SAFETY: the pointer is to a number that outlives the call.
                assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }

    /// spec: X2.4 (one lock-free word decides)
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_is_told_from_all_of_its_ancestors() {
        let parent = Origin::here();
        assert_eq!(parent, Origin::here());
        assert!(in_a_child(|| {
            let early = parent.is_forked();
            let child = Origin::here();
            let grandchild = in_a_child(|| {
                let origin = Origin::here();
                parent.is_forked() && child.is_forked() && !origin.is_forked() && origin != parent
            });
            early && grandchild && parent.is_forked() && !child.is_forked() && child != parent
        }));
        assert!(!parent.is_forked());
    }

    /// spec: X2.4: both kinds of words keep the contract.
    #[cfg(all(target_os = "linux", not(cmwq_portable)))]
    #[test]
    fn words_are_empty_in_a_child() {
        let of_linux = linux::word();
        if of_linux.is_none() {
            assert!(testkit::emulator().is_some(), "Linux 4.14");
            testkit::skip("emulated", "the emulator does not empty pages");
        }
        for word in of_linux.into_iter().chain([portable::word()]) {
            word.store(7, Ordering::Relaxed);
            assert!(in_a_child(|| word.load(Ordering::Relaxed) == 0));
            assert_eq!(word.load(Ordering::Relaxed), 7);
        }
    }

    /// spec: X2.3 (a new default can be had)
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_makes_the_one_value_of_a_process_anew() {
        static ONE: PerProcess<u32> = PerProcess::new();
        assert_eq!(ONE.get(), None);
        assert_eq!(*ONE.get_or_init(|| 1), 1);
        assert_eq!(ONE.set(2), Err(2));
        assert!(in_a_child(|| ONE.get().is_none() && ONE.set(3).is_ok() && ONE.get() == Some(&3)));
        assert_eq!(ONE.get(), Some(&1));
    }
}
