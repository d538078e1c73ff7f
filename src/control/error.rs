//! Errors of servers and clients.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::protocol::RequestError;

/// The reason why a server did not make its control socket. After such an error, no socket is left behind.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::control::{ServeError, Server};
///
/// let executor = cmwq::Executor::builder().build()?;
/// let error = Server::start_at(&executor, "/dev/null").unwrap_err();
/// assert!(matches!(error, ServeError::NotASocket { .. }));
/// assert_eq!(error.to_string(), "/dev/null exists, and is not a socket: name another path");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The default directory belongs to another user, or is not a directory.
    Directory {
        /// The directory.
        path: PathBuf,
        /// The user that owns the path.
        owner: u32,
    },
    /// The permissions of the default directory let other users use it.
    Mode {
        /// The directory.
        path: PathBuf,
        /// The permissions of the directory.
        mode: u32,
    },
    /// A process already listens on this socket.
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The path exists, and is not a socket.
    NotASocket {
        /// The path that was given.
        path: PathBuf,
    },
    /// The system does not accept socket paths of this length.
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The system refused an operation.
    Io {
        /// The operation that failed, and its path.
        what: String,
        /// The error that the system returned.
        error: io::Error,
    },
    /// The executor belongs to the process from which this process was forked.
    Forked,
}

impl ServeError {
    pub(super) fn io(what: impl fmt::Display, path: &std::path::Path, error: io::Error) -> Self {
        Self::Io { what: format!("{what} {}", path.display()), error }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, owner } => write!(
                f,
                "{} belongs to user {owner}, or is not a directory: only your own directory is safe; remove it, or name a path \
                 elsewhere",
                path.display()
            ),
            Self::Mode { path, mode } => {
                write!(f, "other users may use {} (mode {mode:03o}): make it 700", path.display())
            }
            Self::InUse { path } => {
                write!(f, "a process already listens on {}: name another path", path.display())
            }
            Self::NotASocket { path } => {
                write!(f, "{} exists, and is not a socket: name another path", path.display())
            }
            Self::TooLong { path } => write!(
                f,
                "the path {} has {} bytes, more than the system accepts for a socket (about 100): name a shorter path",
                path.display(),
                path.as_os_str().len()
            ),
            Self::Io { what, error } => write!(f, "cannot {what}: {error}"),
            Self::Forked => write!(
                f,
                "the executor belongs to the process that this one was forked from; make a new one here"
            ),
        }
    }
}

impl std::error::Error for ServeError {}

/// The reason why a client got no result.
///
/// # Examples
///
/// ```
/// use cmwq::control::{Client, ClientError};
///
/// let error = Client::connect("/nowhere/cmwq/1").unwrap_err();
/// assert!(matches!(error, ClientError::Connect { .. }));
/// assert!(error.to_string().starts_with("cannot connect to /nowhere/cmwq/1: "));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The client could not connect to the socket.
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error that the system returned.
        error: io::Error,
    },
    /// The requested process has no control socket in the directories that were searched.
    NoProcess {
        /// The id of the requested process.
        pid: u32,
        /// The directories that were searched.
        searched: Vec<PathBuf>,
    },
    /// The socket belongs to another user's process.
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// The id of the other user.
        uid: u32,
    },
    /// The server refused the request. The field says why.
    Answer(RequestError),
    /// The server did not answer in time.
    TimedOut,
    /// The server has closed the connection. For example, its process or the server itself has ended, or the client
    /// has sent no request for too long.
    Closed,
    /// The connection failed.
    Io(io::Error),
    /// This version of the client does not understand the answer.
    Malformed(String),
    /// The request is longer than a server accepts.
    TooLong {
        /// The length of the request in bytes.
        bytes: usize,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { path, error } => write!(f, "cannot connect to {}: {error}", path.display()),
            Self::NoProcess { pid, searched } => {
                write!(f, "process {pid} has no control socket")?;
                for (n, path) in searched.iter().enumerate() {
                    write!(f, "{}{}", if n == 0 { " in " } else { " or " }, path.display())?;
                }
                write!(
                    f,
                    ": does it exist, does it belong to you, and has it started a `cmwq::control::Server`?"
                )
            }
            Self::OtherUser { path, uid } => {
                write!(f, "{} belongs to a process of user {uid}", path.display())
            }
            Self::Answer(error) => error.fmt(f),
            Self::TimedOut => write!(f, "there was no answer in time"),
            Self::Closed => write!(f, "the process has closed the connection"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::Malformed(why) => write!(f, "the answer cannot be read: {why}"),
            Self::TooLong { bytes } => write!(
                f,
                "the request has {bytes} bytes, more than the {} that a server reads",
                super::protocol::MAX_REQUEST
            ),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::TimedOut,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                Self::Closed
            }
            _ => Self::Io(error),
        }
    }
}
