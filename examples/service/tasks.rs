//! The background tasks of the service, which arrive by `POST /tasks`. The client asks for the result later.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cmwq::blocking::sync::Mutex;
use cmwq::{BuildQueueError, CancelToken, Cancelled, JoinError, JoinHandle, Permit, QueueError, WorkQueue};

use crate::args::Args;
use crate::client::Answer;
use crate::hash;

pub(crate) struct Tasks {
    queue: WorkQueue,
    limit: Duration,
    keep: Duration,
    hurry: CancelToken,
    known: Mutex<Known>,
}

/// The tasks that clients can ask for. The queue's bound limits the number of tasks that have not ended. The time
/// `keep` limits how long the results of the ended tasks stay.
#[derive(Default)]
struct Known {
    tasks: BTreeMap<u64, Task>,
    last: u64,
}

enum Task {
    /// The task waits or runs.
    Open(JoinHandle<Result<String, Cancelled>>),
    Ended {
        status: u16,
        text: String,
        at: Instant,
    },
}

impl Tasks {
    pub(crate) fn new(args: &Args, hurry: &CancelToken) -> Result<Self, BuildQueueError> {
        let queue = WorkQueue::builder("tasks")
            .max_active_total(args.active)
            .max_pending(args.pending)
            .control(true)
            .build()?;
        let (hurry, known) = (hurry.clone(), Mutex::default());
        Ok(Self { queue, limit: args.limit, keep: args.keep, hurry, known })
    }

    /// Reserves a place for a task, before its body is read.
    pub(crate) fn reserve(&self) -> Result<Permit, QueueError> {
        self.queue.try_reserve()
    }

    /// Queues a task, which uses the place that the permit reserves. A task that has not begun within the limit does
    /// not run, and a task that has not ended within the limit stops early. If the service ends, the queue refuses the
    /// task.
    pub(crate) fn start(&self, permit: Permit, body: Vec<u8>, rounds: u64) -> Answer {
        let item = self.queue.item(move || hash::sum(&body, rounds));
        match item.with(permit).token(&self.hurry).within(self.limit).spawn() {
            Ok(handle) => {
                let mut known = self.known.lock();
                known.last += 1;
                let number = known.last;
                known.tasks.insert(number, Task::Open(handle));
                Answer::later(format!("/tasks/{number}"))
            }
            Err(refused) => Answer::new(503, format!("{}\n", refused.error)),
        }
    }

    /// Returns the answer with the result of a task, or the answer that there is no result yet.
    pub(crate) fn result(&self, number: u64) -> Option<Answer> {
        let mut known = self.known.lock();
        let task = known.tasks.remove(&number)?.settled();
        let answer = match &task {
            Task::Open(_) => Answer::new(202, "not finished\n"),
            Task::Ended { status, text, .. } => Answer::new(*status, text),
        };
        known.tasks.insert(number, task);
        Some(answer)
    }

    /// Asks a task to stop. A task that has not begun does not run.
    pub(crate) fn stop(&self, number: u64) -> Option<Answer> {
        let known = self.known.lock();
        Some(match known.tasks.get(&number)? {
            Task::Open(handle) if !handle.is_finished() => {
                let text = if handle.stop() { "it will not begin\n" } else { "it is asked to stop\n" };
                Answer::new(202, text)
            }
            _ => Answer::new(409, "it has ended\n"),
        })
    }

    /// Removes the tasks whose results were kept long enough. Returns the number of tasks that are left.
    pub(crate) fn forget_old(&self) -> usize {
        let mut known = self.known.lock();
        let tasks = std::mem::take(&mut known.tasks).into_iter();
        let settled = tasks.map(|(number, task)| (number, task.settled()));
        known.tasks = settled.filter(|(_, task)| !task.is_older_than(self.keep)).collect();
        known.tasks.len()
    }
}

impl Task {
    /// Replaces the handle of a task that has ended by the task's result.
    fn settled(self) -> Self {
        let handle = match self {
            Self::Open(handle) if handle.is_finished() => handle,
            other => return other,
        };
        // The item has ended, so the join does not wait.
        let (status, text) = match handle.join() {
            Ok(Ok(sum)) => (200, sum),
            Ok(Err(Cancelled::DeadlinePassed)) | Err(JoinError::DeadlinePassed) => {
                (504, "it took too long\n".to_owned())
            }
            Ok(Err(_)) | Err(JoinError::Cancelled) => (410, "it was stopped\n".to_owned()),
            Err(error) => (500, format!("{error}\n")),
        };
        Self::Ended { status, text, at: Instant::now() }
    }

    fn is_older_than(&self, time: Duration) -> bool {
        matches!(self, Self::Ended { at, .. } if at.elapsed() > time)
    }
}
