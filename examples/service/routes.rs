//! The requests, and the functions that answer them.

use std::sync::Arc;

use tiny_http::{Method, Request};

use crate::client::{Answer, Answers, Client};
use crate::hash;
use crate::jobs::Jobs;
use crate::observed::Observed;
use crate::tasks::Tasks;

const ABOUT: &str = "POST   /jobs            the SHA-512 of the body, in hexadecimal
POST   /jobs?rounds=N   the SHA-512 of that, and so on: N times
POST   /tasks?rounds=N  the same in the background: answers where the result will be
GET    /tasks/NUMBER    the result, or 202 if there is none yet
DELETE /tasks/NUMBER    asks the task to stop
GET    /health          answers, even under overload
GET    /stats           the counts of the jobs
GET    /metrics         numbers for Prometheus, if built with the feature metrics
";

pub(crate) struct Routes {
    pub(crate) jobs: Jobs,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) answers: Answers,
    pub(crate) observed: Observed,
}

impl Routes {
    /// Takes a request, without waiting for its client.
    pub(crate) fn take(&self, request: Request) {
        let (method, url) = (request.method().clone(), request.url().to_owned());
        let client = self.client(request);
        let path = url.split('?').next().unwrap_or_default();
        match (method, path) {
            (Method::Post, "/jobs") => self.jobs.submit(client, &url),
            (Method::Post, "/tasks") => self.start_task(client, &url),
            (Method::Get, "/") => self.answers.send(client, 200, ABOUT),
            (Method::Get, "/health") => self.answers.send(client, 200, "healthy\n"),
            (Method::Get, "/stats") => self.answers.send(client, 200, format!("{}\n", self.jobs.account())),
            (Method::Get, "/metrics") => match self.observed.metrics() {
                Some(text) => self.answers.send_by(client, move || Answer::new(200, text())),
                None => self.answers.send(client, 404, "this was built without the feature metrics\n"),
            },
            (_, "/" | "/jobs" | "/tasks" | "/health" | "/stats" | "/metrics") => {
                self.answers.send(client, 405, ABOUT);
            }
            (method, path) => self.task(client, &method, path),
        }
    }

    /// Tells the client that the service is busy, without waiting for the client.
    pub(crate) fn refuse(&self, request: Request) {
        drop(self.client(request));
    }

    fn client(&self, request: Request) -> Client {
        Client::new(request, self.answers.clone())
    }

    fn start_task(&self, client: Client, url: &str) {
        let rounds = match hash::rounds(url) {
            Ok(rounds) => rounds,
            Err(message) => return self.answers.send(client, 400, message),
        };
        // The permit reserves a place before the body is read, so that an accepted task has a place.
        let Ok(permit) = self.tasks.reserve() else { return drop(client) };
        let tasks = Arc::clone(&self.tasks);
        self.answers.send_by_body(client, move |body| tasks.start(permit, body, rounds));
    }

    /// Answers a request for a task by its number.
    fn task(&self, client: Client, method: &Method, path: &str) {
        let number = path.strip_prefix("/tasks/").and_then(|number| number.parse().ok());
        let answer = number.and_then(|number| match method {
            Method::Get => self.tasks.result(number),
            Method::Delete => self.tasks.stop(number),
            _ => Some(Answer::new(405, ABOUT)),
        });
        let answer = answer.unwrap_or_else(|| Answer::new(404, ABOUT));
        self.answers.send_by(client, move || answer);
    }
}
