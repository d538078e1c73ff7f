//! The states of other threads of this process, as the system sees them.
//!
//! Every answer may be late, since the thread goes on meanwhile. A thread that has ended is reported as such, or is an
//! error. Its number may belong to another thread of this process by then. So an answer is a hint unless the caller
//! knows that the thread lives. Only an [`Eye`] stays with the thread for which it was opened.
//!
//! * `Eye::open(thread) -> io::Result<Eye>`: keeps one descriptor open. Fails if the process has no more descriptors,
//!   if the system shows no threads or not to this user, and if the thread has ended.
//! * `Eye::look() -> io::Result<Seen>`: one system call, no allocation.
//! * `cpu_time(thread) -> io::Result<Duration>`: how long the thread has used a CPU in its life. Needs only the clock.
//! * `own_cpu_time() -> Option<Duration>`: the same for the calling thread, and cheaper. `None` if the system does not
//!   tell.
//! * `voluntary_switches(thread) -> io::Result<u64>`: how often the thread has given its CPU away because it waited.
//! * `wait_channel(thread) -> Option<String>`: the function of the kernel in which the thread waits, for people. `None`
//!   if it does not wait, or the system does not tell.
//!
//! In the portable version every function is `Unsupported`.

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

/// A thread at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) state: State,
    /// The CPU on which it runs, or ran last, if the system tells.
    pub(crate) cpu: Option<usize>,
}

/// The state of a thread at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// On a CPU, or waiting for one.
    Runs,
    /// Waits for an event or a signal.
    Sleeps,
    /// Waits for an event, usually a disk, and ignores signals.
    Uninterruptible,
    /// A kernel thread that has nothing to do.
    Idle,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It has ended.
    Gone,
    /// A state that Linux did not have when this was written.
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

    /// The letter that `ps` shows.
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

    /// A description in words.
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

    /// Returns whether it waits for something other than a CPU.
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
