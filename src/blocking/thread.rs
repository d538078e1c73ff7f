//! Sleeping, parking and joining threads under a guard.
//!
//! # Examples
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking::thread;
//! use std::time::Duration;
//!
//! let queue = cmwq::WorkQueue::new("naps");
//! let nap = queue.spawn(|| {
//!     thread::sleep(Duration::from_millis(1));
//!     thread::spawn(|| "joined").join().expect("it does not panic")
//! })?;
//! assert_eq!(nap.join()?, "joined");
//! # Ok(())
//! # }
//! ```
#![allow(clippy::disallowed_methods, reason = "for the user's own sleeps and threads, not the executor's")]

use std::io;
use std::thread::{self, Thread};
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::engine::item::cancellation;
use crate::engine::refusal::Cancelled;

use super::guard::blocking;
use crate::sys::machine;

/// Sleeps under a guard, like [`std::thread::sleep`].
///
/// To run an item later without a sleeping thread, see [`Submission::after`](crate::Submission::after).
///
/// # Examples
///
/// ```
/// cmwq::blocking::thread::sleep(std::time::Duration::from_millis(1));
/// ```
#[doc(alias = "msleep")]
#[doc(alias = "schedule_timeout")]
pub fn sleep(duration: Duration) {
    blocking(|| {
        if !machine::nap(duration) {
            thread::sleep(duration);
        }
    });
}

/// Sleeps like [`sleep`], but wakes up early if the calling item is [cancelled](crate::is_cancelled).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Cancelled, JoinError, blocking::thread};
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::new("naps");
/// let nap = queue.spawn(|| thread::sleep_cancellable(Duration::from_secs(3600)))?;
/// nap.stop();
/// assert!(matches!(nap.join(), Ok(Err(Cancelled::Requested)) | Err(JoinError::Cancelled)));
/// assert_eq!(thread::sleep_cancellable(Duration::from_millis(1)), Ok(()), "outside of items, it only sleeps");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns the reason for the cancel if the item is cancelled before the time is over.
#[doc(alias = "msleep_interruptible")]
pub fn sleep_cancellable(duration: Duration) -> Result<(), Cancelled> {
    let Some(token) = cancellation::current_token() else {
        sleep(duration);
        return Ok(());
    };
    let token = CancelToken(token);
    match token.wait_timeout(duration) {
        Ok(()) => token.check(),
        Err(_not_cancelled) => Ok(()),
    }
}

/// Parks the thread under a guard, like [`std::thread::park`]. Returns when another thread calls [`Thread::unpark`],
/// or immediately if `unpark` has already been called. `park` may also return for no reason.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::{channel, thread};
///
/// let queue = cmwq::WorkQueue::new("parked");
/// let (send, receive) = channel::bounded(1);
/// let parks = queue.spawn(move || {
///     send.send(std::thread::current()).expect("it is received");
///     thread::park();
/// })?;
/// receive.recv()?.unpark();
/// parks.join()?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "schedule")]
pub fn park() {
    blocking(|| {
        if !machine::park_a_while(None) {
            thread::park();
        }
    });
}

/// Does the same as [`park`], but waits for `timeout` at most.
///
/// # Examples
///
/// ```
/// cmwq::blocking::thread::park_timeout(std::time::Duration::from_millis(1));
/// ```
pub fn park_timeout(timeout: Duration) {
    blocking(|| {
        if !machine::park_a_while(Some(timeout)) {
            thread::park_timeout(timeout);
        }
    });
}

/// Starts a thread, like [`std::thread::spawn`]. Returns a handle whose [`join`](JoinHandle::join) waits under a guard.
///
/// # Panics
///
/// Panics if the system cannot make the thread. To get an error instead, use [`Builder::spawn`].
///
/// # Examples
///
/// ```
/// let thread = cmwq::blocking::thread::spawn(|| 7);
/// assert_eq!(thread.join().expect("it does not panic"), 7);
/// ```
#[doc(alias = "kthread_run")]
#[track_caller]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(f).expect("the system can make a thread")
}

/// The settings of a new thread, like [`std::thread::Builder`]. The thread's [handle](JoinHandle) waits under a guard.
/// A thread that is made in a run of the test kit belongs to this run.
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use cmwq::blocking::thread::Builder;
///
/// let handle = Builder::new().name("reader".to_owned()).stack_size(64 * 1024).spawn(|| 3)?;
/// assert_eq!(handle.thread().name(), Some("reader"));
/// assert_eq!(handle.join().expect("it does not panic"), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, Debug)]
#[must_use]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
}

impl Builder {
    /// Returns a builder of a nameless thread whose stack has the standard library's default size.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the thread. The system shows the first 15 bytes of the name.
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the size of the thread's stack in bytes. The system may make the stack larger.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the system cannot make the thread.
    ///
    /// # Panics
    ///
    /// Panics if the name contains a null byte.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let Self { name, stack_size } = self;
        let name = name.or_else(|| machine::listens().then(machine::name_of_spawned));
        let mut builder = thread::Builder::new();
        if let Some(bytes) = stack_size {
            builder = builder.stack_size(bytes);
        }
        if let Some(name) = &name {
            builder = builder.name(name.clone());
        }
        let (body, place) = machine::adopt(name.as_deref().unwrap_or_default(), f)?;
        let handle = builder.spawn(body)?;
        machine::made(place, handle.thread().id());
        machine::step();
        Ok(handle.into())
    }
}

/// The handle of a thread. Its [`join`](Self::join) waits under a guard. For the handle of an item, see
/// [`crate::JoinHandle`].
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use cmwq::blocking::thread::JoinHandle;
///
/// let named = std::thread::Builder::new().name("named".to_owned()).spawn(|| 3)?;
/// let handle = JoinHandle::from(named);
/// assert_eq!(handle.thread().name(), Some("named"));
/// println!("has it ended? {}", handle.is_finished());
/// assert_eq!(handle.join().expect("it does not panic"), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct JoinHandle<T>(thread::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits under a guard for the end of the thread. Returns the thread's result.
    ///
    /// # Errors
    ///
    /// Returns the payload of the panic if the thread panicked.
    #[doc(alias = "kthread_stop")]
    pub fn join(self) -> thread::Result<T> {
        blocking(|| {
            machine::wait_for_end(self.0.thread().id(), None);
            self.0.join()
        })
    }

    /// Returns whether the thread's function has returned. If the function has returned, a join does not take long.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        machine::step();
        machine::has_ended(self.0.thread().id()).unwrap_or_else(|| self.0.is_finished())
    }

    /// Returns the thread.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        self.0.thread()
    }

    /// Returns the handle of the standard library, without this wrapper.
    #[must_use]
    pub fn into_inner(self) -> thread::JoinHandle<T> {
        self.0
    }
}

impl<T> From<thread::JoinHandle<T>> for JoinHandle<T> {
    fn from(handle: thread::JoinHandle<T>) -> Self {
        Self(handle)
    }
}
