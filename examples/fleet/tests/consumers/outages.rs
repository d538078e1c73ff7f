//! A server that goes away, and comes back.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Consumer, Server, eventually};

/// spec: I4.3: the server is killed for 10 s while consumers run jobs and store results. The consumers report that, and
/// continue afterwards.
#[test]
fn consumers_survive_a_server_that_goes_away_for_ten_seconds() {
    let Some(mut server) = Server::start() else { return };
    let consumers = start(&server);
    server.add(0..60, &["--pause", "0.5"]);
    eventually("some jobs are done", || server.results().len() >= 5);
    server.go_away(Duration::from_secs(10));
    server.assert_all_stored_once(60);
    assert_told(consumers);
}

/// spec: I4.3: consumers continue after a time in which the server neither answers nor closes its connections.
#[test]
fn consumers_survive_a_server_that_hangs() {
    let Some(server) = Server::start() else { return };
    let consumers = start(&server);
    server.add(0..60, &["--pause", "0.5"]);
    eventually("some jobs are done", || server.results().len() >= 5);
    server.signal(Signal::STOP);
    // The server stays silent for longer than the consumers wait for an answer.
    eventually("all have noticed", || consumers.iter().all(|consumer| consumer.has_said("trying again in")));
    server.signal(Signal::CONT);
    server.assert_all_stored_once(60);
    assert_told(consumers);
}

fn start(server: &Server) -> Vec<Consumer> {
    ["one", "two", "three"].map(|name| server.work(name, &["--active", "4", "--claim", "5"])).into()
}

fn assert_told(consumers: Vec<Consumer>) {
    for consumer in consumers {
        let (status, said) = consumer.terminate();
        let told = |words: &str| said.iter().any(|line| line.contains(words));
        assert!(told("trying again in") && told("Redis is back after"), "{said:#?}");
        assert!(status.success(), "{said:#?}");
    }
}

/// spec: I4.3: a consumer that starts before its server answers waits for the server.
#[test]
fn a_consumer_waits_for_its_server() {
    let Some(mut server) = Server::start() else { return };
    server.add(0..3, &[]);
    server.signal(Signal::STOP);
    let consumer = server.work("early", &[]);
    sleep(Duration::from_millis(100));
    server.go_away(Duration::from_millis(500));
    server.assert_all_stored_once(3);
    assert!(consumer.terminate().0.success());
}
