//! Functions for Unix sockets that the control socket needs and the standard library lacks.
//!
//! The functions raise no SIGPIPE, and `exec` closes each of their descriptors. No wait for a socket lasts longer than
//! its timeout.

#![allow(unsafe_code, reason = "`getpeereid`, which systems other than Linux have, takes raw pointers")]

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};
use rustix::process::Pid;

/// The event for which a thread waits at a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interest {
    Read,
    Write,
}

/// Waits until one of the descriptors is ready, has failed or was closed at the other end, but for `timeout` at most.
/// Returns for each descriptor whether it is ready, has failed or was closed.
pub(crate) fn wait(
    sources: &[(BorrowedFd<'_>, Interest)],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let flags = |interest| if interest == Interest::Read { PollFlags::IN } else { PollFlags::OUT };
    let mut polled: Vec<PollFd<'_>> =
        sources.iter().map(|(fd, interest)| PollFd::from_borrowed_fd(*fd, flags(*interest))).collect();
    // A timeout that is too long for the system's type means no limit.
    let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|source| !source.revents().is_empty()).collect())
}

/// Writes as many bytes as the socket has room for. Returns the number of bytes written.
pub(crate) fn send(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::empty();
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::NOSIGNAL;
    Ok(rustix::net::send(stream, bytes, flags)?)
}

/// Connects to the socket at `path`. Waits for `timeout` at most, even if the server accepts no connection.
pub(crate) fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let stream = UnixStream::from(new_socket()?);
    // The system uses the send timeout as the timeout of `connect`.
    stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))))?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream)
}

/// Makes a socket that `exec` closes.
#[cfg(not(target_vendor = "apple"))]
fn new_socket() -> io::Result<OwnedFd> {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Makes a socket that `exec` closes. Apple's systems need two calls to make such a socket. A program that another
/// thread starts between the two calls inherits the socket.
#[cfg(target_vendor = "apple")]
fn new_socket() -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Returns whether a path is short enough for a socket.
pub(crate) fn is_path_short_enough(path: &Path) -> bool {
    SocketAddrUnix::new(path).is_ok()
}

/// Returns the user id that the process at the other end of the connection had when it connected or began to listen.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn peer(stream: &UnixStream) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}

/// Returns the user id of the process at the other end of the connection, on systems with `getpeereid`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn peer(stream: &UnixStream) -> io::Result<u32> {
    use std::os::fd::AsRawFd;
    let (mut user, mut group) = (0, 0);
    // SAFETY: the descriptor is open, and the pointers refer to numbers that outlive the call.
    let result = unsafe { libc::getpeereid(stream.as_raw_fd(), &mut user, &mut group) };
    if result == 0 { Ok(user) } else { Err(io::Error::last_os_error()) }
}

/// Returns the effective user of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns whether a process with this number exists, even if it belongs to another user.
pub(crate) fn is_process(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// A directory that this process has locked.
#[derive(Debug)]
pub(crate) struct DirectoryLock(File);

impl DirectoryLock {
    /// Locks the directory. Waits as long as another process holds the lock.
    pub(crate) fn wait(path: &Path) -> io::Result<Self> {
        let directory = File::open(path)?;
        flock(&directory, FlockOperation::LockExclusive)?;
        Ok(Self(directory))
    }

    /// Locks the directory. Returns `None` if another process has locked the directory.
    pub(crate) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let directory = File::open(path)?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(directory))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for DirectoryLock {
    /// Unlocks the directory. Closing the file is not enough, because a process that was forked meanwhile has the
    /// descriptor, too.
    fn drop(&mut self) {
        let _closed_anyway = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Puts the calling thread to sleep for this time. A thread calls this function after a wait for a socket has failed.
pub(crate) fn pause(time: Duration) {
    std::thread::park_timeout(time);
}
