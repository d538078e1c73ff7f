//! The client of a control socket.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::observe::{MonitorReport, Snapshot};
use crate::policy::time::Time;
use crate::sys::{clock, socket};

use super::attribute::Attribute;
use super::error::ClientError;
use super::path;
use super::protocol::{Answer, Hello, MAX_REQUEST, NamedValue, Request, WatchdogReport, line_of, shortened};

/// The longest time for which [`Client::connect`] waits, and for which each request of its client waits.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The size, in bytes, of the largest answer to `dump` or `monitor` that the client accepts. A server sends less.
const MAX_DUMP: usize = 1 << 30;
/// The size, in bytes, of the largest answer to any other request that the client accepts. A server sends less.
const MAX_ANSWER: usize = 1 << 24;

/// A connection to a process that serves a control socket.
///
/// A server closes a connection after 30 seconds without a request. The client's next request then connects again.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::control::{Attribute, Client, Server};
/// # let folder = std::env::temp_dir().join(format!("cmwq-doc-client-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
///
/// let executor = cmwq::Executor::builder().build()?;
/// let queue = cmwq::WorkQueue::builder("mail").control(true).build_on(&executor)?;
/// let server = Server::start_at(&executor, folder.join("socket"))?;
///
/// let mut client = Client::connect(server.path())?; // usually in another process
/// assert_eq!(client.get("mail", Attribute::AffinityScope)?, "default (cache)");
/// assert_eq!(client.set("mail", Attribute::MaxActive, "8")?, "8");
/// assert_eq!(queue.max_active(), Some(8));
/// assert_eq!(client.attributes("mail")?.len(), Attribute::ALL.len());
/// assert_eq!(client.monitor()?.queues.len(), 1);
/// assert_eq!(client.dump()?.queues[0].name, "mail");
/// assert!(client.watchdog()?.stalled.is_empty());
///
/// let mut client = Client::connect_timeout(server.path(), std::time::Duration::from_secs(60))?;
/// assert_eq!(client.hello()?.pid, std::process::id());
/// if let Ok(mut other) = Client::to_process(1) {
///     println!("{}", other.dump()?);
/// }
/// # drop(server);
/// # std::fs::remove_dir(&folder)?;
/// # Ok(())
/// # }
/// ```
pub struct Client {
    path: PathBuf,
    timeout: Duration,
    connection: Option<Connection>,
}

struct Connection(UnixStream);

impl Client {
    /// Connects to a control socket. This call and each request wait for 10 seconds at most.
    ///
    /// # Errors
    ///
    /// Returns an error if no process listens on the socket. Also returns an error if the listening process belongs to
    /// another user, unless that user or the client's user is root.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, ClientError> {
        Self::connect_timeout(path, TIMEOUT)
    }

    /// Does the same as [`connect`](Self::connect), but this call and each request wait for `timeout` at most.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](Self::connect).
    pub fn connect_timeout(path: impl AsRef<Path>, timeout: Duration) -> Result<Self, ClientError> {
        let path = path.as_ref().to_owned();
        let connection = Some(Connection::open(&path, timeout)?);
        Ok(Self { path, timeout, connection })
    }

    /// Connects to the process with this id. Searches for its socket in the directories that
    /// [`processes`](super::processes) searches. If several executors of the process have a socket, connects to the
    /// first socket that accepts the connection.
    ///
    /// # Errors
    ///
    /// Returns [`ClientError::NoProcess`] if the process has no socket in these directories. If no socket accepts the
    /// connection, returns the error of [`connect`](Self::connect) for the first socket.
    pub fn to_process(pid: u32) -> Result<Self, ClientError> {
        let mut failed = None;
        for (_, path) in path::sockets(&path::searched()).into_iter().filter(|(owner, _)| *owner == pid) {
            match Self::connect(&path) {
                Ok(client) => return Ok(client),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| ClientError::NoProcess { pid, searched: path::searched() }))
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the server for its process and version.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not answer.
    pub fn hello(&mut self) -> Result<Hello, ClientError> {
        self.ask(&Request::Hello {})
    }

    /// Takes a snapshot of the executor, like a call of [`Executor::dump`](crate::Executor::dump) in the server's
    /// process.
    ///
    /// # Errors
    ///
    /// Returns an error if the executor is gone ([`ErrorKind::Ended`](super::ErrorKind::Ended)), or if the server does
    /// not answer.
    pub fn dump(&mut self) -> Result<Snapshot, ClientError> {
        self.ask(&Request::Dump {})
    }

    /// Takes a sample of the executor's queues, like a call of [`Executor::monitor`](crate::Executor::monitor) in the
    /// server's process.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`dump`](Self::dump).
    pub fn monitor(&mut self) -> Result<MonitorReport, ClientError> {
        self.ask(&Request::Monitor {})
    }

    /// Asks which pools have stalled, and which types of items delayed other items.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`dump`](Self::dump).
    pub fn watchdog(&mut self) -> Result<WatchdogReport, ClientError> {
        self.ask(&Request::Watchdog {})
    }

    /// Reads the value that is in effect for an attribute of a queue. `queue` is the queue's name, or its name and
    /// number (`mail#7`) if several queues have the name.
    ///
    /// # Errors
    ///
    /// Returns [`ClientError::Answer`] if the queue does not exist, or does not have this attribute. Returns another
    /// error if the server does not answer.
    pub fn get(&mut self, queue: &str, attribute: Attribute) -> Result<String, ClientError> {
        self.ask(&Request::Get { queue: queue.to_owned(), attribute: attribute.to_string() })
    }

    /// Reads the values that are in effect for all attributes of this queue.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue does not exist, or if the server does not answer.
    pub fn attributes(&mut self, queue: &str) -> Result<Vec<(Attribute, String)>, ClientError> {
        let named: Vec<NamedValue> = self.ask(&Request::Attributes { queue: queue.to_owned() })?;
        // A server of a later version may have more attributes, which are left out here.
        Ok(named.into_iter().filter_map(|named| Some((named.attribute.parse().ok()?, named.value))).collect())
    }

    /// Changes one attribute of a queue that was built with [`control`](crate::WorkQueueBuilder::control). Returns the
    /// value in effect, as [`get`](Self::get) does.
    ///
    /// # Errors
    ///
    /// Returns [`ClientError::Answer`] if the queue does not exist, does not permit changes, does not have this
    /// attribute, or cannot have this value. If the call returns `ClientError::Answer`, the server has changed nothing.
    /// Returns another error if the server does not answer. Without an answer, the server may still have changed the
    /// attribute.
    pub fn set(&mut self, queue: &str, attribute: Attribute, value: &str) -> Result<String, ClientError> {
        let (queue, attribute, value) = (queue.to_owned(), attribute.to_string(), value.to_owned());
        self.ask(&Request::Set { queue, attribute, value })
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let line = line_of(request);
        let bytes = line.len() - b"\n".len();
        if bytes > MAX_REQUEST {
            return Err(ClientError::TooLong { bytes });
        }
        let until = clock::now() + self.timeout;
        let limit = match request {
            Request::Dump {} | Request::Monitor {} => MAX_DUMP,
            _ => MAX_ANSWER,
        };
        let answer = self.exchange(&line, until, limit)?;
        match serde_json::from_slice(&answer) {
            Ok(Answer::Ok(answer)) => Ok(answer),
            Ok(Answer::Error(error)) => Err(ClientError::Answer(error)),
            Err(error) => Err(ClientError::Malformed(shortened(&error.to_string()))),
        }
    }

    /// Sends a line, and waits for the answer line. After a failure, the next request connects again, because a late
    /// answer may still arrive on the old connection.
    fn exchange(&mut self, line: &[u8], until: Time, limit: usize) -> Result<Vec<u8>, ClientError> {
        let known = self.connection.take().filter(Connection::is_open);
        let open = || Connection::open(&self.path, until.since(clock::now()));
        let mut connection = known.map_or_else(open, Ok)?;
        let answer = connection.exchange(line, until, limit)?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

impl Connection {
    fn open(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Connect { path: path.to_owned(), error };
        let stream = socket::connect(path, timeout).map_err(failed)?;
        let (owner, own) = (socket::peer(&stream).map_err(failed)?, socket::user());
        // Root may inspect every process, and every user trusts root.
        if owner != own && owner != 0 && own != 0 {
            return Err(ClientError::OtherUser { path: path.to_owned(), uid: owner });
        }
        Ok(Self(stream))
    }

    /// Returns whether the connection is still open. The server closes a connection after some time without requests.
    /// On an open connection, there is nothing to read between answers, so a read would block.
    fn is_open(&self) -> bool {
        let looked = self.0.set_nonblocking(true).and_then(|()| {
            let looked = (&self.0).read(&mut [0]);
            self.0.set_nonblocking(false).and(looked)
        });
        looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    fn exchange(&mut self, line: &[u8], until: Time, limit: usize) -> Result<Vec<u8>, ClientError> {
        match self.send(line, until).map_err(ClientError::from) {
            // A server sends the reason for a close before it closes the connection, so the client can still read the
            // reason.
            Err(ClientError::Closed) => self.receive(until, limit).map_err(|_| ClientError::Closed),
            Err(error) => Err(error),
            Ok(()) => self.receive(until, limit),
        }
    }

    fn send(&self, mut line: &[u8], until: Time) -> io::Result<()> {
        while !line.is_empty() {
            self.0.set_write_timeout(Some(left(until)?))?;
            match socket::send(&self.0, line) {
                Ok(sent) => line = &line[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, until: Time, limit: usize) -> Result<Vec<u8>, ClientError> {
        let (mut answer, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            self.0.set_read_timeout(Some(left(until)?))?;
            match self.0.read(&mut chunk) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(read) => answer.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if answer.last() == Some(&b'\n') {
                return Ok(answer);
            }
            if answer.len() > limit {
                return Err(ClientError::Malformed(format!("it is longer than {limit} bytes")));
            }
        }
    }
}

/// Returns the time that is left before `until`, which is more than zero. Returns an error if no time is left.
fn left(until: Time) -> io::Result<Duration> {
    let left = until.since(clock::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("path", &self.path).finish_non_exhaustive()
    }
}
