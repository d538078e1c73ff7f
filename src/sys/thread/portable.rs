//! Threads on systems for which the crate uses only the standard library.

use std::io;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::sys::wait::Until;

/// Waits until the thread has ended, without a limit.
///
/// # Errors
///
/// This version never fails.
pub(crate) fn join(thread: JoinHandle<()>, _until: Until) -> Result<(), JoinHandle<()>> {
    // If the thread panicked, its panic was reported when it happened.
    drop(thread.join());
    Ok(())
}

/// Does nothing, because only the standard library names threads on these systems.
pub(crate) fn set_name(_name: &str) {}

/// Does nothing, because the crate's threads have no scheduling of their own on these systems.
pub(crate) fn reset_scheduling(_command: &mut Command) {}

/// An empty mask. On these systems, the crate blocks no signals.
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

/// Blocks no signals.
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
        set_name("another name");
        let thread = crate::sys::thread::spawn("test".to_owned(), None, || ()).unwrap();
        assert!(join(thread, Until::after(Duration::from_secs(60))).is_ok());
        assert_eq!(set_slice(Duration::from_millis(1)).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(set_nice(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(current_nice().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(process_nice().unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
