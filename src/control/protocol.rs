//! The protocol of the socket: requests and answers, one JSON object per line.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::manager::offenders::Offender;
use crate::policy::cpu_set::CpuSet;

/// The version of the protocol that this crate speaks. It is raised when the meaning of an existing part changes.
pub const PROTOCOL: u32 = 1;

/// The longest request that a server reads, in bytes, without the newline.
pub const MAX_REQUEST: usize = 64 * 1024;

/// One line from a client.
///
/// Requests without fields are written with braces, so that unknown fields are noticed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    Hello {},
    Dump {},
    Monitor {},
    Watchdog {},
    Attributes { queue: String },
    Get { queue: String, attribute: String },
    Set { queue: String, attribute: String, value: String },
}

/// One line from a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<T> {
    Ok(T),
    Error(RequestError),
}

/// The server's process and version.
///
/// See [`Client::hello`](super::Client::hello).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hello {
    /// The version of the protocol that the server speaks: [`PROTOCOL`].
    pub protocol: u32,
    /// The id of its process.
    pub pid: u32,
    /// The name of its executable file. Empty if that is not known.
    pub program: String,
    /// The prefix of the names of the executor's threads:
    /// [`thread_name_prefix`](crate::ExecutorBuilder::thread_name_prefix).
    pub prefix: String,
    /// The version of this crate in the server.
    pub crate_version: String,
}

/// What an executor's watchdog and detectors have found.
///
/// See [`Client::watchdog`](super::Client::watchdog).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatchdogReport {
    /// The [`watchdog_threshold`](crate::ExecutorBuilder::watchdog_threshold); `None` if there is no watchdog. In JSON
    /// `threshold_ns`.
    #[serde(rename = "threshold_ns", with = "crate::policy::nanos::option")]
    pub threshold: Option<Duration>,
    /// How many stalls of pools the watchdog has reported so far.
    pub stalls: u64,
    /// The pools with a reported stall that is not over.
    pub stalled: Vec<StalledPool>,
    /// As [`Executor::hogs`](crate::Executor::hogs) returns them.
    pub hogs: Vec<Offender>,
    /// As [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) returns them.
    pub undeclared_blockers: Vec<Offender>,
}

/// A pool that has work and starts none of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StalledPool {
    /// The name that its workers share, as in their thread names: `0`, `0H`, `bh0`, `u4`.
    pub pool: String,
    /// The CPUs that it serves.
    pub cpus: CpuSet,
    /// Entries on its worklist, cancelled ones included.
    pub pending: usize,
    /// For at least this time it has started nothing. In JSON `stalled_for_ns`.
    #[serde(rename = "stalled_for_ns", with = "crate::policy::nanos")]
    pub stalled_for: Duration,
}

/// One attribute of a queue, and its value as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct NamedValue {
    pub(super) attribute: String,
    pub(super) value: String,
}

/// Why a server did not carry out a request. Nothing was changed.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::control::{Attribute, Client, ClientError, ErrorKind, Server};
/// # let folder = std::env::temp_dir().join(format!("cmwq-doc-error-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
///
/// let executor = cmwq::Executor::builder().build()?;
/// let _mail = cmwq::WorkQueue::new("mail").build_on(&executor)?;
/// let server = Server::start_at(&executor, folder.join("socket"))?;
/// let error = Client::connect(server.path())?.get("mial", Attribute::MaxActive).unwrap_err();
/// let ClientError::Answer(error) = error else { panic!("{error}") };
/// assert_eq!(error.kind, ErrorKind::UnknownQueue);
/// assert_eq!(error.message, r#"no queue is named "mial"; the queues are: mail"#);
/// # drop(server);
/// # std::fs::remove_dir(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestError {
    /// The kind of error, for programs.
    pub kind: ErrorKind,
    /// What was wrong, and what would be right, for people.
    pub message: String,
}

/// The kinds of a server's errors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The line is not a request: it is not JSON, names no known request, or lacks a field. The connection goes on.
    BadRequest,
    /// The line is longer than [`MAX_REQUEST`]. The connection is closed.
    TooLong,
    /// No queue has this name.
    UnknownQueue,
    /// Several queues have this name; the message has their numbers.
    AmbiguousQueue,
    /// No attribute has this name.
    UnknownAttribute,
    /// This kind of queue does not have this attribute, or does not permit changes of it.
    Inapplicable,
    /// The attribute cannot have this value.
    BadValue,
    /// The queue was not built with [`control`](crate::WorkQueueBuilder::control).
    NotControllable,
    /// The executor was shut down, or is being shut down.
    ShutDown,
    /// The executor is gone: its handles and queues were dropped.
    Ended,
    /// The server has as many connections as it serves. This one is closed.
    Busy,
    /// The client belongs to another user. The connection is closed.
    Forbidden,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

impl RequestError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// If the line is not a request. The message says where, and what was expected there.
    pub(super) fn read(line: &[u8]) -> Result<Self, RequestError> {
        serde_json::from_slice(line).map_err(|error| {
            let message = format!(
                "this is not a request: {}; write one JSON object on one line, such as {{\"request\":\"hello\"}}",
                shortened(&error.to_string())
            );
            RequestError::new(ErrorKind::BadRequest, message)
        })
    }
}

/// The longest part of a client's text that a message repeats, in characters.
const REPEATED: usize = 200;

/// The beginning of a text that comes from a client or a program, and may be of any length.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Serialises an answer as a line, with its newline.
pub(super) fn line_of(said: &impl Serialize) -> Vec<u8> {
    // Only a map whose keys are not strings could fail, and no answer has one.
    let mut line = serde_json::to_vec(said).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        for (line, request) in [
            (r#"{"request":"hello"}"#, Request::Hello {}),
            (
                r#" { "queue": "a\"b", "request": "attributes" } "#,
                Request::Attributes { queue: "a\"b".into() },
            ),
            (
                r#"{"request":"set","queue":"mail","attribute":"nice","value":"5"}"#,
                Request::Set { queue: "mail".into(), attribute: "nice".into(), value: "5".into() },
            ),
        ] {
            assert_eq!(Request::read(line.as_bytes()), Ok(request.clone()), "{line}");
            assert_eq!(Request::read(line_of(&request).trim_ascii_end()), Ok(request));
        }
    }

    /// spec: O5.4 (bad requests get a clear error)
    #[test]
    fn a_malformed_request_gets_an_error_in_words() {
        let deep = format!(r#"{{"queue":{}1{}}}"#, "[".repeat(2000), "]".repeat(2000));
        for (line, words) in [
            (&b""[..], "EOF while parsing"),
            (b"hello", "expected value"),
            (b"{\"request\":\"hello\"} {}", "trailing characters"),
            (b"{}", "missing field `request`"),
            (b"{\"request\":\"explode\"}", "unknown variant `explode`, expected one of `hello`"),
            (b"{\"request\":\"get\",\"queue\":\"mail\"}", "missing field `attribute`"),
            (b"{\"request\":\"hello\",\"loud\":true}", "unknown field `loud`"),
            (
                b"{\"request\":\"set\",\"queue\":\"q\",\"attribute\":\"nice\",\"value\":5}",
                "invalid type: integer `5`, expected a string",
            ),
            (b"{\"request\":\"\xff\"}", "invalid unicode"),
            (deep.as_bytes(), "recursion limit exceeded"),
        ] {
            let error = Request::read(line).unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.message.contains(words), "{error}");
        }
    }

    #[test]
    fn kinds_of_later_versions_are_read_too() {
        let error: RequestError = serde_json::from_str(r#"{"kind":"too_rainy","message":"wait"}"#).unwrap();
        assert_eq!(error, RequestError::new(ErrorKind::Other, "wait"));
    }

    proptest! {
        /// spec: O5.4 (whatever comes is read or refused, in a message of bounded length)
        #[test]
        fn any_bytes_are_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Err(error) = Request::read(&line) {
                prop_assert!(error.message.len() < 1200);
            }
        }

        #[test]
        fn any_texts_come_through(queue in ".*", attribute in ".*", value in ".*") {
            let request = Request::Set { queue, attribute, value };
            let line = line_of(&request);
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(Request::read(&line), Ok(request));
        }

        #[test]
        fn a_damaged_request_is_read_or_refused(at in 0_usize..70, byte: u8) {
            let mut line = br#"{"request":"set","queue":"mail","attribute":"max_active","value":"8"}"#.to_vec();
            line[at % 69] = byte;
            drop(Request::read(&line));
        }
    }
}
