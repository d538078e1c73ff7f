//! The version for systems that record no context switches.

use std::io;

use super::Switch;
use crate::sys::affinity::ThreadId;

/// The records of a thread. On these systems, no value of this type exists.
#[derive(Debug)]
pub(crate) enum Ring {}

impl Ring {
    pub(crate) fn attach(_thread: ThreadId, _runs: bool) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn is_primed(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_over(&self) -> bool {
        match *self {}
    }

    pub(crate) fn drain(&mut self, _tell: impl FnMut(Switch)) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn is_awake_on(&self) -> Option<usize> {
        match *self {}
    }
}

/// The proof that the system permits records. On these systems, no value of this type exists.
#[derive(Debug)]
pub(crate) enum Readiness {}

pub(crate) fn permitted() -> io::Result<Readiness> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: X1
    #[test]
    fn there_are_no_records() {
        for error in [permitted().unwrap_err(), Ring::attach(ThreadId::current(), true).unwrap_err()] {
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
    }
}
