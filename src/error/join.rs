//! Why a one-shot (an item that runs once) has no result, and the payload of its panic.

use std::any::Any;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::sys::sync::Mutex;

/// Why a one-shot has no result.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{JoinError, WorkQueue};
/// use std::time::Duration;
///
/// let queue = WorkQueue::new("fates");
/// let later = queue.item(|| "too late").after(Duration::from_secs(60)).spawn()?;
/// queue.destroy()?;
/// assert!(matches!(later.join(), Err(JoinError::Cancelled)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The item panicked.
    Panicked(PanicPayload),
    /// The item was cancelled before it began: by its handle, by its token, by a shutdown, or by a
    /// [`destroy_now`](crate::WorkQueue::destroy_now) of its queue. If the item's timer was still armed, any
    /// destruction of the item's queue also cancelled the item.
    Cancelled,
    /// The item did not run, because its [deadline](crate::Submission::deadline) had passed before it began.
    DeadlinePassed,
    /// The wait would never end. The caller is the awaited item itself, or holds the only slot in which that item could
    /// run, or another case of [`WaitError::WouldDeadlock`](crate::WaitError::WouldDeadlock) applies. The awaited item
    /// was detached and goes on.
    WouldDeadlock,
    /// The executor belongs to the process from which this process was forked, and the item had not ended at the fork.
    Forked,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => match panic.message() {
                Some(message) => write!(f, "the item panicked: {message}"),
                None => write!(f, "the item panicked"),
            },
            Self::Cancelled => write!(f, "the item was cancelled before it began"),
            Self::DeadlinePassed => write!(f, "the item's deadline had passed before it began"),
            Self::WouldDeadlock => {
                write!(
                    f,
                    "the join would never end: the caller is that item, or holds the slot that the item needs"
                )
            }
            Self::Forked => {
                write!(
                    f,
                    "the item belongs to the process that this one was forked from, and had not ended then"
                )
            }
        }
    }
}

impl std::error::Error for JoinError {}

/// The payload of an item's panic.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::JoinError;
///
/// let queue = cmwq::WorkQueue::new("panics");
/// let Err(JoinError::Panicked(panic)) = queue.spawn(|| panic!("no luck"))?.join() else { unreachable!() };
/// assert_eq!(panic.message(), Some("no luck"));
/// // To rethrow the panic in the joiner: std::panic::resume_unwind(panic.into_inner())
/// # Ok(())
/// # }
/// ```
pub struct PanicPayload {
    message: Option<Box<str>>,
    /// A payload is only `Send`, but errors are expected to be `Sync` too. The lock makes this type `Sync`. No thread
    /// ever takes the lock.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl PanicPayload {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let message = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).map(Into::into);
        Self { message, payload: Mutex::new(payload) }
    }

    /// Returns the message of the panic, if the payload is a string.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the payload in the form in which [`std::panic::catch_unwind`] returns it.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.payload.into_inner()
    }
}

/// No code changes a payload, so a panic cannot leave the payload in a wrong state.
impl UnwindSafe for PanicPayload {}
impl RefUnwindSafe for PanicPayload {}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicPayload").field(&self.message().unwrap_or("..")).finish()
    }
}
