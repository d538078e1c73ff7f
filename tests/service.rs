//! Tests `examples/service` over HTTP: it answers, sheds load beyond its bound, gives up jobs that take too long, and
//! stops background tasks. On SIGTERM, it finishes the accepted jobs.
//!
//! `cargo test` also builds the examples, but `cargo test --test service` does not.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests stand in for a user, who has the standard library")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha512};
use testkit::{example, output};

/// This is longer than any of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The running example. It is killed when the test ends or takes too long. This also ends its output.
struct Service {
    process: Child,
    _watch: Sender<()>,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(example("service"))
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let pid = Pid::from_child(&process);
        let (watch, over) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ended_already = kill_process(pid, Signal::KILL);
            }
        });
        let mut output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the service prints its address");
        let address = line.trim_end().strip_prefix("listening on http://").expect("an address").to_owned();
        Self { process, _watch: watch, output, address }
    }

    /// Connects to the control socket of the example. A test may call this only once.
    #[cfg(feature = "control")]
    fn control(&mut self) -> cmwq::control::Client {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).expect("the service prints the path"), 0);
            if let Some(path) = line.trim_end().strip_prefix("control on ") {
                return cmwq::control::Client::connect(path).expect("it serves");
            }
        }
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("it is there");
    }

    /// Waits for the end of the example. Returns the numbers of the last line: accepted and finished jobs.
    fn account(mut self) -> (usize, usize) {
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("its output ends with it");
        assert!(self.process.wait().expect("it ends").success(), "{text}");
        let line = text.lines().rev().find_map(|line| line.strip_prefix("stopped: ")).expect("an account");
        let count = |what: &str| -> usize {
            let field = line.split(", ").find_map(|field| field.strip_prefix(what)?.strip_prefix(' '));
            field.expect("a field").parse().expect("a number")
        };
        (count("accepted"), count("finished"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Sends a request on its own connection. Returns status, header fields and body.
fn request(address: &str, line: &str, body: &str) -> io::Result<(u16, String, String)> {
    request_within(Duration::from_secs(60), address, line, body)
}

/// Sends a request on its own connection, and fails if the service sends nothing for this time.
fn request_within(
    time: Duration,
    address: &str,
    line: &str,
    body: &str,
) -> io::Result<(u16, String, String)> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(time))?;
    let length = body.len();
    write!(
        connection,
        "{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, head.to_lowercase(), body.to_owned()))
}

/// Sends a job on its own connection, but only the first byte of its body, `x`.
fn slow_client(address: &str, length: usize) -> TcpStream {
    let mut client = TcpStream::connect(address).expect("it listens");
    let head = "POST /jobs HTTP/1.1\r\nHost: test\r\nConnection: close";
    write!(client, "{head}\r\nContent-Length: {length}\r\n\r\nx").expect("sent");
    client
}

fn sum_of(body: &str, rounds: usize) -> String {
    let mut sum = Sha512::digest(body);
    for _ in 1..rounds {
        sum = Sha512::digest(sum);
    }
    sum.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect()
}

#[test]
fn the_service_answers_requests() {
    let service = Service::start(&[]);
    let ask = |line: &str, body: &str| request(&service.address, line, body).expect("an answer");
    assert!(ask("GET /", "").2.contains("/tasks?rounds=N"));
    for _ in 0..2 {
        let (status, _, body) = ask("POST /jobs", "abc");
        assert_eq!((status, body), (200, sum_of("abc", 1)));
    }
    let long = "0123456789abcdef".repeat(10_000);
    assert_eq!(ask("POST /jobs?rounds=3", &long).2, sum_of(&long, 3));
    assert_eq!(ask("POST /jobs?rounds=0", "abc").0, 400);
    assert_eq!((ask("GET /nothing", "").0, ask("DELETE /stats", "").0), (404, 405));
    let (status, _, stats) = ask("GET /stats", "");
    assert_eq!(status, 200);
    assert!(stats.starts_with("accepted 4, finished 4, shed 0"), "{stats}");
    service.terminate();
    assert_eq!(service.account(), (4, 4));
}

#[test]
fn the_service_sheds_load_beyond_its_bound_and_finishes_accepted_jobs() {
    const ROUNDS: usize = 2_000;
    let service = Service::start(&["--active", "2", "--pending", "3"]);
    let (answered, shed, gone) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let bump = |count: &AtomicUsize| count.fetch_add(1, Ordering::SeqCst);
    let ending = AtomicBool::new(false);
    let expected = sum_of("work", ROUNDS);
    let client = || {
        // The loop ends when the service is gone.
        loop {
            match request(&service.address, &format!("POST /jobs?rounds={ROUNDS}"), "work") {
                Ok((200, _, body)) => {
                    assert_eq!(body, expected);
                    bump(&answered);
                }
                Ok((503, head, _)) => {
                    assert!(head.contains("\r\nretry-after: 1"), "{head}");
                    bump(&shed);
                    std::thread::sleep(Duration::from_millis(2));
                }
                // The request came while the service ended, so the service did not even accept it.
                Ok((500, ..)) if ending.load(Ordering::SeqCst) => break bump(&gone),
                Ok(other) => panic!("{other:?}"),
                Err(_) => break bump(&gone),
            }
        }
    };
    std::thread::scope(|threads| {
        let clients: Vec<_> = (0..16).map(|_| threads.spawn(client)).collect();
        let enough = || answered.load(Ordering::SeqCst) >= 20 && shed.load(Ordering::SeqCst) >= 20;
        for _ in 0..6000 {
            if enough() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(enough(), "{answered:?} answered, {shed:?} shed");
        // The test sends the signal under load.
        ending.store(true, Ordering::SeqCst);
        service.terminate();
        for client in clients {
            client.join().expect("its assertions hold");
        }
    });
    let (accepted, finished) = service.account();
    assert_eq!(accepted, finished);
    assert_eq!(accepted, answered.into_inner(), "every accepted job was answered");
}

/// One job waits for its slow client, and two further jobs wait for the first one. The client of the second job is
/// slow, too. The service ends without waiting for them. It reports all jobs, and the client of the third job gets an
/// error.
#[test]
fn jobs_that_do_not_end_in_time_are_reported() {
    let mut service = Service::start(&["--active", "1", "--grace", "0"]);
    let has_accepted = |jobs: usize| {
        let stats = || request(&service.address, "GET /stats", "").expect("an answer").2;
        (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            stats().starts_with(&format!("accepted {jobs},"))
        })
    };
    let _slow = [1, 2].map(|jobs| {
        let client = slow_client(&service.address, 5000);
        assert!(has_accepted(jobs));
        client
    });
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| request(&service.address, "POST /jobs", "abc").expect("an answer"));
        assert!(has_accepted(3));
        service.terminate();
        assert_eq!(waits.join().expect("it has an answer").0, 503);
    });
    let mut text = String::new();
    service.output.read_to_string(&mut text).expect("its output ends with it");
    // On a busy machine, the first job may not have begun yet.
    let ends = ["2 dropped, 1 running", "3 dropped, 0 running"];
    let ends = ends.map(|jobs| format!("; jobs: {jobs}, 0 timers cancelled"));
    assert!(ends.iter().any(|end| text.contains(end)), "{text}");
    assert_eq!(service.process.wait().expect("it ends").code(), Some(1));
}

/// spec: I5.1: some clients are slow. The jobs of slow clients delay no other client. In the end, the slow clients get
/// their answers as well.
#[test]
fn slow_clients_delay_no_others() {
    // The HTTP library has four threads at first. If many connections come at once, it may make no further thread,
    // although all four threads wait for slow clients.
    const SLOW: usize = 3;
    const LENGTH: usize = 5000;
    let service = Service::start(&["--active", "4"]);
    let slow: Vec<_> = (0..SLOW).map(|_| slow_client(&service.address, LENGTH)).collect();
    for _ in 0..20 {
        let (status, _, body) = request(&service.address, "POST /jobs", "abc").expect("an answer");
        assert_eq!((status, body), (200, sum_of("abc", 1)));
    }
    let sum = sum_of(&"x".repeat(LENGTH), 1);
    for mut client in slow {
        write!(client, "{}", "x".repeat(LENGTH - 1)).expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert!(answer.ends_with(&sum), "{answer}");
    }
    service.terminate();
    assert_eq!(service.account(), (SLOW + 20, SLOW + 20));
}

/// Many clients withhold the bodies of jobs that the service refuses. The service still answers requests without a
/// body.
#[test]
fn slow_clients_that_are_refused_stop_no_health_check() {
    // By default, 256 of the items that were queued on one CPU can have begun. The service has one CPU here. So if the
    // queue of `/health` also had the answers to these clients, they would hold all its places.
    const SLOW: usize = 300;
    testkit::pin(rustix::thread::sched_getcpu()).expect("the service inherits this CPU");
    let service = Service::start(&["--active", "1", "--pending", "1", "--patience", "600"]);
    let slow: Vec<_> = (0..SLOW).map(|_| slow_client(&service.address, 5000)).collect();
    // If many connections come at once, the HTTP library may have no thread for one of them until another connection
    // ends. So each request has several attempts.
    let ask = |path: &str| {
        let line = format!("GET {path}");
        let attempt = |_| request_within(Duration::from_secs(5), &service.address, &line, "").ok();
        (0..20).find_map(attempt).expect("an answer")
    };
    // The service accepts one or two of the jobs. It accepts the second one only after the first one has begun.
    let others_are_refused = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let stats = ask("/stats").2;
        [SLOW - 2, SLOW - 1].iter().any(|shed| stats.contains(&format!(", shed {shed},")))
    });
    assert!(others_are_refused);
    for _ in 0..10 {
        assert_eq!(ask("/health").0, 200);
    }
    drop(slow);
    service.terminate();
    let (accepted, finished) = service.account();
    assert_eq!(accepted, finished);
}

/// A job with so many rounds that no test waits for its end.
const ENDLESS: &str = "rounds=10000000";

/// spec: I5.1: a job that is too late is given up, whether it has begun or not, and its client is told.
#[test]
fn jobs_that_are_too_late_are_given_up() {
    let service = Service::start(&["--active", "1", "--patience", "0.2"]);
    std::thread::scope(|threads| {
        let clients: Vec<_> = (0..3)
            .map(|_| {
                let line = format!("POST /jobs?{ENDLESS}");
                threads.spawn(|| request(&service.address, { line }.as_str(), "abc").expect("an answer"))
            })
            .collect();
        for client in clients {
            let (status, head, _) = client.join().expect("it has an answer");
            assert_eq!(status, 503);
            assert!(head.contains("\r\nretry-after: 1"), "{head}");
        }
    });
    let stats = request(&service.address, "GET /stats", "").expect("an answer").2;
    assert!(stats.starts_with("accepted 3, finished 0, shed 0, given up 3"), "{stats}");
    service.terminate();
    assert_eq!(service.account(), (3, 0));
}

/// spec: I5.1: background tasks run, and their results can be read. A request can end a task. Old results are dropped.
#[test]
fn tasks_run_in_the_background() {
    let service = Service::start(&["--active", "1", "--pending", "2", "--limit", "600", "--keep", "0"]);
    let ask = |line: &str, body: &str| request(&service.address, line, body).expect("an answer");
    let start = |line: &str| {
        let (status, head, body) = ask(line, "abc");
        assert_eq!(status, 202);
        assert!(head.contains(&format!("\r\nlocation: {}", body.trim_end())), "{head}");
        body.trim_end().to_owned()
    };
    let ends_with = |task: &str, expected: u16| {
        let mut last = 0;
        let ends = (0..6000).any(|_| {
            last = ask(&format!("GET {task}"), "").0;
            std::thread::sleep(Duration::from_millis(10));
            last != 202
        });
        // The result is kept for less than a second.
        assert!(ends && (last == expected || last == 404), "{task}: {last}");
    };
    let endless = start(&format!("POST /tasks?{ENDLESS}"));
    let behind = start("POST /tasks?rounds=3");
    assert_eq!(ask(&format!("GET {behind}"), "").0, 202);
    assert_eq!(ask(&format!("DELETE {endless}"), "").0, 202);
    ends_with(&endless, 410);
    ends_with(&behind, 200);
    let is_forgotten = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        ask(&format!("GET {behind}"), "").0 == 404
    });
    assert!(is_forgotten);
    assert_eq!(ask("POST /tasks?rounds=0", "abc").0, 400);
    assert_eq!((ask("GET /tasks/77", "").0, ask("DELETE /tasks/x", "").0), (404, 404));
    service.terminate();
    assert_eq!(service.account(), (0, 0));
}

/// spec: I5.1: the client of a task can read its result, or that the limit has ended the task.
#[test]
fn the_result_of_a_task_is_kept() {
    let service = Service::start(&["--limit", "0.1"]);
    let ask = |line: &str, body: &str| request(&service.address, line, body).expect("an answer");
    for (task, status, text) in [
        ("POST /tasks?rounds=3", 200, sum_of("abc", 3)),
        (&format!("POST /tasks?{ENDLESS}"), 504, "it took too long\n".into()),
    ] {
        let place = ask(task, "abc").2;
        let line = format!("GET {}", place.trim_end());
        let ends = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            ask(&line, "").0 != 202
        });
        assert!(ends, "{task}");
        for _ in 0..2 {
            let answer = ask(&line, "");
            // On a very busy machine, even the short task may exceed its limit.
            assert!(answer.0 == 504 || (answer.0, &answer.2) == (status, &text), "{answer:?}");
        }
    }
    service.terminate();
    assert_eq!(service.account(), (0, 0));
}

/// spec: I5.1: the health check and the counts answer while all CPUs compute, and tasks beyond the bound are shed.
#[test]
fn the_service_stays_healthy_under_overload() {
    let service = Service::start(&["--active", "4", "--pending", "2", "--grace", "0"]);
    let ask = |line: &str, body: &str| request(&service.address, line, body).expect("an answer");
    let shed = (0..100).any(|_| ask(&format!("POST /tasks?{ENDLESS}"), "abc").0 == 503);
    assert!(shed, "the tasks have a bound");
    for _ in 0..10 {
        assert_eq!((ask("GET /health", "").0, ask("GET /stats", "").0), (200, 200));
    }
    service.terminate();
}

/// spec: I5.1: a second signal asks the running jobs to stop, so the service ends without waiting for their usual end.
#[test]
fn a_second_signal_stops_what_runs() {
    let mut service = Service::start(&["--active", "1", "--patience", "600", "--grace", "600"]);
    std::thread::scope(|threads| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let line = format!("POST /jobs?{ENDLESS}");
                threads.spawn(|| request(&service.address, { line }.as_str(), "abc").expect("an answer").0)
            })
            .collect();
        let are_accepted = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let stats = request(&service.address, "GET /stats", "").expect("an answer").2;
            stats.starts_with("accepted 2,")
        });
        assert!(are_accepted);
        service.terminate();
        let mut line = String::new();
        while !line.starts_with("stopping: ") {
            line.clear();
            assert_ne!(service.output.read_line(&mut line).expect("its output"), 0);
        }
        service.terminate();
        // The first job may have ended before the signal.
        let answers = clients.into_iter().map(|client| client.join().expect("it has an answer"));
        assert!(answers.collect::<Vec<_>>().contains(&503));
    });
    assert_eq!(service.process.wait().expect("it ends").code(), Some(1));
}

#[test]
fn invalid_arguments_are_refused() {
    for arguments in [
        &["--pending", "0"][..],
        &["--active", "513"],
        &["--grace", "soon"],
        &["--patience", "-1"],
        &["--limit", "1e9"],
        &["--listen", "nowhere"],
        &["extra"],
    ] {
        let output = output(Command::new(example("service")).args(arguments)).expect("the item runs");
        assert!(
            !output.status.success() && !output.stderr.is_empty() && output.stdout.is_empty(),
            "{output:?}"
        );
    }
}

/// spec: O4, I5.1: the metrics of the example count its jobs under its own load.
#[cfg(feature = "metrics")]
#[test]
fn the_metrics_of_the_service_count_its_jobs() {
    let service = Service::start(&["--load", "500"]);
    for _ in 0..7 {
        assert_eq!(request(&service.address, "POST /jobs", "abc").expect("an answer").0, 200);
    }
    let sample = |queue: &str| {
        let (status, _, text) = request(&service.address, "GET /metrics", "").expect("an answer");
        assert_eq!(status, 200);
        let name = format!("cmwq_items_started_total{{executor=\"cmwq\",queue=\"{queue}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
        value.parse::<u64>().expect("a number")
    };
    assert_eq!(sample("jobs"), 7);
    let (_, _, text) = request(&service.address, "GET /metrics", "").expect("an answer");
    assert!(text.contains("service_jobs_total{outcome=\"finished\"} 7\n"), "{text}");
    for queue in ["thumbnails", "mail", "journal", "legacy", "reports"] {
        let grows = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            sample(queue) > 0
        });
        assert!(grows, "nothing of {queue} runs");
    }
    service.terminate();
    assert_eq!(service.account(), (7, 7));
}

/// spec: O5, I5.1: a client finds the example's control socket, and changes its queues.
#[cfg(feature = "control")]
#[test]
fn the_service_can_be_controlled() {
    use cmwq::control::Attribute;

    let mut service = Service::start(&["--load", "100"]);
    let mut client = service.control();
    for queue in ["jobs", "tasks", "mail"] {
        client.set(queue, Attribute::MaxActive, "3").expect("it may be changed");
        assert_eq!(client.get(queue, Attribute::MaxActive).expect("there is one"), "3");
    }
    service.terminate();
    assert_eq!(service.account(), (0, 0));
}

/// spec: S2.2, S3.1: the control socket lists the offenders in the example's load by the names of their functions.
#[cfg(feature = "control")]
#[test]
fn the_offenders_of_the_service_have_names() {
    let mut service = Service::start(&["--load", "500"]);
    let mut client = service.control();
    if client.dump().expect("an answer").portable {
        return testkit::skip("portable", "this build does not observe threads");
    }
    let found = (0..6000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let seen = client.watchdog().expect("an answer");
        let both = !seen.hogs.is_empty() && !seen.undeclared_blockers.is_empty();
        both.then(|| seen.hogs.into_iter().chain(seen.undeclared_blockers))
    });
    for offender in found.expect("offenders of both kinds") {
        assert!(offender.item_type.starts_with("service::"), "{:?} is no name", offender.item_type);
    }
    service.terminate();
    assert_eq!(service.account(), (0, 0));
}
