//! Failures, their messages, and their exit codes.

use std::fmt;
use std::io;

use anstyle::{AnsiColor, Style};

use crate::text;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The reason why the tool exits with a code other than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command has printed a negative result, such as a stalled pool.
    Finding,
    /// The process refused the request.
    Refused(String),
    /// The command line is wrong, or does not select exactly one process.
    Usage { message: String, hint: String },
    /// The process does not exist, or does not answer.
    Unreachable { message: String, hint: String },
    /// The output cannot be written.
    Output(io::Error),
    /// Another thread of the tool has panicked.
    Panicked,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn unreachable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unreachable { message: message.into(), hint: hint.into() }
    }

    /// Returns whether the tool ends without a message. The tool does so after a finding, and also if the reader has
    /// closed the pipe, which is not an error.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Self::Finding => true,
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Finding | Self::Refused(_) | Self::Output(_) => 1,
            Self::Usage { .. } => 2,
            Self::Unreachable { .. } => 3,
            // This is the code of a process whose main thread has panicked.
            Self::Panicked => 101,
        }
    }

    /// Prints the message on stderr, with a hint.
    pub(crate) fn tell(&self) {
        if self.is_silent() {
            return;
        }
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        anstream::eprintln!("{red}cmwqctl:{red:#} {}", text::lines(&self.to_string()));
        if let Self::Usage { hint, .. } | Self::Unreachable { hint, .. } = self {
            for line in text::lines(hint).lines() {
                anstream::eprintln!("  {line}");
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finding => Ok(()),
            Self::Refused(message) | Self::Usage { message, .. } | Self::Unreachable { message, .. } => {
                f.write_str(message)
            }
            Self::Output(error) => write!(f, "the output cannot be written: {error}"),
            Self::Panicked => f.write_str("a thread of the tool has panicked"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
