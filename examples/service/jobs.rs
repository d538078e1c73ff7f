//! The jobs of the service, which arrive by `POST /jobs`, and their counts. The client of a job waits for the result.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cmwq::{BuildQueueError, CancelToken, Cancelled, WorkQueue};

use crate::args::Args;
use crate::client::{Answer, Client};
use crate::hash;

pub(crate) struct Jobs {
    /// The queue of the jobs. Requests beyond its bound are shed.
    queue: WorkQueue,
    patience: Duration,
    hurry: CancelToken,
    account: Arc<Account>,
}

/// The counts of the jobs. When all jobs have ended, each accepted job counts as finished or as given up.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) accepted: AtomicU64,
    pub(crate) finished: AtomicU64,
    /// The jobs that were too late, and the jobs that the end of the service cut off.
    pub(crate) given_up: AtomicU64,
    pub(crate) shed: AtomicU64,
    /// The number of jobs finished in the last second.
    pub(crate) rate: AtomicU64,
}

/// A job from its acceptance to its end.
struct Job {
    /// The client, or `None` when the job is finished.
    client: Option<Client>,
    rounds: Result<u64, String>,
    account: Arc<Account>,
}

impl Jobs {
    pub(crate) fn new(args: &Args, hurry: &CancelToken) -> Result<Self, BuildQueueError> {
        let queue = WorkQueue::builder("jobs")
            .max_active_total(args.active)
            .max_pending(args.pending)
            .control(true)
            .build()?;
        let hurry = hurry.clone();
        Ok(Self { queue, patience: args.patience, hurry, account: Arc::default() })
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Accepts a job, or sheds it. A job that has not ended after the service's patience is given up. If it has not
    /// begun, it does not run. Otherwise it stops early.
    pub(crate) fn submit(&self, client: Client, url: &str) {
        let Ok(permit) = self.queue.try_reserve() else {
            self.account.shed.fetch_add(1, Relaxed);
            // The drop of the client answers 503.
            return drop(client);
        };
        // The job is counted before it can be finished.
        self.account.accepted.fetch_add(1, Relaxed);
        let account = Arc::clone(&self.account);
        let job = Job { client: Some(client), rounds: hash::rounds(url), account };
        let item = self.queue.item(move || job.run()).with(permit).token(&self.hurry).within(self.patience);
        // If the executor is shut down, the queue refuses the job. The job is dropped here, and its client is answered.
        drop(item.spawn_detached());
    }

    /// Waits until no job runs, or until this time.
    pub(crate) fn wait_until(&self, end: Instant) {
        let _idle_or_late = self.queue.wait_idle_timeout(end.saturating_duration_since(Instant::now()));
    }
}

impl Job {
    fn run(mut self) {
        // If the job is asked to stop, it returns here and drops its client. The drop of the client answers 503.
        let Ok(answer) = self.work() else { return };
        if let Some(client) = self.client.take() {
            // The job is counted before the answer, so a client that has the answer finds it in the account.
            self.account.finished.fetch_add(1, Relaxed);
            client.answer(answer);
        }
    }

    fn work(&mut self) -> Result<Answer, Cancelled> {
        let rounds = match &self.rounds {
            Ok(rounds) => *rounds,
            Err(message) => return Ok(Answer::new(400, message)),
        };
        let Some(client) = &mut self.client else { return Err(Cancelled::Requested) };
        match client.read_body() {
            Ok(body) => hash::sum(&body, rounds).map(|sum| Answer::new(200, sum)),
            Err(answer) => Ok(answer),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.client.is_some() {
            self.account.given_up.fetch_add(1, Relaxed);
        }
    }
}

impl Account {
    pub(crate) fn is_closed(&self) -> bool {
        let [accepted, finished, given_up] =
            [&self.accepted, &self.finished, &self.given_up].map(|count| count.load(Relaxed));
        accepted == finished + given_up
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [accepted, finished, shed, given_up, rate] =
            [&self.accepted, &self.finished, &self.shed, &self.given_up, &self.rate]
                .map(|count| count.load(Relaxed));
        write!(
            f,
            "accepted {accepted}, finished {finished}, shed {shed}, given up {given_up}, last second {rate}"
        )
    }
}
