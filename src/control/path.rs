//! The paths of control sockets: where they are, how a socket is made, and which processes serve one.
//!
//! A socket belongs to the process that listens on it. Any process that finds a socket without a listener removes it. A
//! process removes files of others only under a lock of their directory, so that it does not remove a socket that
//! another one has just made in its place. It removes its own file without the lock.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sys::socket::{self, DirectoryLock};

use super::client::Client;
use super::error::ServeError;

/// How many executors of a process get a default socket.
const EXECUTORS: u32 = 1000;

/// How long each process has to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A process that answers on a control socket.
///
/// Found by [`processes`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Its socket. A process has one for each executor that serves one.
    pub path: PathBuf,
    /// The name of its executable file. Empty if that is not known.
    pub program: String,
    /// The prefix of the names of the executor's threads.
    pub prefix: String,
}

/// Returns the processes that serve a control socket in the default directories, sorted by process id. Waits for each
/// of them to answer, for a second at most, and leaves out those that do not. Removes sockets whose process is gone.
/// Skips directories that belong to another user.
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// for process in cmwq::control::processes()? {
///     println!("{:>8} {}", process.pid, process.program);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If a directory that belongs to this user cannot be read.
pub fn processes() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for directory in searched() {
        for (pid, path) in sockets_in(&directory)? {
            let answer = Client::connect_timeout(&path, PATIENCE).and_then(|mut client| client.hello());
            match answer {
                Ok(hello) => {
                    let (program, prefix) = (hello.program, hello.prefix);
                    found.push(Process { pid: hello.pid, path, program, prefix });
                }
                Err(_) if !socket::is_process(pid) => {
                    // A failure is ignored: the next search tries again.
                    drop(remove_stale(&path));
                }
                Err(_) => {}
            }
        }
    }
    Ok(found)
}

/// The directories where default sockets may be: the one of this process's environment, and those of other
/// environments, such as that of a service.
pub(super) fn searched() -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = runtime_directories().map(|base| base.join("cmwq")).collect();
    directories.push(fallback());
    directories.dedup();
    directories
}

/// The directory for this process's sockets.
fn default_directory() -> PathBuf {
    let base = runtime_directories().find(|base| {
        fs::metadata(base).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == socket::user())
    });
    base.map_or_else(fallback, |base| base.join("cmwq"))
}

fn runtime_directories() -> impl Iterator<Item = PathBuf> {
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    named.into_iter().chain([PathBuf::from(format!("/run/user/{}", socket::user()))])
}

fn fallback() -> PathBuf {
    std::env::temp_dir().join(format!("cmwq-{}", socket::user()))
}

/// The readable sockets of all processes in these directories.
pub(super) fn sockets(directories: &[PathBuf]) -> Vec<(u32, PathBuf)> {
    directories.iter().flat_map(|directory| sockets_in(directory).unwrap_or_default()).collect()
}

/// The files that are named as our sockets, by process and executor. None in a directory that a server of this user
/// would refuse: its owner decides which files are there, how long a listing takes, and where a link leads.
fn sockets_in(directory: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let is_own = fs::symlink_metadata(directory)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == socket::user());
    if !is_own {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(numbers) = name.to_str().and_then(numbers_of) {
            found.push((numbers, directory.join(name)));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|((pid, _), path)| (pid, path)).collect())
}

/// The numbers of the process and of its executor, which count from 1.
fn numbers_of(name: &str) -> Option<(u32, u32)> {
    let (pid, executor) = name.split_once('-').unwrap_or((name, "1"));
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        is_number.then(|| digits.parse().ok())?
    };
    Some((number(pid)?, number(executor)?))
}

/// A socket with a listener, and its file, which is removed with it.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// The device and the number of the file, by which it is recognised.
    device_and_number: (u64, u64),
}

impl Place {
    /// Listens in the default directory. Makes the directory if it does not exist.
    pub(super) fn take_default() -> Result<(Self, UnixListener), ServeError> {
        let directory = default_directory();
        prepare(&directory)?;
        let pid = std::process::id();
        let mut first = None;
        for executor in 1..=EXECUTORS {
            let name = if executor == 1 { pid.to_string() } else { format!("{pid}-{executor}") };
            match Self::take(&directory.join(name)) {
                Err(error @ (ServeError::InUse { .. } | ServeError::NotASocket { .. })) => {
                    first = first.or(Some(error));
                }
                taken => return taken,
            }
        }
        Err(first.unwrap_or(ServeError::InUse { path: directory }))
    }

    /// Listens on this path.
    pub(super) fn take(path: &Path) -> Result<(Self, UnixListener), ServeError> {
        if !socket::is_path_short_enough(path) {
            return Err(ServeError::TooLong { path: path.to_owned() });
        }
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path)?;
                UnixListener::bind(path)
            }
            bound => bound,
        };
        let failed = |error| ServeError::io("make the socket", path, error);
        let listener = listener.map_err(|error| match error.kind() {
            // Another process was faster.
            io::ErrorKind::AddrInUse => ServeError::InUse { path: path.to_owned() },
            _ => failed(error),
        })?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        let place = Self { path: path.to_owned(), device_and_number: (metadata.dev(), metadata.ino()) };
        let prepared = fs::set_permissions(path, Permissions::from_mode(0o600))
            .and_then(|()| listener.set_nonblocking(true));
        match prepared {
            Ok(()) => Ok((place, listener)),
            Err(error) => {
                place.remove();
                Err(failed(error))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, if it is still this one. Must be called while the socket still has its listener: until then
    /// another process finds the path in use, and afterwards it can make its own.
    pub(super) fn remove(&self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.device_and_number);
        if is_ours {
            // If it stays, it is stale.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Makes a directory that only this user can use, or checks an existing one.
fn prepare(directory: &Path) -> Result<(), ServeError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(ServeError::io("make the directory", directory, error));
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(directory)
        .map_err(|error| ServeError::io("read the directory", directory, error))?;
    let (path, mode) = (directory.to_owned(), metadata.mode() & 0o777);
    if !metadata.is_dir() || metadata.uid() != socket::user() {
        return Err(ServeError::Directory { path, owner: metadata.uid() });
    }
    if mode & 0o077 != 0 {
        return Err(ServeError::Mode { path, mode });
    }
    Ok(())
}

/// Removes a socket that has no listener any more.
fn remove_stale(path: &Path) -> Result<(), ServeError> {
    let in_use = || ServeError::InUse { path: path.to_owned() };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let _locked = lock(directory)
        .map_err(|error| ServeError::io("lock the directory", directory, error))?
        .ok_or_else(in_use)?;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ServeError::io("read", path, error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(ServeError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match socket::connect(path, PATIENCE) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| ServeError::io("remove the stale socket", path, error))
        }
        // A process listens, even if it may be too busy to answer.
        _ => Err(in_use()),
    }
}

/// Locks a directory against other processes that remove sockets. In a directory that other users can open, they could
/// hold the lock for ever. There, returns `None` if the lock is held.
fn lock(directory: &Path) -> io::Result<Option<DirectoryLock>> {
    let metadata = fs::metadata(directory)?;
    let is_private = metadata.uid() == socket::user() && metadata.mode() & 0o077 == 0;
    if is_private {
        return DirectoryLock::wait(directory).map(Some);
    }
    DirectoryLock::try_take(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sockets_are_told_from_others() {
        for (name, numbers) in [
            ("17", Some((17, 1))),
            ("17-2", Some((17, 2))),
            ("4294967295-1000", Some((u32::MAX, 1000))),
            ("", None),
            ("017", None),
            ("+17", None),
            ("17-", None),
            ("17-2-3", None),
            ("17.old", None),
            ("4294967296", None),
        ] {
            assert_eq!(numbers_of(name), numbers, "{name}");
        }
    }
}
