//! Threads on Linux, where a nice level belongs to a thread.

#![allow(unsafe_code, reason = "libc's calls for signals, priorities and clocks take raw pointers")]

use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::time::Duration;

use libc::{c_int, sigset_t};

/// Raised by what a thread itself did wrong. Blocked, they would kill the process without a word: the
/// standard library reports a stack overflow from its handler of `SIGSEGV`.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Signals of the calling thread are blocked while this lives. A new thread inherits the mask of its creator,
/// which is the only way to set it before the thread's first instruction.
pub(super) struct SignalsBlocked {
    before: sigset_t,
    /// The mask belongs to the thread that blocked its signals, so this must not move to another.
    not_send: PhantomData<*const ()>,
}

impl SignalsBlocked {
    pub(super) fn new() -> io::Result<Self> {
        let mut blocked = MaybeUninit::<sigset_t>::uninit();
        let mut before = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: both pointers are to memory of the right size and type. `sigfillset` initialises `blocked`
        // before the other calls read it, and the numbers removed are valid signals.
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
        // SAFETY: `pthread_sigmask` succeeded, so it has written the mask that was in force before.
        Ok(Self { before: unsafe { before.assume_init() }, not_send: PhantomData })
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is a mask that the same call has written; a null pointer asks for no old mask.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
        debug_assert_eq!(error, 0, "a mask that was in force is valid");
    }
}

pub(crate) fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: the call takes plain numbers and touches no memory of the program.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread_id(), nice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn set_slice(slice: Duration) -> io::Result<()> {
    let mut attributes = scheduling()?;
    // Other policies know no slices; to one of them, this field is something else.
    if ![libc::SCHED_OTHER, libc::SCHED_BATCH].map(|policy| policy as u32).contains(&attributes.sched_policy)
    {
        return Err(io::ErrorKind::Unsupported.into());
    }
    attributes.sched_runtime = slice.as_nanos() as u64;
    // SAFETY: the pointer is to attributes whose size is in them, and which the call only reads.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How the calling thread is scheduled.
fn scheduling() -> io::Result<libc::sched_attr> {
    // SAFETY: these are plain numbers, which may be 0.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the pointer is to as much memory as the call is told of.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// That of the calling thread; 0 where the system takes no notice of it.
#[cfg(test)]
pub(crate) fn slice() -> io::Result<Duration> {
    Ok(Duration::from_nanos(scheduling()?.sched_runtime))
}

pub(crate) fn current_nice() -> io::Result<i32> {
    nice_of(thread_id())
}

pub(crate) fn process_nice() -> io::Result<i32> {
    // The main thread has the process's number, also while another one asks.
    nice_of(std::process::id())
}

fn nice_of(thread: u32) -> io::Result<i32> {
    // −1 is a nice level too: only errno, cleared before, tells it from a failure.
    // SAFETY: errno's address is valid and its value the calling thread's own; the other call takes plain
    // numbers.
    let (nice, errno) = unsafe {
        *libc::__errno_location() = 0;
        let nice = libc::getpriority(libc::PRIO_PROCESS, thread);
        (nice, *libc::__errno_location())
    };
    if nice == -1 && errno != 0 { Err(io::Error::from_raw_os_error(errno)) } else { Ok(nice) }
}

pub(in crate::sys) fn thread_id() -> u32 {
    // glibc has the function `gettid` only since 2.30, hence the system call.
    // SAFETY: the call has no arguments and touches no memory of the program.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(tid).expect("a thread id is positive and fits a pid_t")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread::spawn;
    use std::sync::mpsc;

    /// Runs `body` in a thread of its own and returns what it returns.
    fn in_a_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        let (send, receive) = mpsc::channel();
        spawn("test".to_owned(), None, move || send.send(body()).unwrap()).unwrap().join().unwrap();
        receive.recv().unwrap()
    }

    /// The mask of blocked signals as the kernel shows it: signal `n` is bit `n - 1`.
    fn blocked_signals() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    /// spec: E2.8
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

    /// spec: E4.2
    #[test]
    fn a_nice_level_is_of_one_thread() {
        let before = current_nice().unwrap();
        let in_thread = in_a_thread(|| {
            set_nice(19).unwrap();
            current_nice().unwrap()
        });
        assert_eq!(in_thread, 19);
        assert_eq!(current_nice().unwrap(), before);
    }

    /// spec: E2
    #[test]
    fn a_time_slice_is_inherited_by_the_threads_that_a_thread_makes() {
        let Ok(before) = super::slice() else {
            return crate::common::skip("no-slice", "the system does not tell");
        };
        let slice = Duration::from_micros(700);
        let (own, made) = in_a_thread(move || {
            set_slice(slice).unwrap();
            (super::slice().unwrap(), in_a_thread(|| super::slice().unwrap()))
        });
        // Linux has it since 6.12.
        assert!(own == slice || own == Duration::ZERO, "{own:?}");
        assert_eq!((made, super::slice().unwrap()), (own, before));
        assert_eq!(in_a_thread(|| (set_nice(19).unwrap(), super::slice().unwrap()).1), before);
    }

    #[test]
    fn the_thread_id_is_the_kernels() {
        let id = in_a_thread(|| {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            (thread_id(), link.file_name().unwrap().to_str().unwrap().to_owned())
        });
        assert_eq!(id.0.to_string(), id.1);
        assert_ne!(id.0, thread_id());
    }
}
