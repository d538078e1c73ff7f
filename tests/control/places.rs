//! The places of sockets, and the removal of stale ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use cmwq::Executor;
use cmwq::control::{Client, ClientError, ServeError, Server, processes};
use rustix::fs::{FlockOperation, flock};
use testkit::{SOON, holds_within};

use super::{Folder, Served, assert_passed, child, eventually, told};

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a test in a process of its own, whose runtime directory is `folder`.
fn in_a_process(test: &str, folder: &Folder) {
    assert_passed(&child(test, "yes").env("XDG_RUNTIME_DIR", &folder.0).output().unwrap());
}

/// spec: O5.5 (mode 0600, in a directory of mode 0700, by process id)
#[test]
fn the_default_place_is_private_and_found_by_number() {
    if told().is_none() {
        return in_a_process("places::the_default_place_is_private_and_found_by_number", &Folder::new());
    }
    let directory = Path::new(&std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("cmwq");
    let pid = std::process::id();
    let executors =
        ["one", "two"].map(|prefix| Executor::builder().thread_name_prefix(prefix).build().unwrap());
    let servers = executors.each_ref().map(|executor| Server::start(executor).unwrap());
    assert_eq!(servers[0].path(), directory.join(pid.to_string()));
    assert_eq!(servers[1].path(), directory.join(format!("{pid}-2")));
    assert_eq!((mode(&directory), mode(servers[0].path())), (0o700, 0o600));
    fs::write(directory.join("notes"), "of another program").unwrap();

    // A server that does not answer for a second is not listed.
    let mut of_ours = Vec::new();
    eventually("both servers are listed", || {
        of_ours = processes().unwrap().into_iter().filter(|process| process.pid == pid).collect();
        of_ours.len() == 2
    });
    assert_eq!(of_ours.iter().map(|process| process.prefix.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(of_ours[1].path, servers[1].path());
    assert_eq!(Client::to_process(pid).unwrap().hello().unwrap().prefix, "one");

    let [first, second] = servers;
    drop(first);
    assert_eq!(Client::to_process(pid).unwrap().hello().unwrap().prefix, "two");
    let again = Server::start(&executors[0]).unwrap();
    assert_eq!(again.path(), directory.join(pid.to_string()), "the default place is free again");
    drop((again, second));
    let left: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes"]);
    assert!(matches!(Client::to_process(pid), Err(ClientError::NoProcess { .. })));
}

/// spec: O5.5: a directory to which other users have access is refused, and not changed.
#[test]
fn a_directory_that_is_not_private_is_refused() {
    if told().is_none() {
        return in_a_process("places::a_directory_that_is_not_private_is_refused", &Folder::new());
    }
    let directory = Path::new(&std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("cmwq");
    let executor = Executor::builder().build().unwrap();
    fs::write(&directory, "a file").unwrap();
    assert!(matches!(Server::start(&executor), Err(ServeError::Directory { .. })));
    fs::remove_file(&directory).unwrap();
    std::os::unix::fs::symlink(std::env::temp_dir(), &directory).unwrap();
    assert!(matches!(Server::start(&executor), Err(ServeError::Directory { .. })));
    fs::remove_file(&directory).unwrap();

    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o750)).unwrap();
    let error = Server::start(&executor).unwrap_err();
    assert!(matches!(error, ServeError::Mode { mode: 0o750, .. }), "{error:?}");
    assert!(error.to_string().ends_with("(mode 750): make it 700"), "{error}");
    assert_eq!(mode(&directory), 0o750);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    drop(Server::start(&executor).unwrap());

    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&directory, Some(3_141_592), None).unwrap();
        let error = Server::start(&executor).unwrap_err();
        assert!(matches!(error, ServeError::Directory { owner: 3_141_592, .. }), "{error}");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

/// A process that serves its default socket until it is killed.
struct Serving(Child);

impl Serving {
    fn start(test: &str, folder: &Folder) -> Self {
        let mut command = child(test, "serve");
        let process = command.env("XDG_RUNTIME_DIR", &folder.0).stdout(Stdio::null()).spawn().unwrap();
        let serving = Self(process);
        eventually("the process serves its socket", || UnixStream::connect(serving.socket(folder)).is_ok());
        serving
    }

    fn socket(&self, folder: &Folder) -> std::path::PathBuf {
        folder.join("cmwq").join(self.0.id().to_string())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have been killed already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// spec: O5.5 (stale sockets are removed, others never)
#[test]
fn only_sockets_of_killed_processes_are_removed() {
    const TEST: &str = "places::only_sockets_of_killed_processes_are_removed";
    match told().as_deref() {
        None => return in_a_process(TEST, &Folder::new()),
        Some("serve") => {
            let executor = Executor::builder().build().unwrap();
            let _server = Server::start(&executor).unwrap();
            loop {
                std::thread::park();
            }
        }
        Some(_) => {}
    }
    let folder = std::mem::ManuallyDrop::new(Folder(std::env::var_os("XDG_RUNTIME_DIR").unwrap().into()));
    let (killed, lives) = (Serving::start(TEST, &folder), Serving::start(TEST, &folder));
    let stale = killed.socket(&folder);
    // A server that does not answer for a second is not listed.
    let ours = || processes().unwrap().into_iter().filter(|process| process.path.starts_with(&folder.0));
    eventually("both servers are listed", || ours().count() == 2);
    drop(killed);
    assert!(stale.exists());
    let mut left = Vec::new();
    eventually("a server is listed", || {
        left = ours().map(|process| process.pid).collect();
        !left.is_empty()
    });
    assert_eq!(left, [lives.0.id()]);
    assert!(!stale.exists() && lives.socket(&folder).exists());

    // No thread listens on this socket. But the process of its number exists, and may be about to listen.
    let parent = folder.join("cmwq").join("1");
    drop(UnixListener::bind(&parent).unwrap());
    processes().unwrap();
    assert!(parent.exists());
}

/// spec: O5: files of other users in the directories of sockets do not hide the caller's own sockets, and are not
/// removed.
#[test]
fn a_directory_of_another_user_is_skipped() {
    const TEST: &str = "places::a_directory_of_another_user_is_skipped";
    if told().is_none() {
        let folder = Folder::new();
        let mut child = child(TEST, "yes");
        return assert_passed(
            &child.env("XDG_RUNTIME_DIR", "/dev/null").env("TMPDIR", &folder.0).output().unwrap(),
        );
    }
    let folder = std::env::temp_dir();
    let place = folder.join(format!("cmwq-{}", rustix::process::geteuid().as_raw()));
    // No process has this number.
    let (elsewhere, number) = (folder.join("elsewhere"), i32::MAX.to_string());
    fs::create_dir(&elsewhere).unwrap();
    drop(UnixListener::bind(elsewhere.join(&number)).unwrap());
    let stale = || elsewhere.join(&number).exists();

    std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
    processes().unwrap();
    assert!(stale(), "a socket behind a link stays");
    fs::remove_file(&place).unwrap();
    fs::write(&place, "a file").unwrap();
    processes().unwrap();
    fs::remove_file(&place).unwrap();
    fs::rename(&elsewhere, &place).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&place, Some(3_141_592), None).unwrap();
        processes().unwrap();
        assert!(place.join(&number).exists(), "a socket of another user stays");
        std::os::unix::fs::chown(&place, Some(0), None).unwrap();
    }
    processes().unwrap();
    assert!(!place.join(&number).exists(), "one's own stale socket is removed");
}

/// spec: O5.5
#[test]
fn a_socket_in_use_is_left_alone_and_a_stale_one_replaced() {
    let served = Served::new("core:1 pu:1");
    let path = served.server.path();
    assert!(matches!(Server::start_at(&served.executor, path), Err(ServeError::InUse { .. })));
    served.is_well();

    let file = served.folder.join("file");
    fs::write(&file, "kept").unwrap();
    assert!(matches!(Server::start_at(&served.executor, &file), Err(ServeError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");

    let stale = served.folder.join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    // A process that another test has just forked may hold the listener open for a moment.
    assert!(holds_within(SOON, || UnixStream::connect(&stale).is_err()));
    let server = Server::start_at(&served.executor, &stale).unwrap();
    Client::connect(&stale).unwrap().hello().unwrap();
    assert_eq!(mode(&stale), 0o600);

    // Another program has put its socket in the same place. The server must not remove this socket.
    fs::remove_file(&stale).unwrap();
    let others = UnixListener::bind(&stale).unwrap();
    drop(server);
    assert!(stale.exists());
    drop(others);

    let long = served.folder.join(&"x".repeat(200));
    let error = Server::start_at(&served.executor, &long).unwrap_err();
    assert!(matches!(error, ServeError::TooLong { .. }), "{error}");
    assert!(matches!(Client::connect(&long), Err(ClientError::Connect { .. })));
    let nowhere = served.folder.join("no/such/folder");
    assert!(matches!(Server::start_at(&served.executor, nowhere), Err(ServeError::Io { .. })));
}

/// spec: O5.5 (other sockets never): a socket that exists but has no listener yet looks like a stale one. So a server
/// makes its socket only while no other process removes stale sockets from the directory.
#[test]
fn a_socket_is_made_under_the_lock_of_its_directory() {
    let (folder, executor) = (Folder::new(), Executor::builder().build().unwrap());
    let path = folder.join("socket");
    let directory = fs::File::open(&folder.0).unwrap();
    flock(&directory, FlockOperation::LockExclusive).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| Server::start_at(&executor, &path).unwrap());
        let is_made_early = holds_within(Duration::from_millis(50), || path.exists());
        flock(&directory, FlockOperation::Unlock).unwrap();
        let server = server.join().unwrap();
        assert!(!is_made_early);
        Client::connect(server.path()).unwrap().hello().unwrap();
    });
}

/// spec: O5.9, X2: in a forked process, dropping the server does not remove the socket.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "fork is libc's")]
#[test]
fn a_forked_process_has_no_server() {
    let Served { server, executor, folder } = Served::new("core:1 pu:1");
    let path = server.path().to_owned();
    let other = folder.join("other");
    // SAFETY: the child uses only operations that this crate promises for a child, and ends without exit handlers.
    let id = unsafe { libc::fork() };
    if id == 0 {
        drop(server);
        let refused = matches!(Server::start_at(&executor, &other), Err(ServeError::Forked));
        // SAFETY: the call does not return.
        unsafe { libc::_exit(i32::from(!refused || !path.exists())) }
    }
    let mut status = 0;
    // SAFETY: the pointer leads to a number that outlives the call.
    assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
    assert_eq!(status, 0);
    assert!(path.exists() && !other.exists());
    assert_eq!(Client::connect(&path).unwrap().hello().unwrap().pid, std::process::id());
    drop(server);
    assert!(!path.exists());
}

/// spec: O5.9: a program that the process starts inherits none of the server's descriptors.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_started_inherits_nothing() {
    let served = Served::new("core:1 pu:1");
    let mut client = served.client();
    client.hello().unwrap();
    let listing = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    assert!(listing.contains("-> ") && !listing.contains("socket:"), "{listing}");
}

/// spec: O5.9: an item of the executor may start and drop a server. During both calls, it is blocked under a guard.
#[test]
fn a_server_may_be_started_and_dropped_by_an_item() {
    let executor = Executor::builder().build().unwrap();
    let (folder, queue) = (Folder::new(), cmwq::WorkQueue::builder("q").build_on(&executor).unwrap());
    let (path, serving) = (folder.join("socket"), executor.clone());
    let item = queue.spawn(move || {
        let server = Server::start_at(&serving, &path).unwrap();
        Client::connect(&path).unwrap().dump().unwrap();
        drop(server);
        path.exists()
    });
    assert!(!item.unwrap().join().unwrap());
}
