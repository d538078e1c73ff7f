//! Clients. Each client gets an answer in any case.

use std::io::{self, Read};

use cmwq::{BuildQueueError, WorkQueue};
use tiny_http::{Header, Request, Response};

use crate::hash::MOST_BYTES;

/// A client that waits for its answer. If this value is dropped unanswered, the answer is 503 with `Retry-After`. So
/// the client gets an answer even if its item is refused, comes too late, or is dropped by a shutdown.
pub(crate) struct Client {
    /// The request, or `None` when it is answered.
    request: Option<Request>,
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
    pub(crate) fn new(request: Request) -> Self {
        Self { request: Some(request) }
    }

    /// Reads the body under a guard, because the client may be slow.
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
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let response = Response::from_string("busy, try again in a second\n").with_status_code(503);
        send(request, response.with_header(header("Retry-After", "1")));
    }
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("it is a header")
}

fn send(request: Request, response: Response<impl Read>) {
    // This call first reads the remaining part of the request, and the client may be slow. If the client is gone, the
    // error does not matter.
    let _ = cmwq::blocking(|| request.respond(response));
}

/// Sends the answers that need no job. Items send them, so the accepting thread never waits for a client.
#[derive(Clone)]
pub(crate) struct Answers(WorkQueue);

impl Answers {
    pub(crate) fn new() -> Result<Self, BuildQueueError> {
        // Queues of high priority have pools of their own. So a health check does not stand in line behind jobs.
        WorkQueue::builder("answers").high_priority(true).build().map(Self)
    }

    pub(crate) fn send(&self, client: Client, status: u16, text: impl Into<String>) {
        let answer = Answer::new(status, text);
        self.detach(move || client.answer(answer));
    }

    /// Sends an answer that takes a moment to make.
    pub(crate) fn send_by(
        &self,
        mut client: Client,
        make: impl FnOnce(&mut Client) -> Answer + Send + 'static,
    ) {
        self.detach(move || {
            let answer = make(&mut client);
            client.answer(answer);
        });
    }

    /// Drops a value that holds a client, which tells the client that the service is busy.
    pub(crate) fn refuse(&self, client: impl Send + 'static) {
        self.detach(move || drop(client));
    }

    fn detach(&self, answer: impl FnOnce() + Send + 'static) {
        // If this queue refuses the item, the client is dropped here.
        drop(self.0.spawn_detached(answer));
    }
}
