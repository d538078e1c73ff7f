//! The thread that sends requests to the process and receives the answers, so that the handling of keys never waits for
//! an answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::control::{Attribute, Client, ClientError, Hello};

use super::Event;
use super::rows::Sample;

/// A message from this thread to the view.
#[derive(Debug)]
pub(crate) enum News {
    Sampled(Box<Sample>),
    /// The connection works again.
    Connected(Hello),
    Lost(String),
    Answered {
        queue: String,
        attribute: Attribute,
        answer: Result<String, String>,
    },
}

/// A change that the user wants.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) queue: String,
    pub(crate) attribute: Attribute,
    pub(crate) value: String,
}

/// Starts the thread. The thread ends when the sender of changes or the receiver of news is dropped.
pub(crate) fn start(
    client: Client,
    interval: Duration,
    news: Sender<Event>,
) -> std::io::Result<Sender<Change>> {
    let (changes, wanted) = channel();
    let source = Source { client, interval, news, lost: false };
    thread::Builder::new().name("cmwqctl/source".into()).spawn(move || source.run(&wanted))?;
    Ok(changes)
}

struct Source {
    client: Client,
    interval: Duration,
    news: Sender<Event>,
    lost: bool,
}

impl Source {
    fn run(mut self, wanted: &Receiver<Change>) {
        let _ended = Ended(self.news.clone());
        let mut due = Instant::now();
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            let heard = match wanted.recv_timeout(wait) {
                // A sample is taken immediately, so that the view shows the new value.
                Ok(change) => self.change(change).and_then(|()| self.sample()),
                Err(RecvTimeoutError::Timeout) => {
                    let heard = self.sample();
                    due = Instant::now() + self.interval;
                    heard
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if heard.is_none() {
                return;
            }
        }
    }

    /// Sends news to the view. Returns `None` if the receiver is gone.
    fn tell(&self, news: News) -> Option<()> {
        self.news.send(Event::News(news)).ok()
    }

    /// Takes a sample. If the connection is lost, each sample that is due sends a request first, with which the client
    /// tries to connect again.
    fn sample(&mut self) -> Option<()> {
        if self.lost {
            match self.client.hello() {
                Ok(hello) => self.tell(News::Connected(hello))?,
                Err(error) => return self.tell(News::Lost(error.to_string())),
            }
            self.lost = false;
        }
        match self.client.dump() {
            Ok(snapshot) => self.tell(News::Sampled(Box::new(Sample { at: Instant::now(), snapshot }))),
            Err(error) => {
                self.lost = true;
                self.tell(News::Lost(error.to_string()))
            }
        }
    }

    fn change(&mut self, change: Change) -> Option<()> {
        let Change { queue, attribute, value } = change;
        let answer = self.client.set(&queue, attribute, &value).map_err(|error| {
            self.lost |= !matches!(error, ClientError::Answer(_) | ClientError::TooLong { .. });
            error.to_string()
        });
        self.tell(News::Answered { queue, attribute, answer })
    }
}

/// Ends the view when this thread ends, even if it panics.
struct Ended(Sender<Event>);

impl Drop for Ended {
    fn drop(&mut self) {
        // If the view has already ended, there is no receiver.
        let _ = self.0.send(Event::End);
    }
}
