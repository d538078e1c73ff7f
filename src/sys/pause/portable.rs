//! The version for systems that have no descriptors for context switches. On these systems, no pause can wait for
//! descriptors.

use std::io;

use crate::policy::time::Time;
use crate::sys::switches::Ring;

/// A listener. On these systems, no value of this type exists.
#[derive(Debug)]
pub(super) enum Listener {}

impl Listener {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn wake(&self) {
        match *self {}
    }

    pub(super) fn sleep(&self, _until: Option<Time>, _rings: &[&Ring]) -> bool {
        match *self {}
    }
}

/// The substitute for the timer slack on systems that do not tell how late a sleep may end.
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
