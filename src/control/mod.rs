//! A Unix socket through which other processes inspect and change a running process.
//!
//! A process starts a [`Server`] for an executor. The tool `cmwqctl`, or a [`Client`] in another program, finds the
//! server by its process id. A client can inspect every queue of the executor, and can change queues that were built
//! with [`control`](crate::WorkQueueBuilder::control).
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
//! let mail = WorkQueue::builder("mail").control(true).build_on(&executor)?;
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
//! [`Server::start`] uses the first of these directories whose parent directory belongs to the user of the process. If
//! no parent directory belongs to that user, the server uses the third directory:
//!
//! 1. `$XDG_RUNTIME_DIR/cmwq`
//! 2. `/run/user/UID/cmwq`
//! 3. `cmwq-UID` in the [directory for temporary files](std::env::temp_dir)
//!
//! If the directory does not exist, the server makes it with mode 0700. The server refuses a directory to which other
//! users have access. The socket has mode 0600, and its name is the id of the process (`PID`). The sockets of further
//! executors are named `PID-2`, `PID-3` and so on. When a server is dropped, it removes its socket. If a process is
//! killed, its socket remains until [`processes`], or the next server with the same name, removes it.
//!
//! # Which clients are served
//!
//! The server serves processes of the same (effective) user and of root, whatever permissions the socket file has. The
//! server asks the system for the user of each connection, and sends an error to other users' clients. Likewise, a
//! client does not talk to another user's process, unless the client or that process belongs to root.
//!
//! A client that the server accepts can read the names of queues, item types and descriptions. The client can change
//! nothing but queues that were built with `control`. In particular, the client cannot queue, cancel or wait for items.
//!
//! # What it costs, and its limits
//!
//! Each server has one thread, which sleeps while no client is connected. This thread holds the executor's locks no
//! longer than [`Executor::dump`](crate::Executor::dump) does, and holds no lock while it writes. The thread runs no
//! hooks and waits for no client. So neither a slow nor a hostile client affects the executor.
//!
//! * At most 32 connections are served at the same time ([`MAX_CONNECTIONS`]). A further connection gets the error
//!   `busy` and is closed.
//! * A request has at most 64 KiB ([`MAX_REQUEST`]). After a longer request, the connection is closed.
//! * Each connection serves one request at a time. The server reads the next request only after it has sent the answer
//!   to the previous request.
//! * The server closes a connection in three cases: the client sends no request for 30 seconds, reads nothing of an
//!   answer for 5 seconds, or has not read the whole answer within 60 seconds.
//!
//! # The protocol
//!
//! A request is a JSON object on one line, and so is its answer. The answer is `{"ok":…}` with the result, or
//! `{"error":…}` with a [kind](ErrorKind) for programs and a message for people. Texts are UTF-8. A request with
//! unknown fields is an error. Answers of later versions may have more fields.
//!
//! | request | answer |
//! |---|---|
//! | `hello` | [`Hello`] |
//! | `dump` | [`Snapshot`](crate::observe::Snapshot), in the format that [`observe`](crate::observe) documents |
//! | `monitor` | [`MonitorReport`](crate::observe::MonitorReport), in the same format |
//! | `watchdog` | [`WatchdogReport`] |
//! | `attributes`, `queue` | the attributes that the queue has, with the values in effect |
//! | `get`, `queue`, `attribute` | the value in effect |
//! | `set`, `queue`, `attribute`, `value` | the value in effect, without the CPUs that the executor does not allow |
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
//! A request refers to a queue by its name. If several queues have that name, the answer is an error that lists these
//! queues with their numbers. The client can then refer to one of these queues as `name#number`. Attributes have the
//! names and values of the kernel's files ([`Attribute`]). Values are texts. Any program can use the protocol, for
//! example `echo '{"request":"dump"}' | socat -t 10 - UNIX-CONNECT:PATH`.

mod attribute;
mod client;
mod error;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod path;
mod protocol;
mod request_handler;
mod server;
mod session;
mod values;

pub use self::attribute::{Attribute, ParseAttributeError};
pub use self::client::Client;
pub use self::error::{ClientError, ServeError};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use self::fuzz::FuzzTarget;
pub use self::path::{Process, processes};
pub use self::protocol::{
    ErrorKind, Hello, MAX_REQUEST, PROTOCOL, RequestError, StalledPool, WatchdogReport,
};
pub use self::server::{MAX_CONNECTIONS, Server};
