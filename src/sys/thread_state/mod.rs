//! The states of other threads of this process, as the system sees them.
//!
//! Every answer may already be outdated, because the thread runs on in the meantime. If the thread has ended, the
//! answer is [`State::Gone`] or an error. But after the thread's end, its number may also belong to another thread of
//! this process. So an answer is only a hint, unless the caller knows that the thread has not ended. An answer of an
//! [`Eye`], in contrast, always concerns the thread for which the `Eye` was opened.
//!
//! * `Eye::open(thread) -> io::Result<Eye>`: keeps one descriptor open. The call fails if the process has no free
//!   descriptors, if the system does not show threads to this user, or if the thread has ended.
//! * `Eye::look() -> io::Result<Seen>`: makes one system call and no allocation.
//! * `cpu_time(thread) -> io::Result<Duration>`: the CPU time that the thread has used in its life. The function reads
//!   only a clock.
//! * `own_cpu_time() -> Option<Duration>`: the CPU time of the calling thread, read at a lower cost. `None` if the
//!   system does not tell the CPU time.
//! * `voluntary_switches(thread) -> io::Result<u64>`: the number of times that the thread has given its CPU away to
//!   wait for something.
//! * `wait_channel(thread) -> Option<String>`: the kernel function in which the thread waits, as information for
//!   people. `None` if the thread does not wait, or if the system does not tell the function.
//!
//! In the portable version, every function returns either `None` or the error `Unsupported`.

use std::fmt;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
#[cfg(any(test, cmwq_portable, not(target_os = "linux")))]
#[cfg_attr(test, allow(dead_code, reason = "a type without values cannot be used in a test"))]
mod portable;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
pub(crate) use linux::{Eye, cpu_time, own_cpu_time, voluntary_switches, wait_channel};
#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
pub(crate) use portable::{Eye, cpu_time, own_cpu_time, voluntary_switches, wait_channel};

/// The state and the CPU of a thread at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) state: State,
    /// The CPU on which the thread runs or last ran, if the system tells it.
    pub(crate) cpu: Option<usize>,
}

/// The state of a thread at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The thread runs on a CPU, or waits for one.
    Runs,
    /// The thread waits for an event or a signal.
    Sleeps,
    /// The thread waits for an event, usually from a disk, and ignores signals.
    Uninterruptible,
    /// The thread is a kernel thread that has nothing to do.
    Idle,
    /// A signal or a debugger has stopped the thread.
    Stopped,
    /// The thread has ended.
    Gone,
    /// The state is one that Linux did not have when this code was written.
    Other(char),
}

impl State {
    pub(crate) fn of_letter(letter: char) -> Self {
        match letter {
            'R' => Self::Runs,
            'S' => Self::Sleeps,
            'D' => Self::Uninterruptible,
            'I' => Self::Idle,
            'T' | 't' => Self::Stopped,
            'Z' | 'X' => Self::Gone,
            other => Self::Other(other),
        }
    }

    /// Returns the letter that `ps` shows for this state.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Runs => 'R',
            Self::Sleeps => 'S',
            Self::Uninterruptible => 'D',
            Self::Idle => 'I',
            Self::Stopped => 'T',
            Self::Gone => 'X',
            Self::Other(letter) => letter,
        }
    }

    /// Returns a description of this state in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Runs => "running",
            Self::Sleeps => "sleeping",
            Self::Uninterruptible => "sleeping, uninterruptibly",
            Self::Idle => "idle",
            Self::Stopped => "stopped",
            Self::Gone => "ended",
            Self::Other(_) => "in a state unknown to cmwq",
        }
    }

    /// Returns whether a thread in this state waits for something other than a CPU.
    pub(crate) fn is_blocked(self) -> bool {
        matches!(self, Self::Sleeps | Self::Uninterruptible)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.letter(), self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_by_letter_and_in_words() {
        for letter in ['R', 'S', 'D', 'I', 'T', 'X', 'P'] {
            let state = State::of_letter(letter);
            assert_eq!(state.letter(), letter);
            assert_eq!(state.to_string(), format!("{letter} ({})", state.words()));
            assert_eq!(state.is_blocked(), "SD".contains(letter));
        }
        assert_eq!(State::of_letter('t'), State::Stopped);
        assert_eq!(State::of_letter('Z'), State::Gone);
        assert_eq!(State::Sleeps.to_string(), "S (sleeping)");
    }
}
