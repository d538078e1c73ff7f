//! Tests the service over HTTP. Some files are pipes, so a test decides when their readers continue.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha512};
use testkit::{output, polled, wait};

/// A time limit. Even on a busy machine, each of these tests takes less time.
const PATIENCE: Duration = Duration::from_secs(120);

/// The running service, and the folder of its files.
struct Service {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
    folder: PathBuf,
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("axum-{}-{number}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        fs::write(folder.join("plain"), "a plain file").expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_axum-service"));
        command.arg("--files").arg(&folder).args(arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the service prints its address");
        let address = line.trim_end().strip_prefix("listening on http://").expect("an address").to_owned();
        Self { process, output, address, folder }
    }

    /// Sends a request, and returns the connection.
    fn send(&self, line: &str, body: &str) -> io::Result<TcpStream> {
        let mut connection = TcpStream::connect(&self.address)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        write!(
            connection,
            "{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        Ok(connection)
    }

    /// Sends a request on its own connection. Returns status, header fields and body.
    fn ask(&self, line: &str, body: &str) -> (u16, String, String) {
        answer(self.send(line, body).expect("it listens")).expect("an answer")
    }

    fn status(&self, line: &str) -> u16 {
        self.ask(line, "").0
    }

    /// Makes a pipe, whose readers wait until the test writes to it.
    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a new pipe");
        path
    }

    /// Returns a metric of the queue, such as `items_started_total`.
    fn count(&self, what: &str, queue: &str) -> u64 {
        let name = format!("cmwq_{what}{{executor=\"cmwq\",queue=\"{queue}\"}} ");
        let (status, _, text) = self.ask("GET /metrics", "");
        assert_eq!(status, 200);
        let value = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
        value.parse().expect("a number")
    }

    /// Asks for a pipe, and waits until the item for it has begun.
    fn begin_reading(&self, name: &str) -> TcpStream {
        let before = self.count("items_started_total", "files");
        let request = self.send(&format!("GET /files/{name}"), "").expect("it listens");
        eventually("the item begins", || self.count("items_started_total", "files") == before + 1);
        request
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("it is there");
    }

    /// Waits for the end of the service, and returns its status and its remaining output.
    fn end(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.process, PATIENCE).expect("it ends");
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("its output ends with it");
        (status, text)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _status = self.process.wait();
        let _best_effort = fs::remove_dir_all(&self.folder);
    }
}

fn answer(mut connection: TcpStream) -> io::Result<(u16, String, String)> {
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, head.to_lowercase(), body.to_owned()))
}

fn sum_of(body: &str, rounds: usize) -> String {
    let mut sum = Sha512::digest(body);
    for _ in 1..rounds {
        sum = Sha512::digest(sum);
    }
    sum.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect()
}

/// Waits for a reader of the pipe, and writes the text for the reader.
#[track_caller]
fn fill(pipe: &Path, text: &str) {
    let mut open = OpenOptions::new();
    open.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut writer = None;
    eventually("the service reads", || {
        // Opening the pipe fails as long as it has no reader.
        writer = open.open(pipe).ok();
        writer.is_some()
    });
    writer.expect("it was looked for").write_all(text.as_bytes()).expect("written");
}

#[track_caller]
fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(polled(Duration::from_millis(10), PATIENCE, condition), "this never happened: {what}");
}

/// spec: I1.8
#[test]
fn the_service_answers_requests() {
    let service = Service::start(&[]);
    for _ in 0..2 {
        let (status, _, body) = service.ask("POST /hash", "abc");
        assert_eq!((status, body), (200, sum_of("abc", 1)));
    }
    let long = "0123456789abcdef".repeat(10_000);
    assert_eq!(service.ask("POST /hash?rounds=3", &long).2, sum_of(&long, 3));
    assert_eq!(service.ask("GET /files/plain", "").2, "a plain file");
    assert_eq!(service.ask("GET /health", "").2, "healthy\n");
    fs::create_dir(service.folder.join("folder")).expect("made");
    fs::write(service.folder.join("long"), vec![b'x'; (16 << 20) + 1]).expect("written");
    for (line, status) in [
        ("POST /hash?rounds=0", 400),
        ("POST /hash?rounds=many", 400),
        ("GET /hash", 405),
        ("GET /nothing", 404),
        ("GET /files/nothing", 404),
        ("GET /files/folder", 404),
        ("GET /files/long", 500),
        ("GET /files/..", 400),
        ("GET /files/..%2F..%2Fetc%2Fpasswd", 400),
        ("GET /files/%2Fetc%2Fpasswd", 400),
    ] {
        assert_eq!(service.status(line), status, "{line}");
    }
    let (status, ..) = service.ask("POST /hash", &"x".repeat((16 << 20) + 1));
    assert_eq!(status, 413);
    assert_eq!(
        (service.count("items_started_total", "hashes"), service.count("items_started_total", "files")),
        (3, 4)
    );
    service.terminate();
    let (status, text) = service.end();
    assert!(status.success(), "{text}");
}

/// spec: I1.8: a request that finds no room gets 503: immediately for a hash, and after its patience for a file.
#[test]
fn requests_beyond_the_bound_are_shed() {
    let service = Service::start(&["--active", "1", "--pending", "1", "--patience", "0.2"]);
    // A request whose body is not complete holds the only place. The service asks for the body when the request has the
    // place.
    let mut slow = TcpStream::connect(&service.address).expect("it listens");
    let head =
        "POST /hash HTTP/1.1\r\nHost: test\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 9";
    write!(slow, "{head}\r\n\r\n").expect("sent");
    let expected = "HTTP/1.1 100 Continue\r\n\r\n";
    let mut goes_on = vec![0; expected.len()];
    slow.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    slow.read_exact(&mut goes_on).expect("the service asks for the body");
    assert_eq!(String::from_utf8_lossy(&goes_on), expected);
    write!(slow, "to be").expect("sent");
    let (status, head, _) = service.ask("POST /hash", "abc");
    assert!(status == 503 && head.contains("\r\nretry-after: 1"), "{head}");
    write!(slow, " bee").expect("sent");
    assert_eq!(answer(slow).expect("an answer").2, sum_of("to be bee", 1));
    assert_eq!(service.status("POST /hash"), 200);

    // One file is read, and another request waits.
    let [first, second] = ["first", "second"].map(|name| service.pipe(name));
    let reads = service.begin_reading("first");
    let waits = service.send("GET /files/second", "").expect("it listens");
    eventually("it waits", || service.count("queue_items", "files") == 2);
    let (status, head, _) = service.ask("GET /files/plain", "");
    assert!(status == 503 && head.contains("\r\nretry-after: 1"), "{head}");
    // Each kind of work has its own bound.
    assert_eq!(service.status("POST /hash"), 200);
    fill(&first, "one");
    fill(&second, "two");
    assert_eq!(answer(reads).expect("an answer").2, "one");
    assert_eq!(answer(waits).expect("an answer").2, "two");
    assert_eq!(service.status("GET /files/plain"), 200);
}

/// spec: I1.8: a request for a file waits for room.
#[test]
fn a_request_waits_for_room_while_it_has_patience() {
    let service = Service::start(&["--active", "1", "--pending", "1", "--patience", "100"]);
    let pipes = ["first", "second"].map(|name| service.pipe(name));
    let reads = service.begin_reading("first");
    let _waits = service.send("GET /files/second", "").expect("it listens");
    eventually("it has the place", || service.count("queue_items", "files") == 2);
    let third = service.send("GET /files/plain", "").expect("it listens");
    sleep(Duration::from_millis(200));
    pipes.iter().for_each(|pipe| fill(pipe, ""));
    assert_eq!(answer(reads).expect("an answer").0, 200);
    assert_eq!(answer(third).expect("an answer").2, "a plain file");
}

/// spec: I1.8: while all CPUs compute and many requests are shed, the service still says that it is healthy.
#[test]
fn the_service_stays_healthy_under_overload() {
    let service = Service::start(&["--pending", "4"]);
    let (over, shed, done) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let client = || {
        while !over.load(Ordering::SeqCst) {
            match service.ask("POST /hash?rounds=50000", "work").0 {
                200 => done.fetch_add(1, Ordering::SeqCst),
                503 => {
                    sleep(Duration::from_millis(5));
                    shed.fetch_add(1, Ordering::SeqCst)
                }
                status => panic!("{status}"),
            };
        }
    };
    let (mut slowest, mut is_busy, mut is_healthy) = (Duration::ZERO, false, true);
    scope(|threads| {
        (0..16).for_each(|_| drop(threads.spawn(client)));
        is_busy = polled(Duration::from_millis(10), PATIENCE, || {
            let begin = Instant::now();
            is_healthy &= service.status("GET /health") == 200;
            slowest = slowest.max(begin.elapsed());
            shed.load(Ordering::SeqCst) >= 50 && done.load(Ordering::SeqCst) >= 5
        });
        over.store(true, Ordering::SeqCst);
    });
    assert!(is_busy && is_healthy, "{shed:?} were shed, and {done:?} done");
    println!("the slowest answer took {slowest:.1?}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}

/// spec: I1.8: on SIGTERM, the service accepts no more connections, and finishes its requests.
#[test]
fn a_request_in_flight_is_finished_at_the_end() {
    let service = Service::start(&["--grace", "100"]);
    let pipe = service.pipe("slow");
    let request = service.begin_reading("slow");
    service.terminate();
    eventually("it accepts no more", || TcpStream::connect(&service.address).is_err());
    fill(&pipe, "at last");
    let (status, _, body) = answer(request).expect("an answer");
    assert_eq!((status, &*body), (200, "at last"));
    let (status, text) = service.end();
    assert!(status.success() && text.contains("stopping\n"), "{text}");
}

/// spec: I1.8: a request that takes too long does not keep the service from ending.
#[test]
fn the_end_has_a_time_limit() {
    let service = Service::start(&["--grace", "0.3"]);
    service.pipe("endless");
    let request = service.begin_reading("endless");
    service.terminate();
    let (status, text) = service.end();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("requests that took too long") && text.contains("files: 0 dropped, 1 running"),
        "{text}"
    );
    assert!(answer(request).is_err());
}

/// spec: I1.8: an item that is stopped by the end of the service has no result. Its client never gets a sum of fewer
/// rounds.
#[test]
fn an_item_that_is_stopped_at_the_end_answers_nothing() {
    let service = Service::start(&["--active", "1", "--grace", "0"]);
    let requests: Vec<TcpStream> =
        (0..4).map(|_| service.send("POST /hash?rounds=10000000", "abc").expect("it listens")).collect();
    eventually("one runs", || service.count("items_started_total", "hashes") == 1);
    service.terminate();
    let (status, text) = service.end();
    assert_eq!(status.code(), Some(1), "{text}");
    for request in requests {
        if let Ok((status, _, body)) = answer(request) {
            assert_eq!(status, 503, "{body}");
        }
    }
}

/// spec: I1.8: the items of clients that went away are cancelled, and later items run.
#[test]
fn the_items_of_clients_that_go_away_are_cancelled() {
    const GONE: u64 = 5;
    let service = Service::start(&["--active", "1"]);
    let pipe = service.pipe("first");
    let reads = service.begin_reading("first");
    let gone: Vec<TcpStream> =
        (0..GONE).map(|_| service.send("GET /files/plain", "").expect("it listens")).collect();
    eventually("they wait", || service.count("queue_items", "files") == GONE + 1);
    for mut client in gone {
        client.shutdown(Shutdown::Write).expect("connected");
        // The read ends when the service has closed the connection, too.
        assert_eq!(client.read(&mut [0]).expect("the end"), 0);
    }
    fill(&pipe, "one");
    assert_eq!(answer(reads).expect("an answer").2, "one");
    let counts =
        || [service.count("items_cancelled_total", "files"), service.count("items_started_total", "files")];
    eventually("all are over", || counts().iter().sum::<u64>() == GONE + 1);
    // The last connection may have been closed a moment before its item was cancelled.
    assert!(counts()[0] >= GONE - 1, "{:?}", counts());
    assert_eq!(service.status("GET /files/plain"), 200);
    service.terminate();
    let (status, text) = service.end();
    assert!(status.success(), "{text}");
}

#[test]
fn invalid_arguments_are_refused() {
    for arguments in [
        &["--pending", "0"][..],
        &["--active", "513"],
        &["--grace", "soon"],
        &["--patience", "1e10"],
        &["--listen", "nowhere"],
        &["extra"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_axum-service"));
        let output = output(command.args(arguments)).expect("it runs");
        assert!(
            !output.status.success() && !output.stderr.is_empty() && output.stdout.is_empty(),
            "{output:?}"
        );
    }
}
