//! One rival runs one case in a process of its own, so that the threads, the memory and the CPU time of that process
//! are the rival's.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bed::{self, Bed};
use crate::effort::Effort;
use crate::rival::Entry;
use crate::workload::Case;

/// A measurement.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) case: &'static Case,
    pub(crate) rival: &'static Entry,
    pub(crate) effort: Effort,
    /// Whether threads are counted again after they have been idle for long.
    pub(crate) settles: bool,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The values of the case's own measures, followed by the values of the [`COMMON`](crate::bed::COMMON) measures.
    Done(Vec<Option<f64>>),
    /// The measurement had not ended after this many seconds.
    Stuck(u64),
    Failed(String),
}

/// The message of a child to its parent.
#[derive(Serialize, Deserialize)]
struct Told {
    values: Vec<Option<f64>>,
}

impl Task {
    /// Starts a child process that does the measurement, and waits for its result.
    pub(crate) fn measure(&self) -> Outcome {
        match self.start() {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(format!("no child: {error}")),
        }
    }

    /// Returns the time limit, which is half as long for the smallest effort.
    fn limit(&self) -> Duration {
        if self.effort == Effort::Tiny { self.case.limit / 2 } else { self.case.limit }
    }

    fn start(&self) -> io::Result<Outcome> {
        let settles = if self.settles { "settle" } else { "leave" };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--child", &self.case.name(), self.rival.name, self.effort.name(), settles])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (told, complained) = (read(child.stdout.take()), read(child.stderr.take()));
        let patience = self.limit() + if self.settles { bed::SETTLED } else { Duration::ZERO };
        // The child closes the pipe when it ends, and has sent its whole message then.
        let told = match told.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                return Ok(Outcome::Stuck(self.limit().as_secs()));
            }
            told => told.unwrap_or_default(),
        };
        let status = child.wait()?;
        Ok(match serde_json::from_str::<Told>(&told) {
            Ok(told) if status.success() => Outcome::Done(told.values),
            _ => {
                let complained = complained.recv().unwrap_or_default();
                let reason = complained.lines().find(|line| !line.trim().is_empty());
                Outcome::Failed(format!("{status}: {}", reason.unwrap_or("no message")))
            }
        })
    }

    /// Does the measurement in this process. The process must end afterwards, because the rival's threads still exist.
    pub(crate) fn run(&self) -> io::Result<()> {
        let bed = Bed::new(self.effort, self.case.sleeper, self.settles);
        let own = (self.rival.run)(self.case, &bed);
        let values = own.into_iter().map(Some).chain(bed.common()).collect();
        let told = serde_json::to_string(&Told { values })?;
        let mut out = io::stdout().lock();
        out.write_all(told.as_bytes())?;
        out.flush()
    }
}

/// Starts a thread that reads a pipe to its end and sends the text.
fn read(pipe: Option<impl Read + Send + 'static>) -> std::sync::mpsc::Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        // If reading fails, the thread sends the text that it has read so far.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
        // The receiver may have given up on the child and be gone.
        let _ = send.send(String::from_utf8_lossy(&text).into_owned());
    });
    receive
}
