//! Control sockets in the file system: their paths, how a socket is made, and which processes serve a socket.
//!
//! A socket belongs to the process that listens on it. A process that finds a socket without a listener removes the
//! socket's file. The process first locks the directory, because another process may just have made a new socket at the
//! same path. A process that makes a socket keeps the directory locked until it listens on the socket, because until
//! then, another process could remove the socket. To remove the file of its own socket, a process needs no lock.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sys::socket::{self, DirectoryLock};

use super::client::Client;
use super::error::ServeError;

/// The maximum number of executors of one process that can each have a default socket.
const EXECUTORS: u32 = 1000;

/// The time within which each process must accept a connection, and the time within which it must then answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A process that answers on a control socket.
///
/// [`processes`] finds such processes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The path of the socket. Each server in a process has its own socket.
    pub path: PathBuf,
    /// The name of the process's executable file. The name is empty if it is not known.
    pub program: String,
    /// The prefix of the thread names of the executor that the socket serves.
    pub prefix: String,
}

/// Returns the processes that serve a control socket in the default directories, sorted by process id within each
/// directory. For each socket, waits at most one second for the connection, and at most one more second for the answer.
/// Leaves out a process that does not answer. Removes the sockets of processes that are gone. Skips directories that
/// belong to another user.
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
/// Returns an error if a directory that belongs to this user cannot be read.
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
                    // An error is ignored, because the next search tries again.
                    drop(lock(&path).and_then(|_locked| remove_stale(&path)));
                }
                Err(_) => {}
            }
        }
    }
    Ok(found)
}

/// Returns the directories where default sockets may be: the directory for this process's environment, and the
/// directories for processes with other environments, such as services.
pub(super) fn searched() -> Vec<PathBuf> {
    distinct(runtime_directories().map(|base| base.join("cmwq")).chain([fallback()]))
}

/// Leaves out each path that leads to the same directory as an earlier path of the list. For example, `/var/run` is
/// often a link to `/run`. Keeps directories that do not exist. If the last part of a path is itself a link, the path
/// counts as a directory of its own, because [`sockets_in`] does not follow such a link.
fn distinct(directories: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let identity = |directory: &PathBuf| match fs::symlink_metadata(directory) {
        Ok(metadata) => Ok((metadata.dev(), metadata.ino())),
        Err(_) => Err(directory.clone()),
    };
    directories.filter(|directory| known.insert(identity(directory))).collect()
}

/// Returns the directory for this process's sockets.
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

/// Returns the sockets in these directories, each with its process id. Skips directories that cannot be read.
pub(super) fn sockets(directories: &[PathBuf]) -> Vec<(u32, PathBuf)> {
    directories.iter().flat_map(|directory| sockets_in(directory).unwrap_or_default()).collect()
}

/// Returns the process id and the path of each file that is named like a default socket, sorted by process and
/// executor. Does not list a directory that belongs to another user, because that user decides which files are there,
/// how long a listing takes, and where a link leads.
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

/// Returns the process id and the executor's number that a socket's name contains. The process id and the executor's
/// number are at least 1. Returns `None` for any other name.
fn numbers_of(name: &str) -> Option<(u32, u32)> {
    let (pid, executor) = name.split_once('-').unwrap_or((name, "1"));
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        is_number.then(|| digits.parse().ok())?
    };
    Some((number(pid)?, number(executor)?))
}

/// The file of a socket on which this process listens.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// The device number and the inode number, which identify the file.
    device_and_number: (u64, u64),
}

impl Place {
    /// Listens on a free path in the default directory. Makes the directory if it does not exist.
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

    /// Makes a socket at this path, and listens on the socket.
    pub(super) fn take(path: &Path) -> Result<(Self, UnixListener), ServeError> {
        if !socket::is_path_short_enough(path) {
            return Err(ServeError::TooLong { path: path.to_owned() });
        }
        let listener = listen(path)?;
        let failed = |error| ServeError::io("make the socket", path, error);
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

    /// Removes the socket's file, unless another file has replaced it. The caller still holds the listener, so other
    /// processes find the path in use. If the listener were closed first, this function could remove a socket that
    /// another process has just made on this path.
    pub(super) fn remove(&self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.device_and_number);
        if is_ours {
            // An error is ignored, because a file that remains is only a stale socket.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Makes a directory that only this user can use. If the directory exists, checks that only this user can use it.
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

/// Makes a socket at this path, and listens on it. Replaces a socket that has no listener any more.
///
/// The standard library makes the socket in one system call, and listens in a second one. Between the two calls, the
/// lock on the directory keeps other processes from removing the new socket as stale. If this thread cannot get the
/// lock, it makes the socket without the lock. If the lock were necessary, another user could hold the lock, and so
/// keep this process from making its socket. A stale socket is never removed without the lock.
fn listen(path: &Path) -> Result<UnixListener, ServeError> {
    let locked = lock(path);
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let _locked = locked?;
            remove_stale(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    };
    bound.map_err(|error| match error.kind() {
        // Another process has made a socket at this path first.
        io::ErrorKind::AddrInUse => ServeError::InUse { path: path.to_owned() },
        _ => ServeError::io("make the socket", path, error),
    })
}

/// Removes a socket that has no listener any more. The caller has locked the directory.
fn remove_stale(path: &Path) -> Result<(), ServeError> {
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
        // After any other result, a process may listen on the socket, even if it is too busy to answer.
        _ => Err(ServeError::InUse { path: path.to_owned() }),
    }
}

/// Locks the directory of a socket, so that no other process makes sockets there or removes stale ones. Waits for the
/// lock if only this user can open the directory. If other users can open the directory, the function does not wait,
/// because these users could hold the lock for ever. The function then returns [`ServeError::InUse`] if the lock is
/// held.
fn lock(path: &Path) -> Result<DirectoryLock, ServeError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let locked = fs::metadata(directory).and_then(|metadata| {
        let is_private = metadata.uid() == socket::user() && metadata.mode() & 0o077 == 0;
        if is_private { DirectoryLock::wait(directory).map(Some) } else { DirectoryLock::try_take(directory) }
    });
    locked
        .map_err(|error| ServeError::io("lock the directory", directory, error))?
        .ok_or_else(|| ServeError::InUse { path: path.to_owned() })
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

    /// spec: O5.5 (found by process number): a directory that has two paths is searched once.
    #[test]
    fn a_directory_with_two_paths_is_searched_once() {
        let folder = std::env::temp_dir().join(format!("cmwq-distinct-{}", std::process::id()));
        let [run, link, none] = ["run", "link", "none"].map(|name| folder.join(name));
        fs::create_dir_all(run.join("cmwq")).unwrap();
        std::os::unix::fs::symlink(&run, &link).unwrap();
        std::os::unix::fs::symlink(run.join("cmwq"), folder.join("cmwq")).unwrap();
        let bases = [&run, &none, &link, &none, &folder];
        let found = distinct(bases.into_iter().map(|base| base.join("cmwq")));
        fs::remove_dir_all(&folder).unwrap();
        // The last directory is itself a link, which the search does not follow.
        assert_eq!(found, [run, none, folder].map(|base| base.join("cmwq")));
    }
}
