//! Threads where only the standard library is known.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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

pub(crate) fn current_nice() -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn process_nice() -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn thread_id() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        // Relaxed is enough for numbers that only have to differ.
        static OWN: u32 = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    }
    OWN.with(|id| *id)
}

pub(crate) fn thread_cpu_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: X1
    #[test]
    fn it_keeps_the_contract() {
        assert!(SignalsBlocked::new().is_ok());
        assert_eq!(set_nice(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(current_nice().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(thread_cpu_time(), Duration::ZERO);

        let own = thread_id();
        assert_eq!(own, thread_id());
        let other = std::thread::Builder::new().spawn(thread_id).unwrap();
        assert_ne!(own, other.join().unwrap());
    }
}
