//! The version for systems that do not show the states of other threads.

use std::io;
use std::time::Duration;

use super::Seen;
use crate::sys::affinity::ThreadId;

/// No `Eye` can be opened on these systems.
#[derive(Debug)]
pub(crate) enum Eye {}

impl Eye {
    pub(crate) fn open(_thread: ThreadId) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn look(&self) -> io::Result<Seen> {
        match *self {}
    }
}

pub(crate) fn cpu_time(_thread: ThreadId) -> io::Result<Duration> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn own_cpu_time() -> Option<Duration> {
    None
}

pub(crate) fn voluntary_switches(_thread: ThreadId) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn wait_channel(_thread: ThreadId) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: X1
    #[test]
    fn every_function_is_unsupported() {
        let this = ThreadId::current();
        let errors = [
            Eye::open(this).unwrap_err(),
            cpu_time(this).unwrap_err(),
            voluntary_switches(this).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.kind() == io::ErrorKind::Unsupported));
        assert_eq!(wait_channel(this), None);
        assert_eq!(own_cpu_time(), None);
    }
}
