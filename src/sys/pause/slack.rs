//! The timer slack: how late the system may end a sleep of the calling thread.

#![allow(unsafe_code, reason = "the arguments of libc's prctl depend on the first")]

use std::sync::OnceLock;

use libc::{c_long, c_ulong};

/// The smallest slack that this module sets. All values of this module are in nanoseconds.
const LEAST: c_long = 1000;

/// The slack that a thread had when the slack was first read. If the slack cannot be read, this module does not change
/// the slack.
#[derive(Debug)]
pub(super) struct Slack(OnceLock<c_long>);

/// While this value exists, sleeps of the thread end on time. The drop of this value restores the former slack.
#[derive(Debug)]
pub(super) struct OnTime(Option<c_long>);

impl Slack {
    pub(super) fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Reduces the slack of the calling thread. All calls for one `Slack` must come from the same thread.
    ///
    /// To save wake-ups, the system may end a sleep late by up to the thread's slack, which is usually 50 µs. With a
    /// slack of 50 µs, half of the measured sleeps of 250 µs ended more than 57 µs late. With a slack of 1 µs, half of
    /// them ended more than 9 µs late. A thread passes its slack on to the threads that it makes. If the slack were not
    /// restored, the sleeps of items on these threads would change, too.
    pub(super) fn reduce(&self) -> OnTime {
        let former = *self.0.get_or_init(own);
        OnTime((former > LEAST && set_own(LEAST)).then_some(former))
    }
}

impl Drop for OnTime {
    fn drop(&mut self) {
        if let Some(former) = self.0 {
            set_own(former);
        }
    }
}

/// Returns the slack of the calling thread, or a negative number if the slack cannot be read.
fn own() -> c_long {
    // The C library's own function would truncate the slack to an `int`.
    // SAFETY: the call takes no further arguments and touches no memory of the program.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK) }
}

fn set_own(slack: c_long) -> bool {
    // SAFETY: the call takes plain numbers and touches no memory of the program.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack as c_ulong) == 0 }
}

#[cfg(test)]
mod tests {
    use super::super::Pause;
    use super::*;
    use crate::sys::clock;
    use std::time::Duration;

    /// The test runs on a separate thread, because the slack belongs to the thread.
    #[test]
    fn the_slack_of_the_thread_is_restored() {
        let test = || {
            for before in [50_000, 70_000, 1000, 1] {
                assert!(set_own(before));
                let slack = Slack::new();
                for _ in 0..2 {
                    let on_time = slack.reduce();
                    assert_eq!(own(), before.min(LEAST));
                    drop(on_time);
                    assert_eq!(own(), before);
                }
                for pause in [Pause::parking(), Pause::listening().unwrap()] {
                    while pause.sleep(|| true, Some(clock::now() + Duration::from_micros(1)), &[]) {}
                    assert_eq!(own(), before);
                }
            }
        };
        crate::sys::thread::spawn("slack".to_owned(), None, test).unwrap().join().unwrap();
    }
}
