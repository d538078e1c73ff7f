//! Threads with the standard library only.

use std::io;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::sys::wait::Until;

/// Waits until the thread has ended, without a limit.
///
/// # Errors
///
/// None.
pub(crate) fn join(thread: JoinHandle<()>, _until: Until) -> Result<(), JoinHandle<()>> {
    // The panic was reported when it happened.
    drop(thread.join());
    Ok(())
}

/// On these systems threads have no scheduling that a program could inherit.
pub(crate) fn reset_scheduling(_command: &mut Command) {}

/// On these systems no thread blocks signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SignalMask;

impl SignalMask {
    pub(crate) fn of_main_thread() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn of_this_thread() -> Self {
        Self
    }

    pub(crate) fn take_on(self) {}
}

/// There are no signals to block.
pub(super) struct SignalsBlocked;

impl SignalsBlocked {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }
}

pub(crate) fn set_nice(_nice: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn set_slice(_slice: Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn current_nice() -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn process_nice() -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: X1.1
    #[test]
    fn portable_threads_keep_the_contract() {
        assert!(SignalsBlocked::new().is_ok());
        assert_eq!(SignalMask::of_main_thread().unwrap(), SignalMask::of_this_thread());
        SignalMask.take_on();
        reset_scheduling(&mut Command::new("none"));
        let thread = crate::sys::thread::spawn("test".to_owned(), None, || ()).unwrap();
        assert!(join(thread, Until::after(Duration::from_secs(60))).is_ok());
        assert_eq!(set_slice(Duration::from_millis(1)).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(set_nice(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(current_nice().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(process_nice().unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
