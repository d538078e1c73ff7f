//! Finds the process that the command line names, and connects to it.

use std::time::Duration;

use cmwq::control::{Client, ClientError, ErrorKind, Process, processes};

use crate::args::Target;
use crate::failure::{Failure, Result};

const HOW_TO: &str = "A process can be watched when it uses cmwq with the feature `control`, has called \
                      `cmwq::control::Server::start`,\nand belongs to you. A socket elsewhere is named by -s SOCKET.";

/// The time within which a process must answer, if the tool asks several processes whether their executors are there.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connects to the process that the command line names. If the command line names no process, connects to the only
/// process that is found. If several processes are found, those whose executor has ended do not count, unless the
/// executors of all of them have ended.
pub(crate) fn connect(target: &Target) -> Result<Client> {
    if let Some(path) = &target.socket {
        return Client::connect(path).map_err(failure);
    }
    let mut found = all()?;
    if let Some(pid) = target.pid {
        found.retain(|process| process.pid == pid);
    }
    if found.len() > 1 {
        let (ended, present): (Vec<_>, _) = found.into_iter().partition(has_ended);
        found = if present.is_empty() { ended } else { present };
    }
    match (found.as_slice(), target.pid) {
        ([only], _) => Client::connect(&only.path).map_err(failure),
        // The process may exist although it was not found. The error then says why the tool cannot reach it.
        ([], Some(pid)) => Client::to_process(pid).map_err(failure),
        ([], None) => Err(Failure::unreachable("no process with a control socket was found", HOW_TO)),
        (several, None) => Err(Failure::usage(
            format!("there are {} control sockets: name one by -p PID or -s SOCKET", several.len()),
            lines(several),
        )),
        (several, Some(pid)) => Err(Failure::usage(
            format!("process {pid} has {} executors: name one by -s SOCKET", several.len()),
            lines(several),
        )),
    }
}

/// Returns whether the process answers that its executor has ended.
fn has_ended(process: &Process) -> bool {
    // The server finds the executor before it looks for the queue, so any name does.
    let asked = Client::connect_timeout(&process.path, PATIENCE).and_then(|mut client| client.attributes(""));
    matches!(asked, Err(ClientError::Answer(error)) if error.kind == ErrorKind::Ended)
}

/// Returns all processes of this user that can be reached.
pub(crate) fn all() -> Result<Vec<Process>> {
    processes().map_err(|error| {
        Failure::unreachable(format!("the directory of control sockets cannot be read: {error}"), HOW_TO)
    })
}

fn lines(processes: &[Process]) -> String {
    let line = |process: &Process| {
        format!("-p {:<8} {:<16} -s {}", process.pid, process.program, process.path.display())
    };
    processes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Turns a client's error into a failure of this tool.
pub(crate) fn failure(error: ClientError) -> Failure {
    let message = error.to_string();
    match error {
        ClientError::Answer(_) | ClientError::TooLong { .. } => Failure::Refused(message),
        ClientError::Connect { .. } | ClientError::NoProcess { .. } | ClientError::OtherUser { .. } => {
            Failure::unreachable(message, "`cmwqctl list` shows the processes that can be reached.")
        }
        ClientError::Malformed(_) => {
            Failure::unreachable(message, "The process may use another version of cmwq than this tool.")
        }
        ClientError::TimedOut => {
            Failure::unreachable(message, "The process is stopped, or has no CPU time at all.")
        }
        _ => Failure::unreachable(message, "The process may have ended: see `cmwqctl list`."),
    }
}
