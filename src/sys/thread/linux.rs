//! Threads on Linux, where each thread has its own nice level.

#![allow(unsafe_code, reason = "libc's calls for threads, priorities and clocks take raw pointers")]

mod program;
mod signals;

use std::io;
use std::mem;
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::sys::machine;
use crate::sys::wait::Until;

pub(crate) use self::program::reset_scheduling;
pub(crate) use self::signals::SignalMask;
pub(super) use self::signals::SignalsBlocked;

/// Waits until the system has ended the thread, which then runs no more code.
///
/// # Errors
///
/// Returns the handle if the time `until` comes before the thread's end.
pub(crate) fn join(thread: JoinHandle<()>, until: Until) -> Result<(), JoinHandle<()>> {
    let Some(left) = until.left() else {
        // If the thread panicked, its panic was reported when it happened.
        drop(thread.join());
        return Ok(());
    };
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer points to a time that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut at) };
    let nanos = at.tv_nsec as u64 + u64::from(left.subsec_nanos());
    let seconds = left.as_secs().saturating_add(nanos / NANOS);
    // The time is limited to 68 years from now.
    at.tv_sec = at.tv_sec.saturating_add(i32::try_from(seconds).unwrap_or(i32::MAX).into());
    at.tv_nsec = (nanos % NANOS) as _;
    // The handle is a number in the standard library, but a pointer in musl.
    let handle = thread.as_pthread_t() as libc::pthread_t;
    // SAFETY: the handle is owned here, so the thread was neither joined nor detached. With a null
    // pointer, the call does not return the thread's result. The time outlives the call.
    let error = unsafe { libc::pthread_timedjoin_np(handle, ptr::null_mut(), &at) };
    if error != 0 {
        return Err(thread);
    }
    // The handle must not be dropped now, since that would detach the thread.
    let _was_joined = thread.into_pthread_t();
    Ok(())
}

/// The length of the longest name of a thread, in bytes.
const NAME_LENGTH: usize = 15;

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

pub(crate) fn set_nice(nice: i32) -> io::Result<()> {
    if machine::current().is_some() {
        return Ok(());
    }
    // SAFETY: the call takes plain numbers and touches no memory of the program.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread_id(), nice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn set_name(name: &str) {
    if machine::current().is_some() {
        return;
    }
    let mut bytes = [0_u8; NAME_LENGTH + 1];
    for (byte, of_name) in bytes.iter_mut().zip(name.bytes().take(NAME_LENGTH)) {
        *byte = of_name;
    }
    // SAFETY: the pointer points to 16 bytes that end with a zero, which the call only reads.
    unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) };
}

pub(crate) fn set_slice(slice: Duration) -> io::Result<()> {
    if machine::current().is_some() {
        return Ok(());
    }
    let mut attributes = scheduling_of(0)?;
    // Threads with a policy other than `SCHED_OTHER` and `SCHED_BATCH` have no slices. For `SCHED_DEADLINE`,
    // `sched_runtime` has another meaning.
    if ![libc::SCHED_OTHER, libc::SCHED_BATCH].map(|policy| policy as u32).contains(&attributes.sched_policy)
    {
        return Err(io::ErrorKind::Unsupported.into());
    }
    attributes.sched_runtime = slice.as_nanos() as u64;
    // SAFETY: the pointer points to attributes that contain their own size, and the call only reads them.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the scheduling attributes of a thread. 0 stands for the calling thread.
fn scheduling_of(thread: u32) -> io::Result<libc::sched_attr> {
    // SAFETY: all fields are plain numbers, for which 0 is valid.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the pointer points to `size` bytes, and the call knows this size.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attributes, size, 0) };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Returns the slice of the calling thread, or 0 if the system ignores slices.
#[cfg(test)]
pub(crate) fn slice() -> io::Result<Duration> {
    Ok(Duration::from_nanos(scheduling_of(0)?.sched_runtime))
}

pub(crate) fn current_nice() -> io::Result<i32> {
    nice_of(thread_id())
}

pub(crate) fn process_nice() -> io::Result<i32> {
    // The process id is also the id of the main thread, even for a caller on another thread.
    nice_of(std::process::id())
}

fn nice_of(thread: u32) -> io::Result<i32> {
    // −1 is also a nice level, and only errno distinguishes this level from a failure. So errno is cleared first.
    // SAFETY: errno's address is valid, and its value belongs to the calling thread. `getpriority` takes plain numbers.
    let (nice, errno) = unsafe {
        *libc::__errno_location() = 0;
        let nice = libc::getpriority(libc::PRIO_PROCESS, thread);
        (nice, *libc::__errno_location())
    };
    if nice == -1 && errno != 0 { Err(io::Error::from_raw_os_error(errno)) } else { Ok(nice) }
}

pub(in crate::sys) fn thread_id() -> u32 {
    // glibc before 2.30 has no function `gettid`, so this code makes the system call.
    // SAFETY: the call has no arguments and touches no memory of the program.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(tid).expect("a thread id is positive and fits a pid_t")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread::spawn;
    use std::sync::mpsc;

    /// Runs `body` in a separate thread, and returns the result.
    pub(super) fn in_a_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        let (send, receive) = mpsc::channel();
        spawn("test".to_owned(), None, move || send.send(body()).unwrap()).unwrap().join().unwrap();
        receive.recv().unwrap()
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
            return testkit::skip("no-slice", "the system does not tell");
        };
        let slice = Duration::from_micros(700);
        let (own, made) = in_a_thread(move || {
            set_slice(slice).unwrap();
            (super::slice().unwrap(), in_a_thread(|| super::slice().unwrap()))
        });
        // Linux before 6.12 ignores time slices.
        assert!(own == slice || own == Duration::ZERO, "{own:?}");
        assert_eq!((made, super::slice().unwrap()), (own, before));
        assert_eq!(in_a_thread(|| (set_nice(19).unwrap(), super::slice().unwrap()).1), before);
    }

    /// spec: E5.5
    #[test]
    fn a_join_ends_with_the_thread_or_with_its_time() {
        let (end, ends) = mpsc::channel::<()>();
        let thread = spawn("test".to_owned(), None, move || assert!(ends.recv().is_err())).unwrap();
        let thread = join(thread, Until::after(Duration::ZERO)).unwrap_err();
        let thread = join(thread, Until::after(Duration::from_millis(1))).unwrap_err();
        drop(end);
        assert!(join(thread, Until::after(Duration::MAX / 4)).is_ok());
        let thread = spawn("test".to_owned(), None, || ()).unwrap();
        assert!(join(thread, Until::FOREVER).is_ok());
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
