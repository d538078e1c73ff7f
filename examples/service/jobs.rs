//! The jobs of the service, which arrive by `POST /jobs`, and their account.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use cmwq::{BuildQueueError, WorkQueue};
use sha2::{Digest, Sha512};
use tiny_http::{Header, Request, Response};

use crate::args::Args;

/// The longest accepted body, in bytes.
const MOST_BYTES: u64 = 16 << 20;
const MOST_ROUNDS: u64 = 10_000_000;

pub(crate) struct Jobs {
    /// The bound of this queue sheds load.
    queue: WorkQueue,
    /// Sends all other answers, so that the accepting thread never waits for a client.
    answers: WorkQueue,
    account: Arc<Account>,
}

/// The counts of the jobs.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) accepted: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) shed: AtomicU64,
    /// The number of jobs finished in the last second.
    pub(crate) rate: AtomicU64,
}

impl Jobs {
    pub(crate) fn new(args: &Args) -> Result<Self, BuildQueueError> {
        let queue = WorkQueue::builder("jobs")
            .max_active_total(args.active)
            .max_pending(args.pending)
            .control(true)
            .build()?;
        Ok(Self { queue, answers: WorkQueue::new("answers"), account: Arc::default() })
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Accepts a job, or sheds it.
    pub(crate) fn submit(&self, mut request: Request) {
        let shed = Arc::new(AtomicBool::new(false));
        let (is_shed, account) = (Arc::clone(&shed), Arc::clone(&self.account));
        let job = move || {
            if is_shed.load(Relaxed) {
                return busy(request);
            }
            let answer = work(&mut request);
            // The job is counted before the answer, so a client that has the answer finds it in the account.
            account.finished.fetch_add(1, Relaxed);
            respond(request, answer);
        };
        // The job is counted before it can be finished.
        self.account.accepted.fetch_add(1, Relaxed);
        if let Err(refused) = self.queue.spawn(job) {
            self.account.accepted.fetch_sub(1, Relaxed);
            self.account.shed.fetch_add(1, Relaxed);
            // The closure came back with the request in it.
            shed.store(true, Relaxed);
            self.detach(refused.into_closure());
        }
    }

    pub(crate) fn answer(&self, request: Request, status: u16, text: String) {
        self.answer_by(request, move || (status, text));
    }

    /// Sends an answer that takes a moment to make.
    pub(crate) fn answer_by(&self, request: Request, make: impl FnOnce() -> (u16, String) + Send + 'static) {
        self.detach(move || respond(request, make()));
    }

    /// Answers that the service is busy or about to end.
    pub(crate) fn refuse(&self, request: Request) {
        self.detach(move || busy(request));
    }

    fn detach(&self, answer: impl FnOnce() + Send + 'static) {
        // If this queue refuses the answer, the request is dropped, which closes the connection.
        drop(self.answers.spawn(answer));
    }
}

/// Returns 200 with the sum in hexadecimal, or an error of the request.
fn work(request: &mut Request) -> (u16, String) {
    let rounds = match rounds(request.url()) {
        Ok(rounds) => rounds,
        Err(message) => return (400, message),
    };
    // A slow client uses no CPU.
    let body = cmwq::blocking(|| read_body(request));
    match body {
        Err(error) => (400, format!("the body cannot be read: {error}\n")),
        Ok(body) if body.len() as u64 > MOST_BYTES => (413, format!("at most {MOST_BYTES} bytes\n")),
        Ok(body) => {
            let mut sum = Sha512::digest(&body);
            for _ in 1..rounds {
                sum = Sha512::digest(sum);
            }
            (200, sum.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect())
        }
    }
}

fn read_body(request: &mut Request) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    request.as_reader().take(MOST_BYTES + 1).read_to_end(&mut body)?;
    Ok(body)
}

/// Returns how often to hash: `/jobs?rounds=N`, 1 by default.
fn rounds(url: &str) -> Result<u64, String> {
    let Some((_, query)) = url.split_once('?') else { return Ok(1) };
    let number = query.strip_prefix("rounds=").and_then(|number| number.parse().ok());
    number
        .filter(|number| (1..=MOST_ROUNDS).contains(number))
        .ok_or(format!("{query:?} is not understood; use rounds=N, with N from 1 to {MOST_ROUNDS}\n"))
}

fn busy(request: Request) {
    let response = Response::from_string("busy, try again in a second\n").with_status_code(503);
    let retry = Header::from_bytes("Retry-After", "1").expect("it is a header");
    send(request, response.with_header(retry));
}

fn respond(request: Request, (status, text): (u16, String)) {
    send(request, Response::from_string(text).with_status_code(status));
}

fn send(request: Request, response: Response<impl Read>) {
    // Unread input of the client is read first, and the client may be slow. If it is gone, the error does not matter.
    let _ = cmwq::blocking(|| request.respond(response));
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [accepted, finished, shed, rate] =
            [&self.accepted, &self.finished, &self.shed, &self.rate].map(|count| count.load(Relaxed));
        write!(f, "accepted {accepted}, finished {finished}, shed {shed}, last second {rate}")
    }
}
