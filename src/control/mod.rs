//! A Unix socket through which other processes inspect and change a running process.
//!
//! A process starts a [`Server`] for an executor. The tool `cmwqctl`, or a [`Client`] in another program, finds it by
//! its process id. A client can read every queue, and can change queues that were built with
//! [`control`](crate::WorkQueueBuilder::control).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::control::{Attribute, Client, Server};
//! use cmwq::{Executor, WorkQueue};
//! # let folder = std::env::temp_dir().join(format!("cmwq-doc-control-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("control");
//!
//! let executor = Executor::builder().build()?;
//! let mail = WorkQueue::new("mail").control().build_on(&executor)?;
//! let server = Server::start_at(&executor, &path)?; // `start` chooses a path itself
//!
//! let mut client = Client::connect(&path)?;
//! assert_eq!(client.set("mail", Attribute::AffinityScope, "numa")?, "numa");
//! assert_eq!(mail.attrs().unwrap().scope, cmwq::AffinityScope::Numa);
//! println!("{}", client.dump()?);
//! # drop(server);
//! # std::fs::remove_dir(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where the socket is
//!
//! [`Server::start`] takes the first of these directories whose parent belongs to the user of the process, or else the
//! last one:
//!
//! 1. `$XDG_RUNTIME_DIR/cmwq`
//! 2. `/run/user/UID/cmwq`
//! 3. `cmwq-UID` in the [directory for temporary files](std::env::temp_dir)
//!
//! The directory is made, with mode 0700, if it does not exist. It is refused if others may use it. The socket in it
//! has mode 0600 and is named after the process: `PID`; the sockets of further executors are `PID-2`, `PID-3` and so
//! on. It is removed with its server. The socket of a killed process is removed by [`processes`], and by the next
//! server that would have the same name.
//!
//! # Which clients are served
//!
//! Processes of the same (effective) user, and of root, whatever the permissions of the file: the server asks the
//! system for the user of each connection. Other clients get an error. A client, likewise, does not speak to another
//! user's process, unless the client or that process is root's.
//!
//! A client that the server accepts can read the names of queues, item types and descriptions. It may change queues
//! that were built with `control`, and nothing else: it cannot queue, cancel or wait for items.
//!
//! # What it costs, and its limits
//!
//! One thread for each server, asleep while no client is connected. It takes the executor's locks as briefly as
//! [`Executor::dump`](crate::Executor::dump) does, and none while it writes. It runs no hooks and waits for no client.
//! So neither a slow nor a hostile client affects the executor.
//!
//! * 32 connections at once ([`MAX_CONNECTIONS`]); a further one gets the error `busy` and is closed.
//! * 64 KiB for a request ([`MAX_REQUEST`]); after a longer one the connection is closed.
//! * One request at a time on each connection: the next one is read when the answer has been sent.
//! * A connection is closed after 30 seconds without a request, after 5 seconds in which the client reads nothing of an
//!   answer, and after 60 seconds in which it does not read the whole answer.
//!
//! # The protocol
//!
//! A request is a JSON object on one line, and so is its answer: `{"ok":…}` with the result, or `{"error":…}` with a
//! [kind](ErrorKind) for programs and a message for people. Texts are UTF-8. Unknown fields of a request are an error.
//! Answers of later versions may have more fields.
//!
//! | request | answer |
//! |---|---|
//! | `hello` | [`Hello`] |
//! | `dump` | [`Snapshot`](crate::observe::Snapshot), in the format that [`observe`](crate::observe) documents |
//! | `monitor` | [`MonitorReport`](crate::observe::MonitorReport), in the same format |
//! | `watchdog` | [`WatchdogReport`] |
//! | `attributes`, `queue` | the attributes that the queue has, with the values in effect |
//! | `get`, `queue`, `attribute` | the value in effect |
//! | `set`, `queue`, `attribute`, `value` | the value in effect, which may differ from the requested one: CPUs that the executor does not allow are left out |
//!
//! ```text
//! → {"request":"hello"}
//! ← {"ok":{"protocol":1,"pid":4711,"program":"service","prefix":"cmwq","crate_version":"0.1.0"}}
//! → {"request":"get","queue":"mail","attribute":"max_active"}
//! ← {"ok":"256"}
//! → {"request":"set","queue":"mail","attribute":"affinity_scope","value":"numa"}
//! ← {"ok":"numa"}
//! → {"request":"attributes","queue":"acks"}
//! ← {"ok":[{"attribute":"max_active","value":"256"},{"attribute":"histograms","value":"0"}]}
//! → {"request":"watchdog"}
//! ← {"ok":{"threshold_ns":30000000000,"stalls":0,"stalled":[],"hogs":[],"undeclared_blockers":[]}}
//! → {"request":"get","queue":"mial","attribute":"max_active"}
//! ← {"error":{"kind":"unknown_queue","message":"no queue is named \"mial\"; the queues are: mail, acks"}}
//! ```
//!
//! A queue is named by its name. If several queues have it, the answer is an error that lists them with their numbers;
//! then `name#number` names one of them. Attributes have the names and values of the kernel's files ([`Attribute`]),
//! values as texts. Any program can use the protocol: `echo '{"request":"dump"}' | socat -t 10 - UNIX-CONNECT:PATH`.

mod attribute;
mod client;
mod error;
mod path;
mod protocol;
mod request_handler;
mod server;
mod session;
mod values;

pub use self::attribute::{Attribute, ParseAttributeError};
pub use self::client::Client;
pub use self::error::{ClientError, ServeError};
pub use self::path::{Process, processes};
pub use self::protocol::{
    ErrorKind, Hello, MAX_REQUEST, PROTOCOL, RequestError, StalledPool, WatchdogReport,
};
pub use self::server::{MAX_CONNECTIONS, Server};

/// Called by the fuzz target: a connection on which these bytes come in pieces of some lengths, and its answers.
///
/// # Panics
///
/// If a promise is broken: an answer is not a line of JSON, or the connection does not end.
#[cfg(fuzzing)]
#[doc(hidden)]
pub fn fuzz(executor: &crate::executor::Executor, bytes: &[u8], pieces: &[u8]) {
    use crate::policy::time::Time;
    use crate::sys::socket::Interest;

    let (request_handler, now) = (request_handler::RequestHandler::new(executor), Time::default());
    let (mut session, mut rest) = (session::Session::new(now), bytes);
    let mut pieces = pieces.iter().map(|piece| usize::from(*piece) * 7 + 1).cycle();
    let mut answered = 0;
    while !session.is_over(now) {
        if session.interest() == Some(Interest::Read) {
            let piece = pieces.next().unwrap_or(usize::MAX).min(rest.len()).min(session.room());
            let (now_read, later) = rest.split_at(piece);
            rest = later;
            if now_read.is_empty() { session.half_closed() } else { session.received(now_read) }
        }
        session.advance(now, |line| {
            answered += 1;
            request_handler.answer(line)
        });
        let unsent = session.unsent();
        if !unsent.is_empty() {
            assert_eq!(unsent.iter().position(|byte| *byte == b'\n'), Some(unsent.len() - 1));
            let answer: serde_json::Value = serde_json::from_slice(unsent).expect("an answer is JSON");
            assert!(answer.get("ok").is_some() || answer["error"]["message"].is_string());
            session.sent(unsent.len(), now);
        }
    }
    assert!(answered <= bytes.iter().filter(|byte| **byte == b'\n').count());
}
