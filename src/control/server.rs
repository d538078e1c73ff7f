//! The server of a control socket: one thread for each socket.
//!
//! The thread sleeps in `poll` until a client connects, sends bytes, or can receive bytes. The thread also wakes at the
//! deadline of a connection, and when it is time to try again after an error. The thread runs no items. If the thread
//! drops the last reference to the executor, it runs the destructors of the executor's hooks. Only the thread that
//! drops the server ever waits for the server's thread.

use std::fmt;
use std::io::{self, Read};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::blocking;
use crate::engine::user_code::report;
use crate::executor::Executor;
use crate::policy::time::Time;
use crate::sys::fork::Origin;
use crate::sys::socket::{self, Interest};
use crate::sys::{affinity, clock, thread};

use super::error::ServeError;
use super::path::Place;
use super::protocol::{ErrorKind, RequestError};
use super::request_handler::RequestHandler;
use super::session::Session;

/// The largest number of connections that a server serves at the same time. A further connection gets an error and is
/// closed.
pub const MAX_CONNECTIONS: usize = 32;

/// The largest number of connections that the server accepts before it serves the existing connections again.
const ACCEPTED_AT_ONCE: usize = 16;
/// The time after which the server retries a call that the system has refused, for example because the process has no
/// file descriptor left.
const SHORTAGE: Duration = Duration::from_secs(1);
const CHUNK: usize = 16 * 1024;

/// The server of an executor's control socket, which runs as long as this value lives.
///
/// Dropping the server closes all connections, removes the socket, and waits for the server's thread. If the thread is
/// preparing an answer, it finishes the answer before it ends. The server does not keep the executor alive. After the
/// executor's end, requests that need the executor get the error [`ErrorKind::Ended`]. In a forked process the server
/// does nothing, and dropping it has no effect.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::control::Server;
/// use cmwq::{Executor, WorkQueue};
///
/// let mail = WorkQueue::builder("mail").control(true).build()?;
/// let server = Server::start(Executor::global())?;
/// println!("try: cmwqctl set mail max_active 8, or look at {}", server.path().display());
/// # drop((mail, server));
/// # Ok(())
/// # }
/// ```
#[must_use = "the server ends when this value is dropped"]
pub struct Server {
    place: Place,
    /// The server's thread ends when a byte is sent on this socket, or when this socket is closed.
    stop: UnixStream,
    /// The server's thread. `None` once the server is being dropped.
    thread: Option<JoinHandle<()>>,
    origin: Origin,
}

impl Server {
    /// Starts a server on the default path, where [`processes`](super::processes) and `cmwqctl` find the server. See
    /// [where the socket is](super#where-the-socket-is).
    ///
    /// # Errors
    ///
    /// Returns an error if another user owns the directory or has access to it, or if the system refuses the socket or
    /// the thread. No socket is left behind.
    pub fn start(executor: &Executor) -> Result<Self, ServeError> {
        Self::serve(executor, Place::take_default)
    }

    /// Starts a server on this path. Replaces a socket that has no listener any more.
    ///
    /// The server serves only its own user and root, whatever the directory permits, because it asks the system for the
    /// user of each connection. But a user who may write to the directory can replace the server's socket with another
    /// socket.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::control::{ServeError, Server};
    /// # let folder = std::env::temp_dir().join(format!("cmwq-doc-server-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("control");
    ///
    /// let executor = cmwq::Executor::builder().build()?;
    /// let server = Server::start_at(&executor, &path)?;
    /// let error = Server::start_at(&executor, &path).unwrap_err();
    /// assert!(matches!(error, ServeError::InUse { .. }));
    /// drop(server);
    /// assert!(!path.exists());
    /// # std::fs::remove_dir(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if another server listens on the path, or if a file of another kind has the path. Also returns
    /// an error if the path is too long for a socket (the limit is about 100 bytes), or if the system refuses the
    /// socket or the thread. No socket is left behind.
    pub fn start_at(executor: &Executor, path: impl AsRef<Path>) -> Result<Self, ServeError> {
        Self::serve(executor, || Place::take(path.as_ref()))
    }

    fn serve(
        executor: &Executor,
        take: impl FnOnce() -> Result<(Place, UnixListener), ServeError>,
    ) -> Result<Self, ServeError> {
        if executor.inner.origin.is_forked() {
            return Err(ServeError::Forked);
        }
        let core = Arc::clone(&executor.inner.core);
        let name = format!("{}/control", core.settings.name_prefix);
        let (place, listener) = take()?;
        let made = UnixStream::pair().and_then(|(stop, stopped)| {
            stopped.set_nonblocking(true)?;
            let request_handler = RequestHandler::new(executor);
            let service =
                Service { listener, stopped, request_handler, connections: Vec::new(), short_until: None };
            let thread = thread::spawn(name, None, move || {
                // The thread has inherited the CPUs and the nice level of the thread that started it, which may be a
                // worker. So the server's thread switches to the manager's CPUs and nice level. Errors are ignored.
                drop(affinity::pin_to_set(&core.environment.present().cpus.home()));
                drop(thread::set_nice(core.settings.nice));
                drop(core);
                service.run();
            })?;
            Ok((stop, thread))
        });
        match made {
            Ok((stop, thread)) => {
                Ok(Self { place, stop, thread: Some(thread), origin: executor.inner.origin })
            }
            Err(error) => {
                place.remove();
                Err(ServeError::io("serve the socket", place.path(), error))
            }
        }
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.origin.is_forked() {
            // In the child process the thread does not exist, so the handle has nothing to join or to detach.
            return mem::forget(thread);
        }
        self.place.remove();
        // The byte is needed because a forked process may keep a copy of `stop` open. In that case, the server's thread
        // does not notice when this process closes its own copy of `stop`.
        let _ended_already = socket::send(&self.stop, &[0]);
        if thread.thread().id() == std::thread::current().id() {
            // The server's own thread drops the server. This can happen if a hook of the executor owns the server, and
            // this thread drops the last reference to the executor, and so the hook. The thread cannot join itself, but
            // ends when it finds the byte.
            return;
        }
        if blocking(|| thread.join()).is_err() {
            report!(error, "the thread of the control socket has panicked");
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The state of the server's thread.
struct Service {
    listener: UnixListener,
    stopped: UnixStream,
    request_handler: RequestHandler,
    connections: Vec<Connection>,
    /// The time until which the server accepts no connection, if an attempt to accept a connection has failed.
    short_until: Option<Time>,
}

struct Connection {
    stream: UnixStream,
    session: Session,
}

/// The sockets that are ready.
struct Ready {
    stopped: bool,
    listener: bool,
    /// Whether each connection is ready, indexed like the connections of the service.
    connections: Vec<bool>,
}

impl Service {
    fn run(mut self) {
        loop {
            let now = clock::now();
            self.short_until = self.short_until.filter(|until| *until > now);
            let ready = match self.wait(now) {
                Ok(ready) => ready,
                Err(_) => {
                    // `poll` fails if the system is short of memory, or if more descriptors are open than the system
                    // now permits.
                    self.connections.clear();
                    socket::pause(SHORTAGE);
                    if self.is_stopped() {
                        return;
                    }
                    continue;
                }
            };
            if ready.stopped {
                return;
            }
            self.serve(&ready.connections, now);
            if ready.listener {
                self.accept(clock::now());
            }
        }
    }

    /// Serves the connections that are ready. Closes each other connection that is done or whose deadline has passed.
    /// `ready` is indexed like the connections. `now` is the time before the wait that found the ready connections. So
    /// the deadline closes a connection only if its client did nothing until then, even if this thread did not run for
    /// a long time.
    fn serve(&mut self, ready: &[bool], now: Time) {
        let (request_handler, mut ready) = (&self.request_handler, ready.iter());
        self.connections.retain_mut(|connection| match ready.next() {
            Some(true) => connection.go_on(request_handler).is_ok() && !connection.session.is_done(),
            _ => !connection.session.is_over(now),
        });
    }

    fn wait(&self, now: Time) -> io::Result<Ready> {
        let listens = self.short_until.is_none();
        let mut sources = vec![(self.stopped.as_fd(), Interest::Read)];
        if listens {
            sources.push((self.listener.as_fd(), Interest::Read));
        }
        let interests = self.connections.iter().map(|connection| connection.session.interest());
        let waiting = self.connections.iter().zip(interests.clone());
        sources.extend(
            waiting.filter_map(|(connection, interest)| Some((connection.stream.as_fd(), interest?))),
        );
        let deadlines = self.connections.iter().map(|connection| connection.session.deadline());
        let next = deadlines.chain(self.short_until).min();
        let timeout = if interests.clone().any(|interest| interest.is_none()) {
            Some(Duration::ZERO)
        } else {
            next.map(|next| next.since(now))
        };
        let mut ready = socket::wait(&sources, timeout)?.into_iter();
        Ok(Ready {
            stopped: ready.next().unwrap_or(false),
            listener: listens && ready.next().unwrap_or(false),
            // A connection that waits for no event is always ready.
            connections: interests
                .map(|interest| interest.is_none() || ready.next().unwrap_or(false))
                .collect(),
        })
    }

    /// Returns whether the thread must end. The thread calls this function after `poll` has failed.
    fn is_stopped(&self) -> bool {
        let heard = (&self.stopped).read(&mut [0]);
        !heard.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    fn accept(&mut self, now: Time) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => self.welcome(stream, now),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    // The client has already closed the connection, or a signal has interrupted the call.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    // Usually the process has no file descriptor left. The client's connection is still pending, so the
                    // next `poll` would return immediately.
                    _ => {
                        self.short_until = Some(now + SHORTAGE);
                        return;
                    }
                },
            }
        }
    }

    fn welcome(&mut self, stream: UnixStream, now: Time) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let refusal = match socket::peer(&stream) {
            Ok(user) => refusal(user, socket::user()),
            Err(error) => Some(RequestError::new(
                ErrorKind::Forbidden,
                format!("the system does not tell which user you are: {error}"),
            )),
        };
        let refusal = refusal.or_else(|| {
            let is_full = self.connections.len() >= MAX_CONNECTIONS;
            is_full.then(|| {
                let message = format!("there are {MAX_CONNECTIONS} connections already; try again later");
                RequestError::new(ErrorKind::Busy, message)
            })
        });
        match refusal {
            None => self.connections.push(Connection { stream, session: Session::new(now) }),
            // The line fits into the socket's buffer. An error is ignored, because the client is refused anyway.
            Some(error) => drop(socket::send(&stream, &Session::farewell(error))),
        }
    }
}

/// Returns an error if a process of user `own` does not serve user `user`. Every process serves root, because root can
/// read the process's memory anyway.
fn refusal(user: u32, own: u32) -> Option<RequestError> {
    let is_served = user == own || user == 0;
    (!is_served).then(|| {
        let message = format!("this process belongs to user {own}, and you are user {user}");
        RequestError::new(ErrorKind::Forbidden, message)
    })
}

impl Connection {
    /// Reads once, answers one request and writes once, each if possible, so that every connection gets its turn.
    fn go_on(&mut self, request_handler: &RequestHandler) -> io::Result<()> {
        let Self { stream, session } = self;
        if session.interest() == Some(Interest::Read) {
            let mut chunk = [0; CHUNK];
            let room = session.room().min(CHUNK);
            match passing(stream.read(&mut chunk[..room]))? {
                Some(0) => session.half_closed(),
                Some(read) => session.received(&chunk[..read]),
                None => {}
            }
        }
        session.advance(clock::now(), |line| request_handler.answer(line));
        if !session.unsent().is_empty() {
            if let Some(sent) = passing(socket::send(stream, session.unsent()))? {
                session.sent(sent, clock::now());
            }
        }
        Ok(())
    }
}

/// Returns `None` if the operation was not possible at this time, but may be possible later.
fn passing(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use crate::sys::topology::TopologySource;

    use super::*;

    /// spec: O5.6 (a process serves clients of its own user and of root, and no other clients)
    #[test]
    fn a_process_serves_its_user_and_root() {
        for (user, own, is_served) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1001, 1000, false), (1000, 0, false)]
        {
            let refusal = refusal(user, own);
            assert_eq!(refusal.is_none(), is_served, "{user} {own}: {refusal:?}");
            assert!(refusal.is_none_or(|error| error.kind == ErrorKind::Forbidden));
        }
    }

    /// spec: O5.7 (clients time out): the server's thread does not run until all deadlines have passed. Then the thread
    /// closes the connection of the idle client, and answers the client that has sent a request.
    #[test]
    fn a_late_server_closes_only_connections_of_idle_clients() {
        let topology = TopologySource::Synthetic("core:1 pu:1".to_owned());
        let executor = Executor::builder().topology(topology).build().unwrap();
        let pairs = [(); 4].map(|()| UnixStream::pair().unwrap());
        let [(_stop, stopped), (_client, listener), (asks, asked), (idles, idle)] = pairs;
        let connect = |stream: UnixStream| {
            stream.set_nonblocking(true).unwrap();
            Connection { stream, session: Session::new(Time::default()) }
        };
        let mut service = Service {
            listener: OwnedFd::from(listener).into(),
            stopped,
            request_handler: RequestHandler::new(&executor),
            connections: [asked, idle].map(connect).into(),
            short_until: None,
        };
        (&asks).write_all(b"{\"request\":\"hello\"}\n").unwrap();
        let late = Time::default() + Duration::from_secs(100);
        let ready = service.wait(late).unwrap();
        assert_eq!(ready.connections, [true, false]);
        service.serve(&ready.connections, late);
        assert_eq!(service.connections.len(), 1);
        let mut answer = [0; 6];
        (&asks).read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"{\"ok\":");
        assert_eq!((&idles).read(&mut [0]).unwrap(), 0, "the connection is closed");
    }
}
