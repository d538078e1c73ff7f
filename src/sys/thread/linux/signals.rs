//! The signal masks of threads.
//!
//! A thread passes its mask on to the programs and threads that it starts. A thread that runs items has the mask of the
//! main thread, so that an item starts programs and threads with the mask that `main` would give them.
//!
//! So a signal handler of the application can run on a thread that runs items. A signal ends no wait of this crate.

#![allow(unsafe_code, reason = "libc's calls for signals take raw pointers")]

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, sigset_t};

use super::thread_id;
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::{lossy, machine};

/// Signals that a thread's own faults raise. If these signals were blocked, they would kill the process without a
/// message. For example, the standard library reports a stack overflow in its handler for `SIGSEGV`.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Blocks the signals of the calling thread until this value is dropped. A new thread inherits the mask of its creator.
/// There is no other way to set the thread's mask before its first instruction.
pub(in crate::sys::thread) struct SignalsBlocked {
    before: sigset_t,
    /// Keeps the main thread's own mask published until `drop` has restored it. `None` on other threads.
    _told: Option<Told>,
    /// The mask belongs to the thread that blocked its signals, so this value must not move to another thread.
    not_send: PhantomData<*const ()>,
}

impl SignalsBlocked {
    pub(in crate::sys::thread) fn new() -> io::Result<Self> {
        let told = Told::by_main_thread();
        let mut blocked = MaybeUninit::<sigset_t>::uninit();
        let mut before = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: both pointers point to memory of the right size and type. `sigfillset` initialises `blocked` before
        // the other calls read it, and the removed numbers are valid signals.
        let error = unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for signal in FAULTS {
                libc::sigdelset(blocked.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr())
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: `pthread_sigmask` succeeded, so it has written the mask that was in force before the call.
        Ok(Self { before: unsafe { before.assume_init() }, _told: told, not_send: PhantomData })
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: an earlier call of the same function has written the mask `before`. With a null pointer, the
        // call does not return the old mask.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
        debug_assert_eq!(error, 0, "a mask that was in force is valid");
    }
}

/// The main thread's own mask. The main thread publishes this mask while [`SignalsBlocked`] replaces it.
struct MainThread {
    /// The low half is the process id while the main thread has its signals blocked, and otherwise 0. The high half
    /// counts the changes of this word. A forked child has another id, so the child ignores a mask that its parent
    /// published.
    step: AtomicU64,
    /// The main thread's own mask, which the main thread restores when it unblocks its signals.
    before: AtomicU64,
}

/// Only the main thread writes to this value.
static MAIN_THREAD: MainThread = MainThread { step: AtomicU64::new(0), before: AtomicU64::new(0) };

/// The main thread publishes its mask while this value exists.
struct Told;

impl Told {
    /// Publishes the mask of the main thread, before the main thread blocks its signals. Returns `None` on other
    /// threads.
    fn by_main_thread() -> Option<Self> {
        let process = std::process::id();
        (thread_id() == process).then(|| {
            MAIN_THREAD.before.store(SignalMask::of_this_thread().0, Ordering::Relaxed);
            MAIN_THREAD.change(process);
            Self
        })
    }
}

impl Drop for Told {
    /// Withdraws the published mask, which the main thread has already restored.
    fn drop(&mut self) {
        MAIN_THREAD.change(0);
    }
}

impl MainThread {
    fn change(&self, process: u32) {
        let changes = (self.step.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        // Release: a thread that reads this value of `step` also reads the mask that was stored before `step`.
        self.step.store(changes << 32 | u64::from(process), Ordering::Release);
    }

    fn step(&self) -> u64 {
        self.step.load(Ordering::Acquire)
    }

    /// Returns the mask that the main thread published with this value of `step`, or a newer mask. Returns `None` if
    /// the main thread publishes no mask while `step` has this value.
    fn told_in(&self, step: u64) -> Option<SignalMask> {
        let tells = step as u32 == std::process::id();
        tells.then(|| SignalMask(self.before.load(Ordering::Relaxed)))
    }
}

/// The signals that a thread blocks. Bit `n - 1` stands for signal `n`, as in `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SignalMask(u64);

impl SignalMask {
    /// Returns the current mask of the process's main thread.
    ///
    /// While a thread makes another thread or starts a program, the C library blocks all signals of the calling thread
    /// for a short time. If the function reads the mask in this time, it reads the mask again, up to [`LOOKS`] times.
    ///
    /// While the main thread makes a thread of this crate, it blocks its own signals and [publishes](Told) its previous
    /// mask. The main thread publishes the mask before it blocks the signals, and withdraws the published mask after it
    /// has restored its own. To publish and to withdraw a mask, the main thread changes the word `step`. So if `step`
    /// is the same before and after a read of the mask, the mask that was read is the main thread's own.
    ///
    /// # Errors
    ///
    /// Fails only on a thread other than the main thread: if `/proc` cannot be read, if the main thread has ended, or
    /// if the C library blocks the main thread's signals at each attempt.
    pub(crate) fn of_main_thread() -> io::Result<Self> {
        if thread_id() == std::process::id() {
            return Ok(Self::of_this_thread());
        }
        // The process's main thread runs in real time, even if this thread belongs to a made-up machine (a simulation
        // for tests). So a second run with the same seed may need another number of reads. For this reason, no read may
        // be a point (where the machine may switch to another thread).
        machine::quietly(Self::read_of_main_thread)
    }

    /// Reads the mask of the main thread. Only other threads call this function.
    #[allow(clippy::disallowed_methods, reason = "the thread lets the main thread restore its mask")]
    fn read_of_main_thread() -> io::Result<Self> {
        for _ in 0..LOOKS {
            let step = MAIN_THREAD.step();
            if let Some(mask) = MAIN_THREAD.told_in(step) {
                return Ok(mask);
            }
            match parse(&lossy::read("/proc/self/status")?) {
                // The system's lock on the mask orders the accesses to `step` and to the mask. The main thread stores
                // `step` before it blocks its signals, and this thread loads `step` again after it has read the mask.
                Shown::Blocks(mask) if MAIN_THREAD.step() == step => return Ok(Self(mask)),
                Shown::Blocks(_) | Shown::Changes => std::thread::yield_now(),
                Shown::Nothing => break,
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    pub(crate) fn of_this_thread() -> Self {
        let mut set = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set before anything reads it. A null pointer leaves the mask unchanged,
        // and all numbers are valid signal numbers.
        let blocks = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), set.as_mut_ptr());
            |signal: c_int| libc::sigismember(set.as_ptr(), signal) == 1
        };
        Self((1..=64).filter(|signal| blocks(*signal)).fold(0, |mask, signal| mask | 1 << (signal - 1)))
    }

    /// Sets the mask of the calling thread to this mask.
    pub(crate) fn take_on(self) {
        let mut set = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set before the other calls read it. With a null pointer, the
        // last call does not return the old mask. The C library refuses to add its own signals to a set.
        let error = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in (1..=64).filter(|signal| self.0 & 1 << (signal - 1) != 0) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut())
        };
        debug_assert_eq!(error, 0, "any mask is valid");
    }
}

/// A thread reads a changing mask at most this many times. One read takes about 20 µs.
const LOOKS: usize = 32;

/// The C library's own signals. The library blocks its own signals only for a short time, together with all other
/// signals. The library refuses to block its own signals for the application.
const OF_THE_LIBRARY: u64 = 1 << 31 | 1 << 32;

/// The signal mask that a thread's file `status` in `/proc` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Blocks(u64),
    /// The C library has changed the mask for a short time.
    Changes,
    /// The file shows no mask, or the thread has ended and may have changed its mask shortly before its end.
    Nothing,
}

fn parse(status: &str) -> Shown {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let lives = field("State:").is_some_and(|state| !state.starts_with(['Z', 'X']));
    let mask = field("SigBlk:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    match mask {
        Some(mask) if lives && mask & OF_THE_LIBRARY == 0 => Shown::Blocks(mask),
        Some(_) if lives => Shown::Changes,
        _ => Shown::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::in_a_thread;
    use super::*;

    /// Returns the calling thread's mask as the kernel shows it. Bit `n - 1` stands for signal `n`.
    fn blocked_signals() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    /// spec: E2.10 (no service thread takes a signal)
    #[test]
    fn a_thread_blocks_signals_and_its_creator_does_not() {
        let before = blocked_signals();
        let in_thread = in_a_thread(blocked_signals);
        assert_eq!(blocked_signals(), before);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGCHLD, libc::SIGUSR1, libc::SIGRTMAX()] {
            assert_ne!(in_thread & 1 << (signal - 1), 0, "signal {signal} is blocked");
        }
        for signal in FAULTS {
            assert_eq!(in_thread & 1 << (signal - 1), 0, "signal {signal} is not blocked");
        }
    }

    /// spec: E2.10 (programs and threads that an item starts get the main thread's signal mask)
    #[test]
    fn a_mask_is_taken_on_and_handed_on() {
        let mut user = vec![libc::SIGUSR1, libc::SIGTERM, libc::SIGRTMAX()];
        if testkit::emulator().is_some() {
            testkit::skip("emulated", "the emulator has the last signals for itself");
            user.pop();
        }
        let user: Vec<u64> = user.into_iter().map(|signal| 1 << (signal - 1)).collect();
        for mask in [0, user[0], user.iter().sum()].map(SignalMask) {
            let (own, shown, of_a_thread) = in_a_thread(move || {
                mask.take_on();
                let shown = blocked_signals();
                let of_a_thread = std::thread::scope(|s| s.spawn(blocked_signals).join().unwrap());
                (SignalMask::of_this_thread(), shown, of_a_thread)
            });
            assert_eq!((own, shown, of_a_thread), (mask, mask.0, mask.0));
        }
    }

    /// spec: E2
    #[test]
    fn the_mask_of_the_main_thread_is_that_of_the_process() {
        let of_main = || {
            let task = format!("/proc/self/task/{}/status", std::process::id());
            let status = std::fs::read_to_string(task).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        // Some attempts fail because the main thread of the test harness makes threads at the same time.
        let agrees = || in_a_thread(SignalMask::of_main_thread).is_ok_and(|mask| mask.0 == of_main());
        assert!((0..1000).any(|_| agrees()));
    }

    /// spec: E2: another thread reads the main thread's mask, even if the main thread's name is not UTF-8.
    #[test]
    fn the_mask_of_a_main_thread_of_any_name_is_read() {
        const CHILD: &str = "CMWQ_TEST_NAME";
        if std::env::var_os(CHILD).is_none() {
            let test = "sys::thread::linux::signals::tests::the_mask_of_a_main_thread_of_any_name_is_read";
            return testkit::assert_passed(&testkit::again(test).env(CHILD, "1").output().unwrap());
        }
        std::fs::write(format!("/proc/self/task/{}/comm", std::process::id()), b"gr\xe4n").unwrap();
        // An attempt may fail because the main thread makes a thread at the same time.
        assert!((0..1000).any(|_| in_a_thread(SignalMask::of_main_thread).is_ok()));
    }

    /// spec: E2
    #[test]
    fn a_status_tells_the_mask_of_a_thread_that_lives_and_is_not_in_the_library() {
        let status = |state: &str, mask: &str| format!("Name:\tSigBlk: 1\nState:\t{state}\nTgid:\t7\n{mask}");
        for (text, mask) in [
            (
                status("S (sleeping)", "SigBlk:\t8000000000004001\nSigIgn:\t0"),
                Shown::Blocks(1 << 63 | 0x4001),
            ),
            (status("R (running)", "SigBlk:\t0000000000000000\n"), Shown::Blocks(0)),
            // `sigfillset` and `pthread_sigmask` make the first of the next two masks. The C library makes the second
            // mask, which also contains the library's own signals.
            (status("R (running)", "SigBlk:\tfffffffe7ffbfeff\n"), Shown::Blocks(0xffff_fffe_7ffb_feff)),
            (status("R (running)", "SigBlk:\tfffffffffffbfeff\n"), Shown::Changes),
            (status("Z (zombie)", "SigBlk:\t0000000000004001\n"), Shown::Nothing),
            (status("X (dead)", "SigBlk:\t0000000000004001\n"), Shown::Nothing),
            (status("S (sleeping)", ""), Shown::Nothing),
            (status("S (sleeping)", "SigBlk:\tall\n"), Shown::Nothing),
            (String::new(), Shown::Nothing),
        ] {
            assert_eq!(parse(&text), mask, "{text}");
        }
    }
}
