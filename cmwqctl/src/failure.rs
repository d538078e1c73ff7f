//! What can go wrong, how it is told, and the exit code that says so.

use std::fmt;
use std::io;

use anstyle::{AnsiColor, Style};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why the tool ends with something else than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command's own answer is no, and has been printed.
    Finding,
    /// The process does not do what it was asked for.
    Refused(String),
    /// The command line is wrong, or leaves something open.
    Usage { message: String, hint: String },
    /// There is no such process, or it does not answer (any more).
    Unreachable { message: String, hint: String },
    /// The output cannot be written.
    Output(io::Error),
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn unreachable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unreachable { message: message.into(), hint: hint.into() }
    }

    /// Whoever read the output has had enough of it: that is the end, and no error.
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
        }
    }

    /// Tells it on stderr, with what to do about it.
    pub(crate) fn tell(&self) {
        if self.is_silent() {
            return;
        }
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        anstream::eprintln!("{red}cmwqctl:{red:#} {self}");
        if let Self::Usage { hint, .. } | Self::Unreachable { hint, .. } = self {
            for line in hint.lines() {
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
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
