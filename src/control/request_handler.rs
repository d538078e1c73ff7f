//! Handles requests: looks up their queues, checks the requests, and carries them out.
//!
//! The server's thread does not wait, and holds no lock while it writes an answer. The thread holds a reference to each
//! queue that it uses. So the thread can use a queue even if the queue's last handle is dropped during the request. The
//! thread can also use a queue whose last handle was dropped before the request, if the queue still has items to
//! finish.

use std::fmt::Write as _;
use std::sync::{Arc, Weak};

use serde::Serialize;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::queue::register::QueueRef;
use crate::engine::queue::workqueue::Queue;
use crate::executor::Executor;
use crate::observe::{Monitor, Snapshot};

use super::attribute::Attribute;
use super::protocol::{
    Answer, ErrorKind, Hello, NamedValue, PROTOCOL, Request, RequestError, StalledPool, WatchdogReport,
    line_of, shortened,
};
use super::values;

/// An error message lists at most this many names of queues.
const LISTED: usize = 20;

/// Handles the requests of clients to one executor.
#[derive(Clone)]
pub(super) struct RequestHandler {
    executor: Weak<ExecutorInner>,
    hello: Hello,
}

impl RequestHandler {
    pub(super) fn new(executor: &Executor) -> Self {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(std::path::Path::file_name);
        let hello = Hello {
            protocol: PROTOCOL,
            pid: std::process::id(),
            program: program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            prefix: executor.inner.core.settings.name_prefix.clone(),
            crate_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Self { executor: Arc::downgrade(&executor.inner), hello }
    }

    /// Carries out the request on this line. Returns the answer as one line.
    pub(super) fn answer(&self, line: &[u8]) -> Vec<u8> {
        let said = Request::read(line).and_then(|request| self.carry_out(request));
        said.unwrap_or_else(|error| line_of(&Answer::<()>::Error(error)))
    }

    fn carry_out(&self, request: Request) -> Result<Vec<u8>, RequestError> {
        match request {
            Request::Hello {} => Ok(said(&self.hello)),
            Request::Dump {} => Ok(said(&Snapshot::take(&*self.executor()?))),
            Request::Monitor {} => Ok(said(&Monitor::new(&self.executor()?).sample())),
            Request::Watchdog {} => Ok(said(&watchdog(&*self.executor()?))),
            Request::Attributes { queue } => {
                let values = values::all(&*self.queue(&queue)?);
                let named = values
                    .into_iter()
                    .map(|(attribute, value)| NamedValue { attribute: attribute.to_string(), value });
                Ok(said(&named.collect::<Vec<_>>()))
            }
            Request::Get { queue, attribute } => {
                let (queue, attribute) = (self.queue(&queue)?, attribute_of(&attribute)?);
                Ok(said(&values::get(&queue, attribute)?))
            }
            Request::Set { queue, attribute, value } => {
                let (queue, attribute) = (self.queue(&queue)?, attribute_of(&attribute)?);
                Ok(said(&values::set(&queue, attribute, &value)?))
            }
        }
    }

    fn executor(&self) -> Result<Arc<ExecutorInner>, RequestError> {
        self.executor.upgrade().ok_or_else(|| {
            let message = "the executor is gone: the process has dropped its handles and all of its queues";
            RequestError::new(ErrorKind::Ended, message)
        })
    }

    /// Returns the queue with this name, or with this name and number (`name#number`).
    fn queue(&self, wanted: &str) -> Result<QueueRef, RequestError> {
        let executor = self.executor()?;
        let queues = &executor.queues;
        let mut found = queues.find(|_, queue| queue.name() == wanted);
        if let (0, Some((name, number))) = (found.len(), numbered(wanted)) {
            found = queues.find(|known, queue| known == number && queue.name() == name);
        }
        match found.len() {
            0 => Err(unknown(&executor, wanted)),
            1 => Ok(found.remove(0).1),
            several => {
                let names = found.iter().map(|(number, _)| format!("{}#{number}", shortened(wanted)));
                let (wanted, names) = (shortened(wanted), listed(names));
                let message = format!("{several} queues are named {wanted:?}; choose one of: {names}");
                Err(RequestError::new(ErrorKind::AmbiguousQueue, message))
            }
        }
    }
}

fn watchdog(executor: &ExecutorInner) -> WatchdogReport {
    let seen = Snapshot::take(executor);
    let stalled = seen.pools.into_iter().filter_map(|pool| {
        let stalled_for = pool.stalled_for?;
        Some(StalledPool { pool: pool.name, cpus: pool.cpus, pending: pool.pending, stalled_for })
    });
    WatchdogReport {
        threshold: executor.core.settings.watchdog_threshold,
        stalls: seen.stalls,
        stalled: stalled.collect(),
        hogs: seen.hogs,
        undeclared_blockers: seen.undeclared_blockers,
    }
}

fn said(answer: &impl Serialize) -> Vec<u8> {
    line_of(&Answer::Ok(answer))
}

fn attribute_of(name: &str) -> Result<Attribute, RequestError> {
    name.parse().map_err(|error| RequestError::new(ErrorKind::UnknownAttribute, format!("{error}")))
}

/// Splits a text such as `mail#7` into the name and the number. This text means queue number 7 with the name `mail`.
fn numbered(wanted: &str) -> Option<(&str, u64)> {
    let (name, number) = wanted.rsplit_once('#')?;
    Some((name, number.parse().ok()?))
}

fn unknown(executor: &ExecutorInner, wanted: &str) -> RequestError {
    let mut names = Vec::new();
    let mut number = 0;
    // This code copies the names of the first few queues. It does not take references to all queues, because the
    // executor could have many queues.
    executor.queues.any(|queue: &Queue| {
        number += 1;
        if names.len() < LISTED && !names.iter().any(|name| name == queue.name()) {
            names.push(queue.name().to_owned());
        }
        false
    });
    let mut message = format!("no queue is named {:?}; ", shortened(wanted));
    let written = match (names.is_empty(), number > LISTED) {
        (true, _) => write!(message, "there are no queues"),
        (false, false) => {
            write!(message, "the queues are: {}", listed(names.iter().map(|name| shortened(name))))
        }
        (false, true) => {
            write!(
                message,
                "there are {number}, such as: {}",
                listed(names.iter().map(|name| shortened(name)))
            )
        }
    };
    debug_assert!(written.is_ok(), "writing to a string does not fail");
    RequestError::new(ErrorKind::UnknownQueue, message)
}

/// Returns the first names as a list, with `…` at the end if there are more names.
fn listed(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.take(LISTED + 1).collect();
    if names.len() > LISTED {
        names.truncate(LISTED);
        names.push("…".to_owned());
    }
    names.join(", ")
}
