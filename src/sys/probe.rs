//! The functions by which an executor inspects its threads, and the errors that tests inject into these inspections.

use std::io;
use std::time::Duration;

use super::affinity::ThreadId;
use super::machine;
use super::pause::Pause;
use super::switches::{self, Readiness, Ring, Switch};
use super::thread_state::{self, Eye};

/// The errors with which inspections fail, as the system numbers them. Outside of tests, every field is `None`.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Faults {
    /// The error with which reads of a thread's state or of its count of switches fail.
    pub(crate) state: Option<i32>,
    /// The error with which reads of a thread's CPU time fail.
    pub(crate) cpu_time: Option<i32>,
    /// The error with which attempts to record the switches of any thread fail, as if the system permitted no records.
    pub(crate) switches: Option<i32>,
    /// The error with which attempts to listen for records of context switches fail.
    pub(crate) listening: Option<i32>,
    /// The error with which attempts to record the switches of one more thread fail, if the system permits records.
    pub(crate) attaching: Option<i32>,
    /// The error with which reads of a thread's records fail.
    pub(crate) draining: Option<i32>,
}

/// Calls functions of [`thread_state`], [`switches`] and [`pause`](super::pause), or returns the injected errors
/// instead.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Probe {
    faults: Faults,
}

impl Probe {
    #[cfg(test)]
    pub(crate) fn with_faults(faults: Faults) -> Self {
        Self { faults }
    }

    pub(crate) fn open(&self, thread: ThreadId) -> io::Result<Eye> {
        unless(self.faults.state, || Eye::open(thread))
    }

    pub(crate) fn cpu_time(&self, thread: ThreadId) -> io::Result<Duration> {
        unless(self.faults.cpu_time, || thread_state::cpu_time(thread))
    }

    pub(crate) fn voluntary_switches(&self, thread: ThreadId) -> io::Result<u64> {
        unless(self.faults.state, || thread_state::voluntary_switches(thread))
    }

    pub(crate) fn attach(&self, thread: ThreadId, runs: bool) -> io::Result<Ring> {
        unless(self.faults.switches.or(self.faults.attaching), || Ring::attach(thread, runs))
    }

    pub(crate) fn drain(&self, ring: &mut Ring, tell: impl FnMut(Switch)) -> io::Result<()> {
        unless(self.faults.draining, || ring.drain(tell))
    }

    /// Returns a pause that a record of a context switch can end. Returns an error if the system does not let this
    /// process record switches, or does not wake a listener for records.
    pub(crate) fn listening(&self) -> io::Result<(Pause, Readiness)> {
        if machine::listens() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let ready = unless(self.faults.switches, switches::permitted)?;
        Ok((unless(self.faults.listening, Pause::listening)?, ready))
    }
}

fn unless<T>(fault: Option<i32>, look: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    fault.map_or_else(look, |number| Err(io::Error::from_raw_os_error(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: S1.3
    #[test]
    fn each_look_fails_by_order_and_by_itself() {
        let this = ThreadId::current();
        let all = Faults {
            state: Some(24),
            cpu_time: Some(22),
            switches: Some(1),
            listening: Some(13),
            attaching: Some(12),
            draining: Some(5),
        };
        let probe = Probe::with_faults(all);
        let number = |error: io::Error| error.raw_os_error();
        assert_eq!(number(probe.open(this).unwrap_err()), Some(24));
        assert_eq!(number(probe.voluntary_switches(this).unwrap_err()), Some(24));
        assert_eq!(number(probe.cpu_time(this).unwrap_err()), Some(22));
        assert_eq!(number(probe.attach(this, true).unwrap_err()), Some(1));
        assert_eq!(number(probe.listening().unwrap_err()), Some(1));
        let probe = Probe::with_faults(Faults { switches: None, ..all });
        assert_eq!(number(probe.attach(this, true).unwrap_err()), Some(12));
        if switches::permitted().is_ok() {
            assert_eq!(number(probe.listening().unwrap_err()), Some(13));
            let mut ring = Probe::default().attach(this, true).unwrap();
            assert_eq!(number(probe.drain(&mut ring, |_| ()).unwrap_err()), Some(5));
        }
    }

    /// spec: S1
    #[cfg(all(target_os = "linux", not(cmwq_portable)))]
    #[test]
    fn looks_succeed_without_injected_errors() {
        let this = ThreadId::current();
        let probe = Probe::default();
        assert!(!probe.open(this).unwrap().look().unwrap().state.is_blocked());
        assert!(probe.cpu_time(this).unwrap() > Duration::ZERO);
        probe.voluntary_switches(this).unwrap();
        assert_eq!(probe.listening().is_ok(), probe.attach(this, true).is_ok());
    }
}
