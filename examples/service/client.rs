//! Clients. Each client gets an answer in any case.
//!
//! A client may announce a body and then withhold it, and the HTTP library has no timeouts. Even an answer may wait for
//! such a client: the library sends the response, and then reads the rest of the announced body. So the answers to
//! clients that announce a body have a queue of their own. An item of the queue `answers` waits only for a client that
//! does not read its answers, or for an earlier answer on the same connection.
//!
//! Both queues belong to a second executor. So they still accept items while the executor of the jobs shuts down, and
//! after that. The clients of the jobs that the shutdown drops are answered there.

use std::io::{self, Read};
use std::time::Instant;

use cmwq::{BuildQueueError, Executor, WorkQueue};
use tiny_http::{Header, Request, Response};

use crate::hash::MOST_BYTES;

/// The number of items of the queue `bodies` that may wait for a client at a time.
const MOST_BODIES: usize = 64;

/// A client that waits for its answer. If this value is dropped unanswered, the answer is 503 with `Retry-After`. So
/// the client gets an answer even if its item is refused, comes too late, or is dropped by a shutdown.
pub(crate) struct Client {
    /// The request, or `None` when it is answered.
    request: Option<Request>,
    /// The queues of the answers, one of which sends 503 if this value is dropped unanswered.
    answers: Answers,
}

pub(crate) struct Answer {
    status: u16,
    text: String,
    location: Option<String>,
}

impl Answer {
    pub(crate) fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), location: None }
    }

    /// Makes the answer to an accepted request. The client will find the result at this path.
    pub(crate) fn later(location: String) -> Self {
        Self { status: 202, text: format!("{location}\n"), location: Some(location) }
    }
}

impl Client {
    pub(crate) fn new(request: Request, answers: Answers) -> Self {
        Self { request: Some(request), answers }
    }

    /// Reads the body under a guard, because the client may be slow. The wait has no limit.
    pub(crate) fn read_body(&mut self) -> Result<Vec<u8>, Answer> {
        let body = cmwq::blocking(|| {
            let mut body = Vec::new();
            let request = self.request.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            request.as_reader().take(MOST_BYTES + 1).read_to_end(&mut body).map(|_| body)
        });
        match body {
            Err(error) => Err(Answer::new(400, format!("the body cannot be read: {error}\n"))),
            Ok(body) if body.len() as u64 > MOST_BYTES => {
                Err(Answer::new(413, format!("at most {MOST_BYTES} bytes\n")))
            }
            Ok(body) => Ok(body),
        }
    }

    pub(crate) fn answer(mut self, answer: Answer) {
        let Some(request) = self.request.take() else { return };
        let mut response = Response::from_string(answer.text).with_status_code(answer.status);
        if let Some(location) = answer.location {
            response.add_header(header("Location", &location));
        }
        send(request, response);
    }
}

impl Drop for Client {
    /// Queues the answer, because the thread that drops a client must not wait for it. The accepting thread drops
    /// clients, and at the end of the grace period, the main thread drops the jobs that have not begun.
    fn drop(&mut self) {
        let queue = self.answers.queue_for(self.request.as_ref());
        if let Some(request) = self.request.take() {
            // Nothing shuts the second executor down, so the queue accepts the item.
            drop(queue.spawn_detached(move || send_busy(request)));
        }
    }
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("it is a header")
}

fn send_busy(request: Request) {
    let response = Response::from_string("busy, try again in a second\n").with_status_code(503);
    send(request, response.with_header(header("Retry-After", "1")));
}

fn send(request: Request, response: Response<impl Read>) {
    // This call sends the response, and then reads the rest of an announced body. The client may withhold this rest. If
    // the client is gone, the error does not matter.
    let _ = cmwq::blocking(|| request.respond(response));
}

/// Sends the answers that no job sends. Items send them, so the accepting thread never waits for a client.
#[derive(Clone)]
pub(crate) struct Answers {
    /// The queue `answers`, for clients that announce no body.
    prompt: WorkQueue,
    /// The queue `bodies`, whose items may wait for a body. An item whose client withholds its body holds one of the
    /// queue's places until the client goes away.
    bodies: WorkQueue,
}

impl Answers {
    /// Makes the queues. They have no `max_pending`, so they refuse no item.
    pub(crate) fn new(executor: &Executor) -> Result<Self, BuildQueueError> {
        // The system prefers workers of high priority to the workers that compute, if it permits a negative nice level.
        let prompt = WorkQueue::builder("answers").high_priority(true).build_on(executor)?;
        let bodies = WorkQueue::unbound("bodies").max_active_total(MOST_BODIES).build_on(executor)?;
        Ok(Self { prompt, bodies })
    }

    pub(crate) fn send(&self, client: Client, status: u16, text: impl Into<String>) {
        let answer = Answer::new(status, text);
        self.send_by(client, move || answer);
    }

    /// Sends an answer that takes a moment to make.
    pub(crate) fn send_by(&self, client: Client, make: impl FnOnce() -> Answer + Send + 'static) {
        let queue = self.queue_for(client.request.as_ref());
        drop(queue.spawn_detached(move || client.answer(make())));
    }

    /// Reads the client's body, and sends the answer that `make` makes from it.
    pub(crate) fn send_by_body(
        &self,
        mut client: Client,
        make: impl FnOnce(Vec<u8>) -> Answer + Send + 'static,
    ) {
        let item = move || {
            let answer = client.read_body().map_or_else(|answer| answer, make);
            client.answer(answer);
        };
        drop(self.bodies.spawn_detached(item));
    }

    /// Returns the queue for the answer to this request. If the request announces a body of a known length, the library
    /// reads the rest of the body after the answer. It does not read the rest of a body of unknown length. It usually
    /// reads a body of at most 1024 bytes before it delivers the request, so such a body has no rest.
    fn queue_for(&self, request: Option<&Request>) -> &WorkQueue {
        let length = request.and_then(Request::body_length).unwrap_or(0);
        if length > 0 { &self.bodies } else { &self.prompt }
    }

    /// Waits until both queues are idle, or until this time.
    ///
    /// The service does not shut the second executor down. At the end of its time, a shutdown would drop the requests
    /// that wait, and the drop of a request waits for its body, too.
    pub(crate) fn wait_until(&self, end: Instant) {
        for queue in [&self.prompt, &self.bodies] {
            let _idle_or_late = queue.wait_idle_timeout(end.saturating_duration_since(Instant::now()));
        }
    }
}
