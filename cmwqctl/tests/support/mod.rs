//! A process to watch: this one, with a separate executor for each test.
#![allow(dead_code, reason = "not every test program needs all of it")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use cmwq::control::Server;
use cmwq::{Executor, WorkQueue};

pub(crate) const TOOL: &str = env!("CARGO_BIN_EXE_cmwqctl");

/// A directory in place of the user's runtime directory. Removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("cmwqctl-{}-{number}", std::process::id()));
        let sockets = path.join("cmwq");
        fs::create_dir_all(&sockets).unwrap();
        fs::set_permissions(&sockets, Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    /// The path at which the tool looks for the socket of this process's executor of that number.
    pub(crate) fn socket(&self, executor: usize) -> PathBuf {
        let pid = std::process::id();
        let name = if executor == 1 { pid.to_string() } else { format!("{pid}-{executor}") };
        self.0.join("cmwq").join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The tool, which looks for sockets in this directory.
    pub(crate) fn tool(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TOOL);
        command.args(args).env("XDG_RUNTIME_DIR", &self.0).env("TMPDIR", &self.0);
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finish(self.tool(args))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A file that cannot be removed does no harm there.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The result of a run of the tool.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The output of a run that succeeded.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert!(self.code == Some(0) && self.err.is_empty(), "{self:?}");
        self.out
    }
}

pub(crate) fn finish(mut command: Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// An executor with a few queues, and its control server.
pub(crate) struct Service {
    pub(crate) folder: Folder,
    pub(crate) executor: Executor,
    /// Changeable, managed, `max_active` 16.
    pub(crate) thumbnails: WorkQueue,
    /// Not changeable, ordered.
    pub(crate) mail: WorkQueue,
    /// Not changeable, per CPU.
    pub(crate) events: WorkQueue,
    server: Option<Server>,
}

impl Service {
    pub(crate) fn new() -> Self {
        let executor = Executor::builder().thread_name_prefix("svc").build().unwrap();
        let folder = Folder::new();
        Self {
            thumbnails: WorkQueue::builder("thumbnails")
                .max_active(16)
                .control(true)
                .build_on(&executor)
                .unwrap(),
            mail: WorkQueue::ordered("mail").build_on(&executor).unwrap(),
            events: WorkQueue::per_cpu("events").build_on(&executor).unwrap(),
            server: Some(Server::start_at(&executor, folder.socket(1)).unwrap()),
            executor,
            folder,
        }
    }

    /// Ends the server, so that no tool can find the service any more.
    pub(crate) fn stop(&mut self) {
        self.server = None;
    }

    pub(crate) fn start(&mut self) {
        self.server = Some(Server::start_at(&self.executor, self.folder.socket(1)).unwrap());
    }

    pub(crate) fn socket(&self) -> String {
        self.folder.socket(1).to_str().unwrap().to_owned()
    }

    /// The tool, with the socket of this service.
    pub(crate) fn tool(&self, args: &[&str]) -> Command {
        let mut command = self.folder.tool(&["-s", &self.socket()]);
        command.args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finish(self.tool(args))
    }
}
