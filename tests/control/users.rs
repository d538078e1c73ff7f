//! The users that a server accepts.

use std::fs;
use std::io::{BufRead as _, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use cmwq::Executor;
use cmwq::control::{Client, ClientError, ErrorKind, Server};
use testkit::{itself, output, skip};

use super::{Raw, Served, assert_passed, child, eventually, refused_as, told};

/// Users that own nothing and run no other process.
const STRANGERS: [u32; 2] = [3_141_592, 2_718_281];

/// Returns whether this test can start its program as another user. If not, reports the test as skipped.
fn can_be_another() -> bool {
    if !rustix::process::geteuid().is_root() {
        skip("user", "only root can be another user");
        return false;
    }
    let mut probe = itself();
    let starts = output(probe.arg("--list").uid(STRANGERS[0])).is_ok_and(|output| output.status.success());
    if !starts {
        skip("unreachable", "another user cannot start this program");
    }
    starts
}

/// Gives every user access to a socket, contrary to all advice.
fn open_to_all(path: &Path) {
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

/// spec: O5.6 (another user's connection is refused)
#[test]
fn another_user_is_refused_even_with_access_to_the_socket() {
    const TEST: &str = "users::another_user_is_refused_even_with_access_to_the_socket";
    if let Some(path) = told() {
        let mut client = Client::connect(&path).unwrap();
        let message = refused_as(ErrorKind::Forbidden, client.dump());
        assert_eq!(message, format!("this process belongs to user 0, and you are user {}", STRANGERS[0]));
        let mut raw = Raw::connect(Path::new(&path));
        let said = raw.stream().try_clone().unwrap().write_all(b"{\"request\":\"dump\"}\n");
        let answer = raw.hear();
        assert!(answer.contains("forbidden") && !answer.contains("queues"), "{said:?} {answer}");
        let mut rest = String::new();
        let _closed_or_reset = raw.0.read_line(&mut rest);
        assert_eq!(rest, "", "nothing comes after the refusal");
        return;
    }
    if !can_be_another() {
        return;
    }
    let served = Served::new("core:1 pu:1");
    let path = served.server.path();
    open_to_all(path);
    for _ in 0..3 {
        assert_passed(&output(child(TEST, path).uid(STRANGERS[0])).unwrap());
    }
    served.is_well();
}

/// spec: O5.6: the processes of all users serve root. Clients of other users do not trust a socket that is not their
/// own.
#[test]
fn root_is_served_and_sockets_of_other_users_are_not_trusted() {
    const TEST: &str = "users::root_is_served_and_sockets_of_other_users_are_not_trusted";
    if let Some(path) = told() {
        if let Some(path) = path.strip_prefix("serve ") {
            let executor = Executor::builder().build().unwrap();
            let server = Server::start_at(&executor, path).unwrap();
            open_to_all(server.path());
            // The parent process kills this one.
            loop {
                std::thread::park();
            }
        }
        let error = Client::connect(&path).unwrap_err();
        assert!(matches!(error, ClientError::OtherUser { uid, .. } if uid == STRANGERS[0]), "{error}");
        assert!(Raw::connect(Path::new(&path)).hear().contains("forbidden"));
        return;
    }
    if !can_be_another() {
        return;
    }
    let folder = super::Folder::new();
    std::os::unix::fs::chown(&folder.0, Some(STRANGERS[0]), None).unwrap();
    let path = folder.join("socket");
    let serve = format!("serve {}", path.display());
    let mut server = child(TEST, serve).uid(STRANGERS[0]).stdout(Stdio::null()).spawn().unwrap();
    eventually("the server answers", || {
        Client::connect(&path).is_ok_and(|mut client| client.hello().is_ok())
    });
    assert_eq!(Client::connect(&path).unwrap().hello().unwrap().pid, server.id(), "root is served");
    assert!(Client::connect(&path).unwrap().dump().is_ok());
    let output = output(child(TEST, &path).uid(STRANGERS[1])).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_passed(&output);
}
