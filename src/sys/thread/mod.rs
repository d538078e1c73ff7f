//! Makes threads, sets their scheduling, and waits for their ends.
//!
//! * `set_nice(nice) -> io::Result<()>` and `current_nice() -> io::Result<i32>`: set and return the nice level of the
//!   calling thread, −20 to 19. A thread needs a privilege to lower its level.
//! * `set_name(name)`: changes the name under which the system shows the calling thread. The system shows only the
//!   first 15 bytes, up to a NUL. The standard library keeps the former name.
//! * `process_nice() -> io::Result<i32>`: the nice level of the process's main thread.
//! * `set_slice(slice) -> io::Result<()>`: sets the time slice of the calling thread, and of the threads that it makes
//!   from then on. A thread runs for its slice without a break, even if another thread waits for the same CPU. Linux
//!   before 6.12 ignores slices.
//! * `SignalsBlocked`: while a value of this type exists, threads made by the calling thread start with their signals
//!   blocked.
//! * `SignalMask`: the signals that a thread blocks. `of_main_thread() -> io::Result<Self>` and `of_this_thread()` read
//!   the current mask. `take_on()` sets the mask of the calling thread, and of the programs and threads that it starts
//!   from then on.
//! * `reset_scheduling(command)`: makes the program start with the CPUs, nice level and slice of the main thread.
//! * `join(handle, until) -> Result<(), JoinHandle<()>>`: waits until the thread has ended. Returns the handle if the
//!   time `until` comes first. The portable version waits without a limit, because it is meant for threads that are
//!   about to end.

mod end;

use std::io;
use std::thread::{Builder, JoinHandle, Thread};
use std::time::Duration;

use super::machine;
use super::sync::{AtomicU64, Ordering};
use super::wait::Until;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
#[cfg(any(test, cmwq_portable, not(target_os = "linux")))]
mod portable;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
use linux as system;
#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
use portable as system;

pub(crate) use end::spawn_to_the_end;
#[cfg(all(test, target_os = "linux", not(any(cmwq_portable, cmwq_loom))))]
pub(crate) use linux::slice;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
pub(super) use linux::thread_id;
pub(crate) use system::{
    SignalMask, current_nice, process_nice, reset_scheduling, set_name, set_nice, set_slice,
};

/// Starts a thread whose signals are blocked from its first instruction on, because a signal handler is code of the
/// application. A thread that runs items takes on another [mask](SignalMask) later. The system shows only the first 15
/// bytes of `name`.
///
/// The new thread starts with the affinity and the nice level of the calling thread, and then sets its own.
pub(crate) fn spawn(
    name: String,
    stack_size: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // The standard library would panic at a name with a NUL character.
    if name.contains('\0') {
        let message = format!("thread name {name:?} contains a NUL character: leave it out");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let (body, made_up) = machine::adopt(&name, body)?;
    let mut builder = Builder::new().name(name);
    if let Some(bytes) = stack_size {
        builder = builder.stack_size(bytes);
    }
    let _blocked = system::SignalsBlocked::new()?;
    let thread = builder.spawn(body)?;
    machine::made(made_up, thread.thread().id());
    Ok(thread)
}

/// Waits until the thread has ended. See the module.
pub(crate) fn join(thread: JoinHandle<()>, until: Until) -> Result<(), JoinHandle<()>> {
    match machine::wait_for_end(thread.thread().id(), until.time()) {
        Some(false) => Err(thread),
        // The thread has run the last of its code, and no longer belongs to the made-up machine. So the thread ends
        // without delay.
        Some(true) => system::join(thread, Until::FOREVER),
        None => system::join(thread, until),
    }
}

/// A handle to a thread that [parks](park).
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    thread: Thread,
    machine: Option<machine::Parked>,
}

impl Sleeper {
    pub(crate) fn current() -> Self {
        Self { thread: std::thread::current(), machine: machine::Parked::current() }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.thread.id() == std::thread::current().id()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.thread.name()
    }

    /// Ends the thread's sleep. If the thread is awake, its next sleep ends immediately.
    pub(crate) fn unpark(&self) {
        match &self.machine {
            Some(parked) => parked.unpark(),
            None => self.thread.unpark(),
        }
    }
}

/// Makes the calling thread sleep until it is unparked. The sleep may also end without a reason.
pub(crate) fn park() {
    if machine::park(None).is_none() {
        std::thread::park();
    }
}

/// Parks the calling thread as [`park`] does, but for `timeout` at most. Returns false if the timeout has passed.
#[allow(clippy::disallowed_methods, reason = "a parked thread is not told why it was woken")]
pub(crate) fn park_timeout(timeout: Duration) -> bool {
    machine::park(Some(timeout)).unwrap_or_else(|| {
        let start = std::time::Instant::now();
        std::thread::park_timeout(timeout);
        start.elapsed() < timeout
    })
}

/// Makes the system show the calling thread under the name with which the thread was made.
pub(crate) fn take_own_name() {
    if let Some(name) = std::thread::current().name() {
        set_name(name);
    }
}

thread_local! {
    static NUMBER: u64 = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Returns the number of the calling thread. Each thread gets the next number, from 0 on, when it calls this function
/// for the first time. A thread that calls this function for the first time while it ends gets 0. On a made-up machine
/// (a simulation for tests), a thread has its number on that machine, so that the same seed gives the same run.
pub(crate) fn number() -> u64 {
    machine::current().map_or_else(|| NUMBER.try_with(|number| *number).unwrap_or(0), |thread| thread as u64)
}

/// Lets the system run another thread on this CPU, if another thread waits for this CPU.
#[allow(clippy::disallowed_methods, reason = "to be fair to other work, not to wait for its progress")]
pub(crate) fn yield_now() {
    if machine::yield_now() {
        return;
    }
    std::thread::yield_now();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_thread_has_its_name_and_runs() {
        let (send, receive) = mpsc::channel();
        let body = move || send.send(thread::current().name().map(str::to_owned)).unwrap();
        let handle = spawn("cmwq/u8:2".to_owned(), Some(256 * 1024), body).unwrap();
        assert_eq!(receive.recv().unwrap().as_deref(), Some("cmwq/u8:2"));
        handle.join().unwrap();
    }

    #[test]
    fn a_thread_that_cannot_be_made_is_an_error() {
        let error = spawn("a\0b".to_owned(), None, || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(spawn("huge".to_owned(), Some(usize::MAX / 4), || ()).is_err());
    }
}
