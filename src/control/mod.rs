//! A running process, seen and changed from outside through a Unix socket.
//!
//! A process starts a [`Server`] for an executor; the tool `cmwqctl`, or a [`Client`] of another program, finds it by its
//! process number. Every queue can be looked at; those that were built with
//! [`control`](crate::WorkQueueBuilder::control) can be changed.
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
//! let server = Server::start_at(&executor, &path)?; // `start` finds a place by itself
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
//! [`Server::start`] takes the first of these directories that there is, and that belongs to the user of the process:
//!
//! 1. `$XDG_RUNTIME_DIR/cmwq`
//! 2. `/run/user/UID/cmwq`
//! 3. `cmwq-UID` in the [directory for temporary files](std::env::temp_dir)
//!
//! It is made, with mode 0700, if it is not there, and refused if others may use it. The socket in it has mode 0600 and is
//! named by the process: `PID`; those of further executors are `PID-2`, `PID-3` and so on. It is removed with its server;
//! what a killed process has left behind is removed by [`processes`] and by the next server that would have its name.
//!
//! # Who is served
//!
//! Processes of the same (effective) user, and root, whatever the permissions of the file: the system is asked who has
//! connected. Others are told that they are not served. A client, likewise, does not speak to another user's process, unless it
//! is root or that is root's.
//!
//! Whoever is served sees the names of queues, item types and descriptions, and may change what was marked to be changed,
//! and nothing else: he cannot queue, cancel or wait for items.
//!
//! # What it costs, and its limits
//!
//! One thread for each server, asleep while nobody is connected. It takes the executor's locks as briefly as
//! [`Executor::dump`](crate::Executor::dump) does, none while it writes, runs no hooks and waits for no client, so that
//! neither a slow nor a hostile one reaches the executor.
//!
//! * 32 connections at once ([`MAX_CONNECTIONS`]); one more is told `busy` and closed.
//! * 64 KiB for a request ([`MAX_REQUEST`]); after a longer one the connection is closed.
//! * One request at a time on each connection: the next one is read when the answer is gone.
//! * A connection without a request for 30 seconds is closed, and so is one that takes nothing of its answer for 5 seconds,
//!   or not all of it within 60.
//!
//! # The protocol
//!
//! A request is a JSON object on one line, and so is its answer: `{"ok":…}` with what was asked for, or `{"error":…}` with
//! a [kind](ErrorKind) for programs and a message for people. Texts are UTF-8. Fields that a request does not know are an
//! error; in answers, later versions may have more of them.
//!
//! | request | answer |
//! |---|---|
//! | `hello` | [`Hello`] |
//! | `dump` | [`Snapshot`](crate::observe::Snapshot), in the form that [`observe`](crate::observe) documents |
//! | `monitor` | [`MonitorReport`](crate::observe::MonitorReport), likewise |
//! | `watchdog` | [`WatchdogReport`] |
//! | `attributes`, `queue` | the attributes that the queue has, and what holds now |
//! | `get`, `queue`, `attribute` | what holds now |
//! | `set`, `queue`, `attribute`, `value` | what holds now, which is not always what was asked for: CPUs that the executor does not allow do not count |
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
//! ← {"error":{"kind":"unknown_queue","message":"no queue is named \"mial\"; there are: mail, acks"}}
//! ```
//!
//! A queue is named by its name. Where several have it, that is an error which lists them with their numbers; then
//! `name#number` means one of them. Attributes have the names and values of the kernel's files ([`Attribute`]), values as
//! texts. Any program can speak it: `echo '{"request":"dump"}' | socat -t 10 - UNIX-CONNECT:PATH`.

mod attribute;
mod client;
mod desk;
mod error;
mod path;
mod protocol;
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

/// What the fuzz target calls: a connection to which these bytes come in pieces of some lengths, and what is answered.
///
/// # Panics
///
/// If a promise is broken: an answer is no line of JSON, or there is no end.
#[cfg(fuzzing)]
#[doc(hidden)]
pub fn fuzz(executor: &crate::Executor, bytes: &[u8], pieces: &[u8]) {
    use crate::policy::time::Time;
    use crate::sys::socket::Interest;

    let (desk, now) = (desk::Desk::new(executor), Time::default());
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
            desk.answer(line)
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
