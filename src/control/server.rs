//! The serving side: one thread for each executor that has a socket.
//!
//! It sleeps in `poll` until somebody comes, writes or is to be written to; the only timers are those of connections. No
//! code of the user's runs on it, and nobody ever waits for it but who ends it.

use std::fmt;
use std::io::{self, Read};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::user_code::report;
use crate::policy::time::Time;
use crate::sys::fork::Origin;
use crate::sys::socket::{self, Interest};
use crate::sys::{affinity, clock, thread};
use crate::{Executor, blocking};

use super::desk::Desk;
use super::error::ServeError;
use super::path::Place;
use super::protocol::{ErrorKind, RequestError};
use super::session::Session;

/// So many connections are served at once. One more is told so, and closed.
pub const MAX_CONNECTIONS: usize = 32;

/// So many are accepted before those that there are go on.
const ACCEPTED_AT_ONCE: usize = 16;
/// Where a connection cannot be accepted, for lack of descriptors, it is tried again after this time.
const SHORTAGE: Duration = Duration::from_secs(1);
const CHUNK: usize = 16 * 1024;

/// Serves an executor's control socket as long as it lives.
///
/// Dropping it closes all connections, removes the socket and waits for its thread, which takes no longer than the answer
/// that is being made. It does not keep the executor alive: when that is gone, requests are answered by
/// [`ErrorKind::Ended`]. In a forked process it does nothing, and dropping it has no effect.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::control::Server;
/// use cmwq::{Executor, WorkQueue};
///
/// let mail = WorkQueue::new("mail").control().build()?;
/// let server = Server::start(Executor::global())?;
/// println!("try: cmwqctl set mail max_active 8, or look at {}", server.path().display());
/// # drop((mail, server));
/// # Ok(())
/// # }
/// ```
#[must_use = "it ends when it is dropped"]
pub struct Server {
    place: Place,
    /// Something comes here, or it is closed, when the thread is to end.
    stop: UnixStream,
    /// Until the end.
    thread: Option<JoinHandle<()>>,
    origin: Origin,
}

impl Server {
    /// Serves on the default path, where [`processes`](super::processes) and `cmwqctl` find it: see
    /// [there](super#where-the-socket-is).
    ///
    /// # Errors
    ///
    /// If the directory is not this user's alone, or the system refuses the socket or the thread. Nothing is left behind.
    pub fn start(executor: &Executor) -> Result<Self, ServeError> {
        Self::serve(executor, Place::take_default)
    }

    /// Serves on this path. A socket that is there, and that nobody listens on any more, is replaced.
    ///
    /// The socket is for its user only, whatever the directory; who it is, is asked of the system. But who may write to
    /// the directory may put another socket in its place.
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
    /// If somebody listens there, something else is there, the path is too long for a socket (some 100 bytes), or the
    /// system refuses the socket or the thread. Nothing is left behind.
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
            let desk = Desk::new(executor);
            let service = Service { listener, stopped, desk, connections: Vec::new(), short_until: None };
            let thread = thread::spawn(name, None, move || {
                // Best effort: it is made by a user's thread, or by a worker, and belongs where the manager is.
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

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.origin.is_forked() {
            // The thread is not here, nor is anything that the handle would detach.
            return mem::forget(thread);
        }
        self.place.remove();
        // To say it, since a forked process may keep the other end from noticing that this one is closed.
        let _ended_already = socket::send(&self.stop, &[0]);
        if thread.thread().id() == std::thread::current().id() {
            // Something that it has dropped had the server: a hook, with the last of the executor. It ends after this.
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

/// What the thread has.
struct Service {
    listener: UnixListener,
    stopped: UnixStream,
    desk: Desk,
    connections: Vec<Connection>,
    /// Nothing can be accepted before.
    short_until: Option<Time>,
}

struct Connection {
    stream: UnixStream,
    session: Session,
}

/// Who is ready.
struct Ready {
    stopped: bool,
    listener: bool,
    /// By their places.
    connections: Vec<bool>,
}

impl Service {
    fn run(mut self) {
        loop {
            let now = clock::now();
            self.connections.retain(|connection| !connection.session.is_over(now));
            self.short_until = self.short_until.filter(|until| *until > now);
            let ready = match self.wait(now) {
                Ok(ready) => ready,
                Err(_) => {
                    // The system is short of memory, or permits fewer descriptors than are open.
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
            let (now, desk) = (clock::now(), &self.desk);
            let mut ready_ones = ready.connections.into_iter();
            self.connections.retain_mut(|connection| {
                !ready_ones.next().unwrap_or(false) || connection.go_on(desk, now).is_ok()
            });
            if ready.listener {
                self.accept(now);
            }
        }
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
            // Who needs nothing is always ready.
            connections: interests
                .map(|interest| interest.is_none() || ready.next().unwrap_or(false))
                .collect(),
        })
    }

    /// Is it to end? Where that cannot be waited for.
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
                    // Who came has gone.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    // Whatever it is, mostly a lack of descriptors: somebody still waits, so `poll` would not.
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
                format!("the system does not tell who you are: {error}"),
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
            // It fits, or the client has no interest in it.
            Some(error) => drop(socket::send(&stream, &Session::farewell(error))),
        }
    }
}

/// Why this user is not served by a process of that user. Root is: nothing could be kept from him.
fn refusal(user: u32, own: u32) -> Option<RequestError> {
    let is_served = user == own || user == 0;
    (!is_served).then(|| {
        let message = format!("this process belongs to user {own}, and you are user {user}");
        RequestError::new(ErrorKind::Forbidden, message)
    })
}

impl Connection {
    /// Reads, answers and writes, each once at most, so that all get their turn.
    fn go_on(&mut self, desk: &Desk, now: Time) -> io::Result<()> {
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
        session.advance(now, |line| desk.answer(line));
        if !session.unsent().is_empty() {
            if let Some(sent) = passing(socket::send(stream, session.unsent()))? {
                session.sent(sent, clock::now());
            }
        }
        Ok(())
    }
}

/// `None` if it was not possible this time.
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
    use super::*;

    /// spec: O5.6 (same user only)
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
}
