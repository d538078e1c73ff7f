//! Threads where only the standard library is known.

use std::io;
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
    fn it_keeps_the_contract() {
        assert!(SignalsBlocked::new().is_ok());
        assert_eq!(set_slice(Duration::from_millis(1)).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(set_nice(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(current_nice().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(process_nice().unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
