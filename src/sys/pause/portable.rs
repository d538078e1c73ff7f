//! Systems that have no descriptors of context switches to listen to.

use std::io;
use std::time::Duration;

use crate::sys::switches::Ring;

/// It cannot be made.
#[derive(Debug)]
pub(super) enum Listener {}

impl Listener {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn wake(&self) {
        match *self {}
    }

    pub(super) fn sleep(&self, _timeout: Option<Duration>, _rings: &[&Ring]) -> bool {
        match *self {}
    }
}

/// The system does not tell how late a sleep may end.
#[derive(Debug)]
pub(super) struct Slack;

impl Slack {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn reduce(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: X1
    #[test]
    fn nothing_can_be_listened_to() {
        assert_eq!(Listener::new().unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
