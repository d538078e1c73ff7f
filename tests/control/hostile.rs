//! Hostile or slow peers: they disturb neither the executor nor other connections.

use std::fs;
use std::io::{BufRead as _, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cmwq::WorkQueue;
use cmwq::control::{Attribute, Client, ClientError, ErrorKind, MAX_CONNECTIONS, MAX_REQUEST};
use testkit::output;

use super::{SOON, Served, error_in, eventually, refused_as};

const HELLO: &str = r#"{"request":"hello"}"#;

/// Returns the number of descriptors of this process.
#[cfg(target_os = "linux")]
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// spec: O5.4 (an invalid request is answered, and the connection goes on)
#[test]
fn garbage_is_answered_and_the_connection_goes_on() {
    let served = Served::new("core:1 pu:1");
    let mut raw = served.raw();
    let deep = "[".repeat(60_000);
    for line in
        [&b""[..], b"\0", b"\xff\xfe", b"GET / HTTP/1.1\r", b"{\"request\":7}", b"null", deep.as_bytes()]
    {
        let answer = raw.say(line).say(b"\n").hear();
        assert!(answer.starts_with(r#"{"error":{"kind":"bad_request","message":""#), "{answer}");
        assert!(answer.len() < 1500, "{answer}");
    }
    assert!(raw.ask(HELLO).starts_with(r#"{"ok":{"protocol":1"#));
}

/// spec: O5.7 (request size bounded)
#[test]
fn a_request_without_end_is_refused() {
    let served = Served::new("core:1 pu:1");
    let mut raw = served.raw();
    let sent = raw.0.get_mut().write_all(&vec![b' '; 10 * MAX_REQUEST]);
    assert!(sent.is_err(), "the server has stopped reading");
    let answer = raw.hear();
    assert!(answer.starts_with(r#"{"error":{"kind":"too_long""#), "{answer}");
    assert_eq!(error_in(&answer).kind, ErrorKind::TooLong);
    served.is_well();

    let line = format!("{}{HELLO}", " ".repeat(MAX_REQUEST - HELLO.len()));
    assert!(served.raw().ask(&line).starts_with(r#"{"ok""#), "the longest permitted request is answered");
}

/// spec: O5.7 (slow clients): a request may arrive byte by byte. Meanwhile, other clients are served.
#[test]
fn requests_may_come_byte_by_byte_and_many_at_once() {
    let served = Served::new("core:1 pu:1");
    let mut slow = served.raw();
    for byte in HELLO.as_bytes() {
        slow.say(&[*byte]);
        served.is_well();
    }
    assert!(slow.say(b"\n").hear().starts_with(r#"{"ok""#));

    let mut fast = served.raw();
    let many = format!("{HELLO}\n").repeat(1000);
    let stream = fast.stream().try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || (&stream).write_all(many.as_bytes()).unwrap());
        for _ in 0..1000 {
            assert!(fast.hear().starts_with(r#"{"ok""#));
        }
    });
}

/// spec: O5.7 (half-closed)
#[test]
fn a_half_closed_client_gets_all_answers() {
    let served = Served::new("core:1 pu:1");
    let mut raw = served.raw();
    raw.say(format!("{HELLO}\n{HELLO}\nhalf a requ").as_bytes());
    raw.stream().shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    raw.0.read_to_string(&mut all).unwrap();
    assert_eq!(all.lines().filter(|line| line.starts_with(r#"{"ok""#)).count(), 2, "{all}");
    assert_eq!(all.lines().count(), 2, "{all}");

    // A client that has closed both directions does not make the server wait.
    let raw = served.raw();
    raw.stream().shutdown(Shutdown::Both).unwrap();
    served.is_well();
}

/// spec: O5.7 (clients that do not read, or leave in the middle of an answer)
#[test]
fn large_answers_that_are_not_read_delay_no_other_client() {
    let served = Served::new("core:2 pu:1");
    let _queues: Vec<_> =
        (0..500).map(|n| WorkQueue::builder(format!("q{n}")).build_on(&served.executor).unwrap()).collect();
    let mut stuck: Vec<_> = (0..4).map(|_| served.raw()).collect();
    for raw in &mut stuck {
        raw.say(b"{\"request\":\"dump\"}\n{\"request\":\"dump\"}\n");
    }
    served.is_well();
    assert_eq!(served.client().dump().unwrap().queues.len(), 500);
    for raw in stuck.drain(..2) {
        let mut some = [0; 1000];
        raw.stream().read_exact(&mut some).unwrap();
    }
    served.is_well();
    for mut raw in stuck {
        let whole = raw.hear();
        assert!(whole.starts_with(r#"{"ok":{"format":1,"#) && whole.ends_with("}}"), "{}", whole.len());
    }
    served.is_well();
}

/// spec: O5.7 (1000 connections opened and abandoned, without effect)
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_abandoned_connections_have_no_effect() {
    let served = Served::new("core:2 pu:1");
    let queue = WorkQueue::builder("work").build_on(&served.executor).unwrap();
    let path = served.server.path().to_owned();
    let (over, before) = (AtomicBool::new(false), descriptors());
    let run = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let (mut run, mut last) = (0, false);
            while !last {
                last = over.load(Ordering::SeqCst);
                let item = queue.spawn(move || run).unwrap();
                assert_eq!(item.join_timeout(SOON).map_err(|_| "the item waits").unwrap().unwrap(), run);
                run += 1;
            }
            run
        });
        for n in 0..1000 {
            let mut stream = UnixStream::connect(&path).unwrap();
            // Some clients leave at once, some in the middle of a request, and some before the answer, whether they
            // were served or not.
            let said =
                [&b""[..], b"{\"requ", b"{\"request\":\"hello\"}\n", b"{\"request\":\"dump\"}\nx"][n % 4];
            let _broken_pipe = stream.write_all(said);
        }
        over.store(true, Ordering::SeqCst);
        worker.join().unwrap()
    });
    assert!(run > 0);
    eventually("all connections are gone", || {
        let mut client = Client::connect(&path).unwrap();
        client.hello().is_ok() && descriptors() <= before + 40
    });
    served.is_well();
}

/// spec: O5.7 (connection cap)
#[cfg(target_os = "linux")]
#[test]
fn one_connection_too_many_is_refused_with_a_reason() {
    let served = Served::new("core:1 pu:1");
    let mut held: Vec<_> = (0..MAX_CONNECTIONS).map(|_| served.client()).collect();
    held.iter_mut().for_each(|client| drop(client.hello().unwrap()));
    for _ in 0..100 {
        let message = refused_as(ErrorKind::Busy, served.client().hello());
        assert_eq!(message, "there are 32 connections already; try again later");
    }
    held.pop();
    eventually("there is room again", || served.client().hello().is_ok());
    held.iter_mut().for_each(|client| drop(client.hello().unwrap()));
}

/// spec: O5: a client gives up when an answer does not end, so a server cannot fill the client's memory.
#[test]
fn a_client_gives_up_on_an_endless_answer() {
    let folder = super::Folder::new();
    let listener = UnixListener::bind(folder.join("socket")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // This server waits for the request, because the client would leave if an answer came before it.
        stream.read_exact(&mut [0]).unwrap();
        let mut sent = 0_usize;
        // This server sends until the client closes the connection.
        while let Ok(bytes) = stream.write(&[b'x'; 1 << 16]) {
            sent += bytes;
        }
        sent
    });
    let mut client = Client::connect_timeout(folder.join("socket"), SOON).unwrap();
    let error = client.get("mail", Attribute::Nice).unwrap_err();
    assert!(matches!(&error, ClientError::Malformed(why) if why.starts_with("it is longer than")), "{error}");
    assert!(server.join().unwrap() < 1 << 25);
}

/// spec: O5.7 (clients are told): a client gets an error if the server does not answer or ends before it answers, if a
/// request is too long, or if the system reports an error.
#[test]
fn a_client_is_told_how_its_request_failed() {
    let folder = super::Folder::new();
    let listener = UnixListener::bind(folder.join("socket")).unwrap();
    let mut client = Client::connect_timeout(folder.join("socket"), Duration::from_millis(20)).unwrap();
    let error = client.get(&"q".repeat(MAX_REQUEST), Attribute::Nice).unwrap_err();
    let frame = r#"{"request":"get","queue":"","attribute":"nice"}"#.len();
    assert!(matches!(error, ClientError::TooLong { bytes } if bytes == MAX_REQUEST + frame), "{error:?}");
    // The longest permitted request is sent. No thread answers it.
    let longest = "q".repeat(MAX_REQUEST - frame);
    let error = client.get(&longest, Attribute::Nice).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut), "{error:?}");
    drop((client, listener.accept().unwrap()));

    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; HELLO.len() + 1]).unwrap();
    });
    let mut client = Client::connect_timeout(folder.join("socket"), SOON).unwrap();
    let error = client.hello().unwrap_err();
    assert!(matches!(error, ClientError::Closed), "{error:?}");
    server.join().unwrap();
    let error = ClientError::from(std::io::Error::other("no buffers"));
    assert!(matches!(&error, ClientError::Io(cause) if cause.to_string() == "no buffers"), "{error:?}");
    assert_eq!(error.to_string(), "the connection failed: no buffers");
}

/// Returns how often the thread of this name has gone to sleep.
#[cfg(target_os = "linux")]
fn sleeps(thread: &str) -> Option<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = tasks
        .into_iter()
        .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == thread))?;
    let status = fs::read_to_string(named.join("status")).ok()?;
    status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).map(str::to_owned)
}

/// spec: O5.9 (no wake-ups without clients)
#[cfg(target_os = "linux")]
#[test]
fn a_server_without_clients_sleeps() {
    let executor = cmwq::Executor::builder().thread_name_prefix("quiet").build().unwrap();
    let served = Served::by(&executor);
    served.is_well();
    let mut last = sleeps("quiet/control");
    assert!(last.is_some());
    eventually("the server sleeps", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = sleeps("quiet/control");
        std::mem::replace(&mut last, now.clone()) == now
    });
}

/// Returns the CPU time of this process.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// spec: O5.7 (no descriptors left): without free descriptors, the server neither spins nor ends. It accepts
/// connections again when there are some.
#[cfg(target_os = "linux")]
#[test]
fn without_descriptors_the_server_waits() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    if super::told().is_none() {
        let test = "hostile::without_descriptors_the_server_waits";
        return super::assert_passed(&output(&mut super::child(test, "yes")).unwrap());
    }
    let served = Served::new("core:1 pu:1");
    let path = served.server.path();
    served.is_well();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let few = descriptors() as u64 + 8;
    setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum }).unwrap();
    // One descriptor stays free for the client's side of the connection that the server cannot accept.
    let mut files: Vec<_> = (0..).map_while(|_| fs::File::open("/dev/null").ok()).collect();
    files.pop();
    let mut waits = UnixStream::connect(path).unwrap();
    waits.write_all(b"{\"request\":\"hello\"}\n").unwrap();
    let (began, used) = (Instant::now(), cpu_time());
    std::thread::sleep(Duration::from_millis(1500));
    let used = cpu_time() - used;
    assert!(used * 4 < began.elapsed(), "the server used {used:?} in {:?}", began.elapsed());
    drop(files);
    waits.set_read_timeout(Some(SOON)).unwrap();
    let mut answer = [0; 6];
    waits.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"{\"ok\":");
    served.is_well();

    // Now the server cannot even make the descriptors that it needs for waiting, but it still ends.
    let mut raw = served.raw();
    raw.ask(HELLO);
    let Served { server, executor, folder } = served;
    setrlimit(Resource::Nofile, Rlimit { current: Some(1), maximum }).unwrap();
    // The connection may end before the request is sent, or be reset before the answer is read, so both results are
    // ignored.
    let _sent_or_error = raw.stream().write_all(format!("{HELLO}\n").as_bytes());
    let _answer_or_error = raw.0.read_line(&mut String::new());
    let (ended, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(server);
        ended.send(()).unwrap();
    });
    assert_eq!(ends.recv_timeout(SOON), Ok(()), "the server hangs");
    setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum }).unwrap();
    drop((executor, folder));
}
