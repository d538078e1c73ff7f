//! The end of a consumer, on a signal.

use redis::cmd;

use crate::support::{Server, eventually};

/// spec: I4.4: a consumer that is asked to end finishes the jobs that it has, and takes no further jobs.
#[test]
fn a_consumer_finishes_its_jobs_before_it_ends() {
    let Some(server) = Server::start() else { return };
    let consumer = server.work("one", &["--active", "4", "--pending", "2"]);
    server.add(0..100, &["--pause", "0.5"]);
    eventually("it has jobs", || server.in_hand().contains_key("one"));
    let (status, said) = consumer.terminate();
    assert!(status.success(), "{said:?}");
    assert!(said.last().is_some_and(|line| line.contains("one has ended")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("given back") || line.contains("taken over")), "{said:?}");
    let stored = server.results().len();
    assert!((1..100).contains(&stored), "{stored} jobs");
    let status = server.fleet(&["status"]);
    assert_eq!(status, format!("waiting {}, in hand 0, stored {stored}, set aside 0\n", 100 - stored));
    let mut info = cmd("XINFO");
    info.arg("CONSUMERS").arg("{fleet}:jobs").arg("consumers");
    let consumers: Vec<redis::Value> = info.query(&mut server.connect()).expect("an answer");
    assert!(consumers.is_empty(), "it is forgotten: {consumers:?}");
    let _other = server.work("two", &[]);
    server.assert_all_stored_once(100);
}

/// spec: I4.4: jobs that take longer than the grace period are given back. Another consumer gets them immediately, and
/// not after the claim timeout. The interrupted run does not count as an attempt.
#[test]
fn a_consumer_gives_long_jobs_back() {
    let Some(server) = Server::start() else { return };
    let options = ["--active", "2", "--claim", "3600", "--attempts", "1"];
    let consumer = server.work("one", &[&options[..], &["--grace", "0.5"]].concat());
    server.add(0..6, &["--pause", "10"]);
    eventually("it has the jobs", || server.in_hand() == [("one".into(), 6)].into());
    let (status, said) = consumer.terminate();
    assert!(status.success(), "{said:?}");
    assert!(said.iter().any(|line| line.contains("6 jobs are given back")), "{said:?}");
    let other = server.work("two", &options);
    server.assert_all_stored_once(6);
    assert!(other.has_said("over from one"), "{:?}", other.said());
}

/// spec: I4.4: a consumer also gives back jobs that Redis has sent to it, but whose message it has not received.
#[test]
fn a_consumer_gives_jobs_back_of_which_it_does_not_know() {
    let Some(server) = Server::start() else { return };
    let options = ["--active", "1", "--claim", "3600", "--grace", "0.1"];
    let consumer = server.work("one", &[&options[..], &["--pending", "1"]].concat());
    server.add(0..2, &["--pause", "600"]);
    eventually("it has two jobs", || server.in_hand() == [("one".into(), 2)].into());
    server.add(2..5, &[]);
    let mut fetch = cmd("XREADGROUP");
    fetch.arg("GROUP").arg("consumers").arg("one").arg("STREAMS").arg("{fleet}:jobs").arg(">");
    fetch.exec(&mut server.connect()).expect("an answer");
    let (status, said) = consumer.terminate();
    assert!(status.success() && said.iter().any(|line| line.contains("5 jobs are given back")), "{said:?}");
    let _other = server.work("two", &options);
    eventually("the other one has all", || server.in_hand() == [("two".into(), 5)].into());
}

/// spec: I4.4: without a server, a consumer with results still ends in time.
#[test]
fn a_consumer_ends_without_its_server() {
    let Some(mut server) = Server::start() else { return };
    let options = ["--claim", "1", "--grace", "1"];
    let consumer = server.work("one", &options);
    server.add(0..3, &["--pause", "0.5"]);
    eventually("it has the jobs", || server.in_hand() == [("one".into(), 3)].into());
    server.signal(rustix::process::Signal::STOP);
    eventually("it has noticed", || consumer.has_said("trying again in"));
    let (status, said) = consumer.terminate();
    assert!(status.success(), "{said:?}");
    assert!(said.iter().any(|line| line.contains("3 jobs are taken over in 1s")), "{said:?}");
    server.go_away(std::time::Duration::ZERO);
    let _other = server.work("two", &options);
    server.assert_all_stored_once(3);
}
