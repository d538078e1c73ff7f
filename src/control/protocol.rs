//! The protocol of the socket: requests and answers, one JSON object per line.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::manager::offenders::Offender;
use crate::policy::cpu_set::CpuSet;

/// The version of the protocol that this crate speaks. The version is raised when the meaning of an existing part of
/// the protocol changes.
pub const PROTOCOL: u32 = 1;

/// A server reads a request of at most this many bytes, not counting the newline.
pub const MAX_REQUEST: usize = 64 * 1024;

/// A request, which is one line from a client.
///
/// Variants without fields have braces, so that a request with unknown fields is refused.
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

/// An answer, which is one line from a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<T> {
    Ok(T),
    Error(RequestError),
}

/// The process and the version of a server.
///
/// See [`Client::hello`](super::Client::hello).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hello {
    /// The version of the protocol that the server speaks: [`PROTOCOL`].
    pub protocol: u32,
    /// The id of the server's process.
    pub pid: u32,
    /// The name of the server's executable file. The name is empty if it is not known.
    pub program: String,
    /// The prefix of the executor's thread names, as set with
    /// [`thread_name_prefix`](crate::ExecutorBuilder::thread_name_prefix).
    pub prefix: String,
    /// The version of this crate that the server uses.
    pub crate_version: String,
}

/// What an executor's watchdog and detectors have found: stalls of pools, hogs and undeclared blockers.
///
/// See [`Client::watchdog`](super::Client::watchdog).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatchdogReport {
    /// The [`watchdog_threshold`](crate::ExecutorBuilder::watchdog_threshold), or `None` if there is no watchdog. The
    /// key in JSON is `threshold_ns`.
    #[serde(rename = "threshold_ns", with = "crate::policy::nanos::option")]
    pub threshold: Option<Duration>,
    /// The number of stalls of pools that the watchdog has reported so far.
    pub stalls: u64,
    /// The pools whose reported stall is not over yet.
    pub stalled: Vec<StalledPool>,
    /// The hogs, as [`Executor::hogs`](crate::Executor::hogs) returns them.
    pub hogs: Vec<Offender>,
    /// The undeclared blockers, as [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) returns
    /// them.
    pub undeclared_blockers: Vec<Offender>,
}

/// A pool that has work but starts none of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StalledPool {
    /// The pool's name, which is part of its workers' thread names: `0`, `0H`, `bh0`, `u4`.
    pub pool: String,
    /// The CPUs that the pool serves.
    pub cpus: CpuSet,
    /// The number of entries on the pool's worklist, including cancelled entries.
    pub pending: usize,
    /// A lower bound on the time for which the pool has started no work. The key in JSON is `stalled_for_ns`.
    #[serde(rename = "stalled_for_ns", with = "crate::policy::nanos")]
    pub stalled_for: Duration,
}

/// One attribute of a queue, and its value as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct NamedValue {
    pub(super) attribute: String,
    pub(super) value: String,
}

/// The reason why a server did not carry out a request. The request has changed nothing.
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
/// let _mail = cmwq::WorkQueue::builder("mail").build_on(&executor)?;
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
    /// A message for people that says what was wrong and what would be right.
    pub message: String,
}

/// The kinds of errors that a server returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The line is not a request: it is not JSON, does not name a known request, or has missing or unknown fields. The
    /// connection stays open.
    BadRequest,
    /// The line is longer than [`MAX_REQUEST`]. The server closes the connection.
    TooLong,
    /// No queue has this name.
    UnknownQueue,
    /// Several queues have this name. The message lists their numbers.
    AmbiguousQueue,
    /// No attribute has this name.
    UnknownAttribute,
    /// This kind of queue does not have the attribute, or does not permit changes to the attribute.
    Inapplicable,
    /// The attribute cannot have this value.
    BadValue,
    /// The queue was not built with [`control`](crate::WorkQueueBuilder::control).
    NotControllable,
    /// The executor was shut down, or is being shut down.
    ShutDown,
    /// The executor is gone, because all of its handles and queues were dropped.
    Ended,
    /// The server has the maximum number of connections already. The server closes the new connection.
    Busy,
    /// The client belongs to another user. The server closes the connection.
    Forbidden,
    /// A kind of error that this version of the crate does not know.
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
    /// Parses a request line.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is not a request. The message says where the fault is, and what was expected there.
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

/// An error message quotes at most this many characters of a text.
const REPEATED: usize = 200;

/// Returns the text, but cuts it after `REPEATED` characters and marks the cut with `…`. A text from a client or a
/// program may have any length.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Serialises a request or an answer as one line that ends with a newline.
pub(super) fn line_of(said: &impl Serialize) -> Vec<u8> {
    // Serialisation fails only for a map whose keys are not strings, and no request or answer contains such a map.
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

    /// spec: O5.4 (a line that is not a valid request gets an error that says what is wrong with the line)
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
        /// spec: O5.4 (any line is read, or refused with a message of bounded length)
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
