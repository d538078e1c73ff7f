//! The commands that print and end, against a real executor in this process.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cmwq::control::Server;
use cmwq::{Executor, WorkQueue};
use serde_json::Value;

use self::support::{Folder, Service, finish};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs items on all queues, to the end.
fn work(service: &Service) {
    for queue in [&service.thumbnails, &service.mail, &service.events] {
        for _ in 0..5 {
            queue.spawn(|| ()).unwrap().join().unwrap();
        }
        queue.flush().unwrap();
    }
    // A flush returns before the last slot is released.
    let end = Instant::now() + Duration::from_secs(20);
    while !service.executor.dump().busy().is_idle() {
        assert!(Instant::now() < end, "the executor does not come to rest: {}", service.executor.dump());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the tool repeatedly until it has found what it looks for. The tool overlooks a server that does not answer for
/// a second. Returns the last run.
fn until_found(folder: &Folder, args: &[&str], found: &str) -> support::Ran {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let ran = folder.run(args);
        if ran.out.contains(found) || ran.err.contains(found) || Instant::now() > end {
            return ran;
        }
    }
}

/// spec: O5.10 (cmwqctl lists processes)
#[test]
fn processes_are_listed() {
    let service = Service::new();
    work(&service);
    let text = until_found(&service.folder, &["list"], &service.socket()).good();
    let mut lines = text.lines();
    let titles: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(titles, ["PID", "PROGRAM", "PREFIX", "QUEUES", "POOLS", "THREADS", "SOCKET"]);
    let ours = lines.find(|line| line.ends_with(&service.socket())).unwrap_or_else(|| panic!("{text}"));
    let cells: Vec<&str> = ours.split_whitespace().collect();
    assert_eq!(cells[0], std::process::id().to_string());
    assert_eq!((cells[2], cells[3]), ("svc", "3"), "{text}");

    let listed = json(&until_found(&service.folder, &["list", "--json"], &service.socket()).good());
    let ours = listed.as_array().unwrap().iter().find(|process| process["socket"] == service.socket());
    let ours = ours.unwrap_or_else(|| panic!("{listed}"));
    assert_eq!((&ours["pid"], &ours["queues"]), (&std::process::id().into(), &3.into()));
}

/// Returns whether other processes of this user run, in a directory that every tool searches. Then some cases cannot be
/// tested.
fn has_strangers(folder: &Folder) -> bool {
    let listed = json(&folder.run(&["list", "--json"]).good_or_empty());
    let own = folder.path().to_str().unwrap();
    listed.as_array().unwrap().iter().any(|process| !process["socket"].as_str().unwrap().starts_with(own))
}

impl support::Ran {
    fn good_or_empty(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }
}

#[test]
fn without_processes_the_list_is_empty_and_other_commands_exit_with_3() {
    let folder = Folder::new();
    if has_strangers(&folder) {
        return;
    }
    let ran = folder.run(&["list"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    assert_eq!(ran.err, "cmwqctl: no process with a control socket was found\n");
    assert_eq!(folder.run(&["list", "--json"]).good(), "[]\n");
    for command in [&["dump"][..], &["monitor"], &["get", "mail"], &["watchdog"]] {
        let ran = folder.run(command);
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{command:?}");
        assert!(
            ran.err.starts_with("cmwqctl: no process with a control socket was found\n  A process can"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_process_is_found_alone_by_number_and_by_socket() {
    let service = Service::new();
    let pid = std::process::id().to_string();
    assert_eq!(service.folder.run(&["-p", &pid, "get", "thumbnails", "max_active"]).good(), "16\n");
    assert_eq!(service.folder.run(&["get", "thumbnails", "max_active", "--pid", &pid]).good(), "16\n");
    if has_strangers(&service.folder) {
        return;
    }
    assert_eq!(until_found(&service.folder, &["get", "thumbnails", "max_active"], "16").good(), "16\n");

    // With a second executor, the command line must name one of them.
    let other = Executor::builder().build().unwrap();
    let _server = Server::start_at(&other, service.folder.socket(2)).unwrap();
    let ran = until_found(&service.folder, &["dump"], "there are 2");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("there are 2 control sockets: name one by -p PID or -s SOCKET"), "{ran:?}");
    assert!(ran.err.contains(&service.socket()), "the message lists the sockets: {ran:?}");
    let ran = until_found(&service.folder, &["-p", &pid, "dump"], "has 2");
    assert!(ran.code == Some(2) && ran.err.contains("has 2 executors: name one by -s SOCKET"), "{ran:?}");
    assert_eq!(service.run(&["get", "thumbnails", "max_active"]).good(), "16\n");
}

/// A server outlives its executor, but then there is nothing to watch.
#[test]
fn an_executor_that_has_ended_is_not_chosen() {
    let service = Service::new();
    let other = Executor::builder().build().unwrap();
    let server = Server::start_at(&other, service.folder.socket(2)).unwrap();
    drop(other);
    let socket = server.path().to_str().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while service.folder.run(&["-s", socket, "dump"]).code == Some(0) {
        assert!(Instant::now() < end, "the executor does not end");
    }
    let pid = std::process::id().to_string();
    assert_eq!(service.folder.run(&["-p", &pid, "get", "thumbnails", "max_active"]).good(), "16\n");
    let ran = service.folder.run(&["-s", socket, "dump"]);
    assert!(ran.code == Some(1) && ran.err.contains("the executor is gone"), "{ran:?}");
    if !has_strangers(&service.folder) {
        assert_eq!(until_found(&service.folder, &["get", "thumbnails", "max_active"], "16").good(), "16\n");
    }
}

/// spec: O5.10 (cmwqctl dumps)
#[test]
fn a_dump_is_text_json_or_the_activity() {
    let service = Service::new();
    work(&service);
    let text = service.run(&["dump"]).good();
    for part in ["Affinity Scopes\n", "Worker Pools", "thumbnails", "mail", "events"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let dump = json(&service.run(&["dump", "--json"]).good());
    assert_eq!((&dump["format"], &dump["pid"]), (&1.into(), &std::process::id().into()));
    let names: Vec<&str> =
        dump["queues"].as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["thumbnails", "mail", "events"]);
    assert!(!service.run(&["dump", "--busy"]).good().contains("thumbnails"), "no queue is busy");
}

/// spec: O5.10 (cmwqctl monitors)
#[test]
fn the_monitor_prints_samples_of_the_queues_that_match() {
    let service = Service::new();
    work(&service);
    let text = service.run(&["monitor", "-n", "2", "-i", "0.05"]).good();
    let head = "                            total  infl  CPUtime  CPUhog CMW/RPR  mayday rescued\n";
    let samples: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(samples.len(), 2, "{text}");
    for sample in samples {
        assert!(sample.starts_with(head), "{text}");
        assert_eq!(sample.lines().count(), 4, "{text}");
    }
    let text = service.run(&["monitor", "-n", "1", "^th", "l$"]).good();
    let names: Vec<&str> = text.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["thumbnails", "mail"], "{text}");

    let text = service.run(&["monitor", "-n", "3", "-i", "0.05", "--json", "events"]).good();
    let lines: Vec<Value> = text.lines().map(json).collect();
    assert_eq!(lines.len(), 3);
    for report in lines {
        assert_eq!(report["queues"].as_array().unwrap().len(), 1);
        assert_eq!(report["queues"][0]["counters"]["started"], 5);
    }
    let ran = service.run(&["monitor", "a["]);
    assert!(
        ran.code == Some(2) && ran.err.starts_with("cmwqctl: \"a[\" is not a regular expression"),
        "{ran:?}"
    );
}

/// spec: O5.10 (attributes are read and changed; bad names and values get a clear error and change nothing)
#[test]
fn attributes_are_read_and_changed() {
    let service = Service::new();
    let all = service.run(&["get", "thumbnails"]).good();
    for line in ["affinity_strict  0\n", "nice ", "max_active       16\n"] {
        assert!(all.contains(line), "{all}");
    }
    assert_eq!(service.run(&["set", "thumbnails", "max_active", "4"]).good(), "4\n");
    assert_eq!(service.thumbnails.max_active(), Some(4));
    assert_eq!(service.run(&["get", "thumbnails", "max_active"]).good(), "4\n");
    assert_eq!(service.run(&["set", "thumbnails", "affinity_scope", "system"]).good(), "system\n");
    let nice = service.run(&["set", "thumbnails", "nice", "-100"]);
    assert_eq!(nice.code, Some(1), "a value may begin with a hyphen, and be refused: {nice:?}");

    for (args, code, message) in [
        (["set", "thumbnails", "max_active", "many"], 1, "many"),
        (["set", "thumbnails", "max_active", "100000"], 1, "512"),
        (["set", "thumbnails", "cpumask", "9999"], 1, "9999"),
        (["set", "thumbmails", "max_active", "1"], 1, "the queues are: thumbnails, mail, events"),
        (["set", "mail", "max_active", "1"], 1, "control"),
        (["set", "thumbnails", "maxactive", "1"], 2, "max_active"),
    ] {
        let ran = service.run(&args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{args:?}: {ran:?}");
        assert!(ran.err.contains(message), "{args:?}: {ran:?}");
        assert!(code != 1 || ran.err.starts_with("cmwqctl: "), "{ran:?}");
    }
    assert_eq!(service.thumbnails.max_active(), Some(4));
    let ran = service.run(&["get", "thumbmails"]);
    assert!(ran.code == Some(1) && ran.err.contains("no queue is named \"thumbmails\""), "{ran:?}");
}

/// spec: O5.12
#[test]
fn the_command_line_is_checked() {
    let service = Service::new();
    for args in [
        &[][..],
        &["nonsense"],
        &["monitor", "-i", "0"],
        &["monitor", "-i", "-1"],
        &["monitor", "-i", "NaN"],
        &["monitor", "-n", "0"],
        &["dump", "--json", "--busy"],
        &["-p", "1", "dump"],
        &["set", "thumbnails", "nice"],
        &["--color", "sometimes", "dump"],
    ] {
        let ran = service.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty());
    }
    let help = service.run(&["--help"]).good();
    assert!(help.contains("Exit codes:"), "{help}");
    assert!(service.run(&["--version"]).good().starts_with("cmwqctl 0."));
    let ran = service.run(&["top"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("cmwqctl: top needs a terminal\n"), "{ran:?}");
}

/// spec: O5.12
#[test]
fn a_missing_process_is_reported_with_exit_code_3() {
    let folder = Folder::new();
    let ran = folder.run(&["-s", folder.socket(9).to_str().unwrap(), "dump"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.err.starts_with("cmwqctl: cannot connect to "), "{ran:?}");
    // No process has this number.
    let ran = folder.run(&["-p", "4294967295", "dump"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.err.starts_with("cmwqctl: process 4294967295 has no control socket"), "{ran:?}");
}

/// spec: O5.12
#[test]
fn a_lost_connection_is_exit_code_3() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.socket(1)).unwrap();
    let closes = std::thread::spawn(move || drop(listener.accept()));
    let ran = folder.run(&["-s", folder.socket(1).to_str().unwrap(), "watchdog"]);
    closes.join().unwrap();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.starts_with("cmwqctl: "), "{ran:?}");
}

/// The tool prints the texts of a process, and no control character of them reaches the terminal.
#[test]
fn a_process_cannot_control_the_terminal() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.socket(1)).unwrap();
    let answers = std::thread::spawn(move || {
        for answer in [r#"{"ok":"\u001b[2J"}"#, r#"{"error":{"kind":"other","message":"\u009b2J\u0007"}}"#] {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
    });
    let socket = folder.socket(1);
    let args = ["-s", socket.to_str().unwrap(), "--color", "always", "set", "mail", "nice", "1"];
    assert_eq!(folder.run(&args).good(), "\u{FFFD}[2J\n");
    let ran = folder.run(&args);
    assert!(ran.code == Some(1) && ran.err.ends_with(" \u{FFFD}2J\u{FFFD}\n"), "{ran:?}");
    answers.join().unwrap();

    let service = Service::new();
    let name = "red\x1b[31m\u{9b}1m";
    let queue = WorkQueue::builder(name).control(true).build_on(&service.executor).unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let item = queue.spawn(move || {
        cmwq::set_description("\x1b[2J");
        cmwq::blocking(|| wait.recv().is_ok())
    });
    for args in [&["dump"][..], &["dump", "--busy"], &["monitor", "-n", "1"], &["get", name], &["watchdog"]] {
        let text = service.run(args).good();
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {text:?}");
    }
    let ran = service.run(&["set", name, "nice", "\x1b[2J"]);
    assert!(ran.code == Some(1) && !ran.err.contains('\x1b'), "{ran:?}");
    go.send(()).unwrap();
    item.unwrap().join().unwrap();
}

/// spec: S4 (stalled pools can be asked for), O5.12
#[test]
fn the_watchdog_finds_a_stalled_pool() {
    let service = Service::new();
    let text = service.run(&["watchdog"]).good();
    assert!(text.contains("stalled    none\n") && text.contains("threshold  "), "{text}");
    assert!(json(&service.run(&["watchdog", "--json"]).good())["stalled"].as_array().unwrap().is_empty());

    // One item keeps the only worker of its CPU, without detection, while another item waits.
    let builder = Executor::builder().cpus([first_cpu(&service)].into_iter().collect());
    let executor = builder
        .detection(cmwq::Detection::Off)
        .watchdog_threshold(Duration::from_millis(200))
        .build()
        .unwrap();
    let server = Server::start_at(&executor, service.folder.socket(3)).unwrap();
    let queue = WorkQueue::per_cpu("stuck").build_on(&executor).unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let first = queue.spawn(move || wait.recv().is_ok()).unwrap();
    // A new worker that arrives counts as progress, so the test first waits until the spare is there.
    let begin = Instant::now();
    while executor.dump().pools[0].workers < 2 {
        assert!(begin.elapsed() < Duration::from_secs(60), "the spare does not come: {}", executor.dump());
        std::thread::sleep(Duration::from_millis(1));
    }
    let second = queue.spawn(|| ()).unwrap();
    let socket = server.path().to_str().unwrap();
    let begin = Instant::now();
    let ran = loop {
        let ran = service.folder.run(&["-s", socket, "watchdog"]);
        if ran.code != Some(0) || begin.elapsed() > Duration::from_secs(60) {
            break ran;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.out.contains("has started nothing for"), "{ran:?}");
    for args in [&["-s", socket, "watchdog"][..], &["-s", socket, "watchdog", "--json"]] {
        let ran = with_closed_pipe(service.folder.tool(args));
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "a finding without a reader: {args:?}");
    }
    go.send(()).unwrap();
    first.join().unwrap();
    second.join().unwrap();
    let ran = service.folder.run(&["-s", socket, "watchdog"]);
    assert_eq!(ran.code, Some(0), "over: {ran:?}");
    let ran = with_closed_pipe(service.folder.tool(&["-s", socket, "watchdog"]));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "nothing without a reader");
}

/// Runs the tool with a pipe whose reader is gone.
fn with_closed_pipe(mut command: Command) -> support::Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    finish(command)
}

fn first_cpu(service: &Service) -> usize {
    service.executor.cpus().iter().next().unwrap()
}

/// spec: O5.12
#[test]
fn colours_are_for_terminals_or_on_request() {
    let service = Service::new();
    let coloured = |text: &str| text.contains('\x1b');
    assert!(!coloured(&service.run(&["watchdog"]).good()), "into a pipe");
    assert!(coloured(&service.run(&["--color", "always", "watchdog"]).good()));
    assert!(!coloured(&service.run(&["--color", "never", "watchdog"]).good()));
    let mut command = service.tool(&["--color", "auto", "watchdog"]);
    command.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    assert!(!coloured(&finish(command).good()), "NO_COLOR");
    let ran = service.run(&["--color", "always", "get", "missing"]);
    assert!(coloured(&ran.err), "{ran:?}");
}

/// A reader that closes the pipe ends the tool without an error.
///
/// spec: O5.12
#[test]
fn a_closed_pipe_ends_the_tool_quietly() {
    let service = Service::new();
    let mut command = service.tool(&["monitor", "-i", "0.05"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // A sample arrives while the tool goes on: samples are not held back.
    assert!(lines.next().unwrap().unwrap().contains("total"));
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

/// spec: O5.12
#[test]
fn completions_and_the_manual_are_complete() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = folder.run(&["completions", shell]).good();
        for word in ["monitor", "watchdog", "json"] {
            assert!(text.contains(word), "{shell} completes {word}");
        }
        let knows_positions = ["bash", "zsh"].contains(&shell);
        assert!(!knows_positions || text.contains("affinity_scope"), "{shell} completes attributes");
    }
    let manual = folder.run(&["man"]).good();
    assert!(manual.contains(".TH cmwqctl 1"), "{manual}");
    for word in ["list", "dump", "monitor", "top", "get", "set", "watchdog", "Exit codes"] {
        assert!(manual.contains(word), "{word}: {manual}");
    }
}
