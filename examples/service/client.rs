//! Clients. Each client gets an answer in any case.
//!
//! A client may announce a body and then withhold it, and the HTTP library has no timeouts. Even an answer may wait for
//! such a client: the library sends the response, and then reads the rest of the announced body. So the answers to
//! clients that announce a body have a queue of their own. An item of the queue `answers` waits only for a client that
//! does not read its answers, or for an earlier answer on the same connection.

use std::io::{self, Read};
use std::sync::mpsc::Sender;
use std::thread;

use cmwq::{BuildQueueError, WorkQueue};
use tiny_http::{Header, Request, Response};

use crate::hash::MOST_BYTES;

/// The number of items of the queue `bodies` that may wait for a client at a time.
const MOST_BODIES: usize = 64;

/// A client that waits for its answer. If this value is dropped unanswered, the answer is 503 with `Retry-After`. So
/// the client gets an answer even if its item is refused, comes too late, or is dropped by a shutdown.
pub(crate) struct Client {
    /// The request, or `None` when it is answered.
    request: Option<Request>,
    /// A sender that is dropped after the answer. At the end, the service waits until the last sender is dropped, for a
    /// second at most.
    unanswered: Sender<()>,
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
    pub(crate) fn new(request: Request, unanswered: Sender<()>) -> Self {
        Self { request: Some(request), unanswered }
    }

    /// Returns whether the client announces a body of a known length. After the answer to such a client, the library
    /// reads the rest of the body. It does not read the rest of a body of unknown length.
    fn announces_body(&self) -> bool {
        self.request.as_ref().and_then(Request::body_length).is_some_and(|length| length > 0)
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

    /// Tells the client that the service is busy.
    fn refuse(mut self) {
        if let Some(request) = self.request.take() {
            send_busy(request);
        }
    }
}

impl Drop for Client {
    /// Answers on a new thread, because the thread that drops an item must not wait for a client. At the end of the
    /// grace period, the main thread drops the items that have not begun.
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let unanswered = self.unanswered.clone();
        let answer = move || {
            send_busy(request);
            drop(unanswered);
        };
        // If the system refuses the thread, the request is dropped here, and the library answers 500.
        drop(thread::Builder::new().spawn(answer));
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

/// Sends the answers that need no job. Items send them, so the accepting thread never waits for a client.
#[derive(Clone)]
pub(crate) struct Answers {
    /// The queue `answers`, for clients that announce no body.
    prompt: WorkQueue,
    /// The queue `bodies`, whose items may wait for a body. An item whose client withholds its body holds one of the
    /// queue's places until the client goes away.
    bodies: WorkQueue,
}

impl Answers {
    pub(crate) fn new() -> Result<Self, BuildQueueError> {
        // Queues of high priority have pools of their own. So a health check does not stand in line behind jobs.
        let prompt = WorkQueue::builder("answers").high_priority(true).build()?;
        // The queue has no `max_pending`, so it refuses no item. A refused item would drop its client, and the client's
        // destructor would need a thread.
        let bodies = WorkQueue::unbound("bodies").max_active_total(MOST_BODIES).build()?;
        Ok(Self { prompt, bodies })
    }

    pub(crate) fn send(&self, client: Client, status: u16, text: impl Into<String>) {
        let answer = Answer::new(status, text);
        self.send_by(client, move || answer);
    }

    /// Sends an answer that takes a moment to make.
    pub(crate) fn send_by(&self, client: Client, make: impl FnOnce() -> Answer + Send + 'static) {
        self.detach(client, move |client| client.answer(make()));
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
        // If the executor is shut down, the queue refuses the item, and the client is dropped here.
        drop(self.bodies.spawn_detached(item));
    }

    /// Tells the client that the service is busy.
    pub(crate) fn refuse(&self, client: Client) {
        self.detach(client, Client::refuse);
    }

    fn detach(&self, client: Client, answer: impl FnOnce(Client) + Send + 'static) {
        let queue = if client.announces_body() { &self.bodies } else { &self.prompt };
        // If the executor is shut down, the queue refuses the item, and the client is dropped here.
        drop(queue.spawn_detached(move || answer(client)));
    }
}
