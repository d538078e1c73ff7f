//! The control socket: requests and answers, the place of the socket, the users that are served, and peers that
//! misbehave. This is a test program of its own, because all tests of a process share its environment, descriptors and
//! children. Tests that need another process start this program again, with an environment variable.
#![cfg(all(unix, feature = "control"))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

mod answers;
mod changes;
mod hostile;
mod load;
mod places;
mod users;

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::control::{Client, ClientError, ErrorKind, RequestError, Server};
use cmwq::{Executor, TopologySource};
use testkit::{SOON, assert_passed, eventually};

/// The environment variable that tells a process which part it plays, if a test has started it.
const CHILD: &str = "CMWQ_TEST_CONTROL";

/// A temporary directory. Dropping this value removes it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("cmwq-c{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let removed = fs::remove_dir_all(&self.0);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

/// An executor with a control socket.
struct Served {
    server: Server,
    executor: Executor,
    folder: Folder,
}

impl Served {
    /// Serves an executor on a made-up machine of this shape.
    fn new(shape: &str) -> Self {
        let topology = TopologySource::Synthetic(shape.to_owned());
        let builder = Executor::builder().topology(topology).thread_name_prefix("served");
        Self::by(&builder.progress_check(Duration::from_secs(10)).build().unwrap())
    }

    fn by(executor: &Executor) -> Self {
        let folder = Folder::new();
        let server = Server::start_at(executor, folder.join("socket")).unwrap();
        Self { server, executor: executor.clone(), folder }
    }

    fn client(&self) -> Client {
        Client::connect_timeout(self.server.path(), SOON).unwrap()
    }

    fn raw(&self) -> Raw {
        Raw::connect(self.server.path())
    }

    /// Asserts that the server answers a new client.
    fn is_well(&self) {
        let pid = self.client().hello().unwrap().pid;
        assert_eq!(pid, std::process::id());
    }
}

/// A connection that can send any bytes.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        Self(BufReader::new(stream))
    }

    fn stream(&self) -> &UnixStream {
        self.0.get_ref()
    }

    fn say(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.get_mut().write_all(bytes).unwrap();
        self
    }

    /// Returns the next line without its end, or an empty string at the end of the connection.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(format!("{line}\n").as_bytes()).hear()
    }
}

/// Returns the error with which the server has refused a request.
#[track_caller]
fn refused<T: fmt::Debug>(answer: Result<T, ClientError>) -> RequestError {
    match answer {
        Err(ClientError::Answer(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused_as<T: fmt::Debug>(kind: ErrorKind, answer: Result<T, ClientError>) -> String {
    let error = refused(answer);
    assert_eq!(error.kind, kind, "{error}");
    error.message
}

/// Returns the error in a line that the server has sent.
#[track_caller]
fn error_in(line: &str) -> RequestError {
    let mut answer: serde_json::Value = serde_json::from_str(line).unwrap();
    serde_json::from_value(answer["error"].take()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Returns a command that starts this program again. The new process runs only the test of this name, with `value` in
/// the environment variable.
fn child(test: &str, value: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut child = testkit::again(test);
    child.env(CHILD, value);
    child
}

/// Returns the part that this process plays, if a test has started it.
fn told() -> Option<String> {
    std::env::var(CHILD).ok()
}
