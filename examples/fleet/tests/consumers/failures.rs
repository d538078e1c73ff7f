//! Jobs that fail, and requests that cannot succeed.

use std::process::Command;

use redis::cmd;
use testkit::output;

use crate::support::{Server, eventually};

/// spec: I4.5: jobs with meaningless fields are tried again and then set aside, and the other jobs run.
#[test]
fn a_job_that_fails_again_and_again_is_set_aside() {
    let Some(server) = Server::start() else { return };
    let mut redis = server.connect();
    for (field, value) in [("name", &b"x"[..]), ("no name", b"x"), ("rounds", b"\xff"), ("\u{1F600}", b"\0")]
    {
        let mut add = cmd("XADD");
        add.arg("{fleet}:jobs").arg("*").arg("rounds").arg("many").arg(field).arg(value);
        add.exec(&mut redis).expect("added");
    }
    // This name is not UTF-8. Any program may add such a name.
    cmd("XADD")
        .arg("{fleet}:jobs")
        .arg("*")
        .arg(&b"\xff"[..])
        .arg(&b"\xfe"[..])
        .exec(&mut redis)
        .expect("added");
    server.add(0..10, &[]);
    let consumer = server.work("one", &["--claim", "0.3", "--attempts", "3"]);
    eventually("all are set aside", || {
        server.fleet(&["status"]) == "waiting 0, in hand 0, stored 10, set aside 5\n"
    });
    let (status, said) = consumer.terminate();
    assert!(status.success());
    let count = |words: &str| said.iter().filter(|line| line.contains(words)).count();
    assert_eq!(count("has failed: "), 5 * 3, "{said:#?}");
    assert!(count("jobs aside, after 3 attempts") >= 1, "{said:#?}");
    let mut length = cmd("XREVRANGE");
    length.arg("{fleet}:dead").arg("+").arg("-");
    let dead: Vec<(String, Vec<Vec<u8>>)> = length.query(&mut redis).expect("entries");
    assert!(dead.iter().all(|(_, fields)| fields[0] == b"entry" && fields.len() >= 4), "{dead:?}");
}

/// spec: I4.5: a job that kills each consumer that runs it is set aside, too.
#[test]
fn a_job_that_kills_its_consumers_is_set_aside() {
    let Some(server) = Server::start() else { return };
    let options = ["--claim", "0.5", "--attempts", "3"];
    server.add(0..1, &["--pause", "600"]);
    for name in ["one", "two", "three"] {
        let consumer = server.work(name, &options);
        eventually("the consumer has the job", || server.in_hand() == [(name.into(), 1)].into());
        consumer.kill();
    }
    let consumer = server.work("four", &options);
    eventually("the job is set aside", || {
        server.fleet(&["status"]) == "waiting 0, in hand 0, stored 0, set aside 1\n"
    });
    assert!(consumer.has_said("set 1 jobs aside, after 3 attempts"), "{:?}", consumer.said());
    let dead = server.entries("dead");
    assert_eq!(dead[0].1[2..], ["name", "0", "rounds", "1", "pause", "600000"], "{dead:?}");
}

/// A request that cannot succeed without a change is not repeated.
#[test]
fn settings_that_cannot_work_are_refused() {
    let fleet = |arguments: &[&str]| {
        let output = output(Command::new(env!("CARGO_BIN_EXE_fleet")).args(arguments)).expect("it runs");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
        output.status.code()
    };
    for arguments in [
        &[][..],
        &["rest"],
        &["work", "--redis", "nowhere"],
        &["work", "--claim", "0"],
        &["work", "--grace", "soon"],
        &["work", "extra"],
        &["status", "--active", "3"],
        &["add", "--pause", "-1", "x"],
    ] {
        assert_eq!(fleet(arguments), Some(2), "{arguments:?}");
    }
    let Some(server) = Server::start() else { return };
    let url = server.url();
    for arguments in [
        &["work", "--redis", &url, "--active", "0"][..],
        &["work", "--redis", &url, "--active", "513"],
        &["work", "--redis", &url, "--pending", "0"],
    ] {
        assert_eq!(fleet(arguments), Some(1), "{arguments:?}");
    }
    let mut redis = server.connect();
    cmd("SET").arg("{other}:jobs").arg("no stream").exec(&mut redis).expect("set");
    assert_eq!(fleet(&["work", "--redis", &url, "--fleet", "other"]), Some(1));
    cmd("CONFIG").arg("SET").arg("requirepass").arg("secret").exec(&mut redis).expect("set");
    assert_eq!(fleet(&["status", "--redis", &url]), Some(1));
}
