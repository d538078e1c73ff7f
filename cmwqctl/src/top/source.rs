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

/// Starts the thread. The thread ends when the sender of changes or the receiver of news is dropped. `pid` is the
/// process that has answered the client.
pub(crate) fn start(
    client: Client,
    pid: u32,
    interval: Duration,
    news: Sender<Event>,
) -> std::io::Result<Sender<Change>> {
    let (changes, wanted) = channel();
    let source = Source { client, pid, interval, news, lost: false };
    thread::Builder::new().name("cmwqctl/source".into()).spawn(move || source.run(&wanted))?;
    Ok(changes)
}

struct Source {
    client: Client,
    /// The process that has answered last. The client connects again by itself, perhaps to another process that serves
    /// the same socket.
    pid: u32,
    interval: Duration,
    news: Sender<Event>,
    lost: bool,
}

impl Source {
    fn run(mut self, wanted: &Receiver<Change>) {
        let _watch = PanicWatch(self.news.clone());
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
        if self.lost && !self.meet()? {
            return Some(());
        }
        let snapshot = match self.client.dump() {
            Ok(snapshot) => snapshot,
            Err(error) => return self.lose(&error),
        };
        let at = Instant::now();
        if snapshot.pid != self.pid {
            self.meet()?;
        }
        // If the process has changed once more, the snapshot belongs to a process that is gone.
        if snapshot.pid != self.pid {
            return Some(());
        }
        self.tell(News::Sampled(Box::new(Sample { at, snapshot })))
    }

    /// Asks which process serves the socket, and tells the view. Returns whether a process has answered.
    fn meet(&mut self) -> Option<bool> {
        match self.client.hello() {
            Ok(hello) => {
                (self.pid, self.lost) = (hello.pid, false);
                self.tell(News::Connected(hello))?;
                Some(true)
            }
            Err(error) => {
                self.lose(&error)?;
                Some(false)
            }
        }
    }

    fn lose(&mut self, error: &ClientError) -> Option<()> {
        self.lost = true;
        self.tell(News::Lost(error.to_string()))
    }

    /// Changes an attribute, unless another process serves the socket. Queues of that process may have the same names.
    fn change(&mut self, change: Change) -> Option<()> {
        let Change { queue, attribute, value } = change;
        let known = self.pid;
        let answer = if !self.meet()? {
            Err("the connection is lost: nothing was changed".into())
        } else if self.pid != known {
            Err("another process serves the socket: nothing was changed".into())
        } else {
            self.client.set(&queue, attribute, &value).map_err(|error| {
                self.lost |= !matches!(error, ClientError::Answer(_) | ClientError::TooLong { .. });
                error.to_string()
            })
        };
        self.tell(News::Answered { queue, attribute, answer })
    }
}

/// Ends the view if this thread panics.
struct PanicWatch(Sender<Event>);

impl Drop for PanicWatch {
    fn drop(&mut self) {
        if thread::panicking() {
            // If the view has already ended, there is no receiver.
            let _ = self.0.send(Event::Panicked);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;

    /// A server that answers the first connection with the first texts, the second one with the second texts, and so
    /// on. It closes a connection after its last text.
    struct Server {
        path: PathBuf,
        closed: Receiver<()>,
    }

    impl Server {
        fn new(connections: Vec<Vec<Value>>) -> Self {
            let path = std::env::temp_dir().join(format!("cmwqctl-source-{}", std::process::id()));
            let listener = UnixListener::bind(&path).unwrap();
            let (tell, closed) = channel();
            thread::spawn(move || {
                for answers in connections {
                    let (mut stream, _) = listener.accept().unwrap();
                    for answer in answers {
                        BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                        stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
                    }
                    drop(stream);
                    tell.send(()).unwrap();
                }
            });
            Self { path, closed }
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            std::fs::remove_file(&self.path).unwrap();
        }
    }

    fn hello(pid: u32) -> Value {
        json!({ "ok": { "protocol": 1, "pid": pid, "program": "", "prefix": "", "crate_version": "0.1.0" } })
    }

    fn dump(pid: u32) -> Value {
        let mut snapshot: Value = serde_json::from_str(include_str!("tests/sample_1.json")).unwrap();
        snapshot["pid"] = pid.into();
        json!({ "ok": snapshot })
    }

    fn told(events: &Receiver<Event>) -> Vec<String> {
        let text = |event| match event {
            Event::News(News::Connected(hello)) => format!("connected {}", hello.pid),
            Event::News(News::Sampled(sample)) => format!("sampled {}", sample.snapshot.pid),
            Event::News(News::Answered { answer: Err(text), .. }) => text,
            other => format!("{other:?}"),
        };
        events.try_iter().map(text).collect()
    }

    /// A client connects again without a failed request, so only the answers tell which process has the socket.
    #[test]
    fn another_process_on_the_socket_is_noticed_between_samples_and_before_a_change() {
        let server = Server::new(vec![vec![dump(1)], vec![dump(2), hello(2)], vec![hello(3), dump(3)]]);
        let (news, events) = channel();
        let client = Client::connect(&server.path).unwrap();
        let mut source = Source { client, pid: 1, interval: Duration::ZERO, news, lost: false };
        source.sample().unwrap();
        assert_eq!(told(&events), ["sampled 1"]);
        server.closed.recv().unwrap();
        source.sample().unwrap();
        assert_eq!(told(&events), ["connected 2", "sampled 2"]);
        server.closed.recv().unwrap();
        let change = Change { queue: "mail".into(), attribute: Attribute::Nice, value: "1".into() };
        source.change(change).unwrap();
        source.sample().unwrap();
        let refused = "another process serves the socket: nothing was changed";
        assert_eq!(told(&events), ["connected 3", refused, "sampled 3"]);
    }

    #[test]
    fn the_view_is_told_of_a_panic() {
        let (news, events) = channel();
        let watched = |panics: bool| {
            let watch = PanicWatch(news.clone());
            thread::spawn(move || {
                let _watch = watch;
                assert!(!panics, "on purpose");
            })
        };
        watched(false).join().unwrap();
        assert!(events.try_recv().is_err());
        watched(true).join().unwrap_err();
        assert!(matches!(events.try_recv(), Ok(Event::Panicked)));
    }
}
