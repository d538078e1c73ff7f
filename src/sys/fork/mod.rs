//! Detection of forks: each object records the process that made it.
//!
//! A forked child has a copy of its parent's memory, but only one of the parent's threads: the thread that forked. The
//! copied memory may contain locks that are held, and waits that were begun, by threads that do not exist in the child.
//! So each object that relies on threads records the process that made it ([`Origin`]), and checks this record before
//! it takes a lock or waits.
//!
//! Contract of a *word*: the word keeps the value that a process stores in it, and is 0 in every process that is forked
//! afterwards. To check its record, an object reads the word with one relaxed load. One load suffices, because a child
//! begins with one thread, which sees the memory as the fork left it.
//!
//! * `linux::word()`: a word on a page that the system fills with zeros in the child of each fork, whichever call makes
//!   the fork. Linux before 4.14 does not offer such pages, and an emulator may only claim to clear them.
//! * `portable::word()`: a word that is cleared by a handler registered with `pthread_atfork`. The C library's `fork`
//!   calls the handler. On systems without forks, the word is never cleared.

#![allow(unsafe_code, reason = "the word, and the one value of a process, are published by pointer")]

use std::ptr;
use std::sync::OnceLock;

use super::machine;
use super::sync::{AtomicPtr, AtomicU64, Ordering};

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
mod portable;

pub(crate) use portable::end_process;

/// The process that made an object: the calling process or one of its ancestors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin(u64);

/// A pointer to the word of this process, or null until the word is first needed.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The last number that a process has taken for its origin. A child continues the numbering of its parent, so the
/// child's number differs from the numbers of all its ancestors.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Origin {
    /// Returns the origin for the calling process.
    pub(crate) fn here() -> Self {
        let word = word();
        match word.load(Ordering::Relaxed) {
            0 => machine::quietly(|| {
                let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                let set = word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
                Self(set.map_or_else(|by_another_thread| by_another_thread, |_| next))
            }),
            number => Self(number),
        }
    }

    /// Returns whether the calling process was forked, directly or indirectly, from the process of this origin.
    #[inline]
    pub(crate) fn is_forked(self) -> bool {
        word().load(Ordering::Relaxed) != self.0
    }
}

#[inline]
fn word() -> &'static AtomicU64 {
    // SAFETY: the pointer is null, or points to a word that is never freed. Acquire pairs with the release in
    // `find_word`, so this thread sees the word initialised.
    unsafe { WORD.load(Ordering::Acquire).as_ref() }.unwrap_or_else(|| machine::quietly(find_word))
}

#[cold]
fn find_word() -> &'static AtomicU64 {
    #[cfg(all(target_os = "linux", not(cmwq_portable)))]
    let word = linux::word().unwrap_or_else(portable::word);
    #[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
    let word = portable::word();
    let ours = ptr::from_ref(word).cast_mut();
    // If another thread has installed its word first, this thread uses that word. A page that this thread has mapped
    // stays mapped and unused.
    match WORD.compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => word,
        // SAFETY: the exchange failed, so the pointer is not null, and points to a word that is never freed. Acquire
        // pairs with the release of the exchange that installed the word, so this thread sees the word initialised.
        Err(theirs) => unsafe { &*theirs },
    }
}

/// A value that exists once in each process, and is made when it is first used. A child makes its own value. At the
/// time of the fork, a thread of the parent may have been making the parent's value. A child that used the parent's
/// value could wait for that thread for ever. The parent's value stays in memory for the objects that refer to it.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<Place<T>>);

struct Place<T> {
    origin: Origin,
    value: OnceLock<T>,
}

impl<T: Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the value of this process, if it has been made.
    pub(crate) fn get(&self) -> Option<&'static T> {
        self.present().and_then(|place| place.value.get())
    }

    /// Sets the value. If the process has a value already, returns the new value as the error.
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.place().value.set(value)
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        self.place().value.get_or_init(make)
    }

    fn present(&self) -> Option<&'static Place<T>> {
        // SAFETY: the pointer is null, or points to a place that `place` has leaked and published with release.
        let place = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        place.filter(|place| !place.origin.is_forked())
    }

    /// Returns this process's place for the value. Makes the place if there is none.
    fn place(&self) -> &'static Place<T> {
        loop {
            let seen = self.0.load(Ordering::Acquire);
            if let Some(place) = self.present() {
                return place;
            }
            machine::quietly(|| self.install(seen));
        }
    }

    /// Makes a place for this process's value, and installs the place if the pointer still has the value `seen`.
    #[cold]
    fn install(&self, seen: *mut Place<T>) {
        let place = Box::into_raw(Box::new(Place { origin: Origin::here(), value: OnceLock::new() }));
        if self.0.compare_exchange(seen, place, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: `place` comes from the box above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(place) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `child` in a forked process. Returns the result of `child`.
    #[cfg(target_os = "linux")]
    fn in_a_child(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child takes no lock that another thread may hold, and ends without exit handlers.
        match unsafe { libc::fork() } {
            0 => end_process(i32::from(!child())),
            id => {
                assert!(id > 0);
                let mut status = 0;
                // SAFETY: the pointer refers to a number that outlives the call.
                assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }

    /// spec: X2.4 (one lock-free word tells a forked child from all of its ancestors)
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

    /// spec: X2.4: both the word of Linux and the portable word are 0 in a forked child.
    #[cfg(all(target_os = "linux", not(cmwq_portable)))]
    #[test]
    fn words_are_empty_in_a_child() {
        let of_linux = linux::word();
        if of_linux.is_none() {
            assert!(testkit::emulator().is_some(), "Linux 4.14");
            testkit::skip("emulated", "the emulator does not empty pages");
        }
        // The portable word may be the word that this process uses. So the test stores only the value that the
        // process's word already has.
        let here = Origin::here().0;
        for word in of_linux.into_iter().chain([portable::word()]) {
            word.store(here, Ordering::Relaxed);
            assert!(in_a_child(|| word.load(Ordering::Relaxed) == 0));
            assert_eq!(word.load(Ordering::Relaxed), here);
        }
    }

    /// spec: X2.3 (a forked child makes its own value, and the parent keeps its value)
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
