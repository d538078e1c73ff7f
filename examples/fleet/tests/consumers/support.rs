//! The consumers, and a Redis server for each test.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redis::{Connection, cmd};
use rustix::process::{Pid, Signal, kill_process};
use testkit::{output, polled, wait};

/// A time limit. Even on a busy machine, each of these tests takes less time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A Redis server with its own folder. It writes each command to the disk before it answers.
pub(crate) struct Server {
    folder: PathBuf,
    process: Child,
}

impl Server {
    /// Starts a server, or returns `None` if there is no `redis-server`, so that the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            testkit::skip("no-redis", "there is no redis-server");
            return None;
        }
        // The name is short, because the length of a socket's path is limited.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("fleet-{}-{number}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let process = Self::run(&folder);
        let server = Self { folder, process };
        server.connect();
        Some(server)
    }

    fn run(folder: &PathBuf) -> Child {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--unixsocket", "socket", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        command.current_dir(folder).stdout(Stdio::null()).spawn().expect("it can be run")
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.folder.join("socket").display())
    }

    /// Waits until the server answers.
    pub(crate) fn connect(&self) -> Connection {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = None;
        eventually("the server answers", || {
            connection = client
                .get_connection()
                .ok()
                .and_then(|mut redis| cmd("PING").exec(&mut redis).is_ok().then_some(redis));
            connection.is_some()
        });
        connection.expect("it was looked for")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("it is there");
    }

    /// Kills the server, and starts it again after `time`.
    pub(crate) fn go_away(&mut self, time: Duration) {
        self.process.kill().expect("it is there");
        self.process.wait().expect("it ends");
        thread::sleep(time);
        self.process = Self::run(&self.folder);
        self.connect();
    }

    /// Runs `fleet add` or `fleet status` to its end, and returns what it prints.
    pub(crate) fn fleet(&self, arguments: &[&str]) -> String {
        let (action, options) = arguments.split_first().expect("an action");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleet"));
        let output = output(command.args([action, "--redis", &self.url()]).args(options)).expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Adds jobs with names from this range.
    pub(crate) fn add(&self, names: std::ops::Range<usize>, options: &[&str]) {
        let names: Vec<String> = names.map(|name| name.to_string()).collect();
        let mut arguments = vec!["add"];
        arguments.extend(options);
        arguments.extend(names.iter().map(String::as_str));
        assert_eq!(self.fleet(&arguments), format!("added {}\n", names.len()));
    }

    /// Starts a consumer with this name and these further options.
    pub(crate) fn work(&self, name: &str, options: &[&str]) -> Consumer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleet"));
        command.args(["work", "--redis", &self.url(), "--name", name]).args(options);
        let mut process = command.stderr(Stdio::piped()).spawn().expect("it can be run");
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let reader = {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                lines.map_while(Result::ok).for_each(|line| said.lock().expect("no panic").push(line));
            })
        };
        Consumer { name: name.into(), process, said, reader: Some(reader) }
    }

    /// Returns the number of results of each name.
    pub(crate) fn results(&self) -> BTreeMap<String, usize> {
        let mut results = BTreeMap::new();
        for (_, fields) in self.entries("results") {
            let field = |at: usize| fields[at].clone();
            assert_eq!((field(0), field(2)), ("name".into(), "result".into()));
            assert_eq!(field(3).len(), 128, "a SHA-512 in hexadecimal: {fields:?}");
            *results.entry(field(1)).or_default() += 1;
        }
        results
    }

    /// Returns the identifier and the fields of each entry of a stream.
    pub(crate) fn entries(&self, stream: &str) -> Vec<(String, Vec<String>)> {
        let mut range = cmd("XRANGE");
        range
            .arg(format!("{{fleet}}:{stream}"))
            .arg("-")
            .arg("+")
            .query(&mut self.connect())
            .expect("entries")
    }

    /// Returns the number of jobs that each consumer has in hand, according to Redis.
    pub(crate) fn in_hand(&self) -> BTreeMap<String, usize> {
        let status = self.fleet(&["status"]);
        let line = |line: &str| {
            let (consumer, jobs) = line.rsplit_once(": in hand ").expect("a line of a consumer");
            (consumer.to_owned(), jobs.parse().expect("a number"))
        };
        status.lines().skip(1).map(line).collect()
    }

    /// Waits until each of these names has a result. Then asserts that every job is acknowledged, and has one result.
    pub(crate) fn assert_all_stored_once(&self, names: usize) {
        eventually(&format!("{names} names have results"), || self.results().len() == names);
        // The last jobs may still be running for a second time.
        let done = format!("waiting 0, in hand 0, stored {names}, set aside 0\n");
        eventually(&format!("{done:?} is the status"), || self.fleet(&["status"]) == done);
        let doubled: Vec<_> = self.results().into_iter().filter(|(_, results)| *results != 1).collect();
        assert!(doubled.is_empty(), "{doubled:?}");
        assert!((0..names).all(|name| self.results_has(name)), "lost");
    }

    fn results_has(&self, name: usize) -> bool {
        let mut is_member = cmd("SISMEMBER");
        is_member.arg("{fleet}:names").arg(name.to_string()).query(&mut self.connect()).expect("an answer")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _status = self.process.wait();
        let _best_effort = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) struct Consumer {
    pub(crate) name: String,
    process: Child,
    said: Arc<Mutex<Vec<String>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Consumer {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("it is there");
    }

    /// Kills the process, and returns the lines that it has printed.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().expect("it is there");
        self.end().1
    }

    /// Asks the process to end, and returns its status and the lines that it has printed.
    pub(crate) fn terminate(mut self) -> (ExitStatus, Vec<String>) {
        self.signal(Signal::TERM);
        self.end()
    }

    fn end(&mut self) -> (ExitStatus, Vec<String>) {
        let status = wait(&mut self.process, PATIENCE).expect("it ends");
        self.reader.take().expect("it ends once").join().expect("it reads to the end");
        (status, self.said())
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().expect("no panic").clone()
    }

    pub(crate) fn has_said(&self, words: &str) -> bool {
        self.said().iter().any(|line| line.contains(words))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Checks the condition repeatedly until it holds.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(polled(Duration::from_millis(20), PATIENCE, condition), "this never happened: {what}");
}
