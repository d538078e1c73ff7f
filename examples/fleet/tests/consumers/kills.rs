//! Consumers that die, and jobs that take long.

use crate::support::{Server, eventually};

/// The number of consumers that die.
const KILLS: usize = 20;

/// The number of jobs that are added before each kill.
const JOBS: usize = 20;

/// spec: I4.1: of three consumers, one is killed while it has jobs and is replaced, 20 times. No job is lost, and no
/// job has two results.
#[test]
fn no_job_of_a_killed_consumer_is_lost_or_stored_twice() {
    let Some(server) = Server::start() else { return };
    let options = ["--active", "4", "--pending", "2", "--claim", "1", "--attempts", "1000"];
    let start = |number: usize| server.work(&format!("consumer-{number}"), &options);
    let mut consumers: Vec<_> = (0..3).map(start).collect();
    let mut said = Vec::new();
    for kill in 0..KILLS {
        server.add(kill * JOBS..(kill + 1) * JOBS, &["--pause", "0.3"]);
        let victim = consumers.remove(0);
        eventually("the consumer has jobs", || server.in_hand().contains_key(&victim.name));
        said.extend(victim.kill());
        consumers.push(start(kill + 3));
    }
    server.assert_all_stored_once(KILLS * JOBS);
    for consumer in consumers {
        let (status, lines) = consumer.terminate();
        assert!(status.success(), "{lines:#?}");
        said.extend(lines);
    }
    let taken = said.iter().filter(|line| line.contains(" over from consumer-")).count();
    assert!(taken >= KILLS, "{taken} jobs were taken over: {said:#?}");
    println!("{KILLS} kills, {} jobs, {taken} taken over: 0 lost, 0 stored twice", KILLS * JOBS);
}

/// spec: I4.1: the heartbeat of a living consumer keeps its job, although the consumers look for abandoned jobs many
/// times.
#[test]
fn a_job_that_takes_longer_than_the_claim_timeout_is_not_taken_over() {
    let Some(server) = Server::start() else { return };
    let consumers = ["one", "two"].map(|name| server.work(name, &["--claim", "2"]));
    server.add(0..4, &["--pause", "7"]);
    server.assert_all_stored_once(4);
    for consumer in consumers {
        let (status, said) = consumer.terminate();
        assert!(status.success() && !said.iter().any(|line| line.contains("over from")), "{said:#?}");
    }
}

/// spec: I4.1: a stopped consumer is silent, so its jobs are taken over. When it continues, it runs them, too.
#[test]
fn a_job_that_runs_twice_is_stored_once() {
    let Some(server) = Server::start() else { return };
    let options = ["--claim", "0.5"];
    let stalled = server.work("stalled", &options);
    server.add(0..5, &["--pause", "0.5"]);
    eventually("the consumer has the jobs", || server.in_hand() == [("stalled".into(), 5)].into());
    stalled.signal(rustix::process::Signal::STOP);
    let other = server.work("other", &options);
    eventually("they have results", || server.results().len() == 5);
    stalled.signal(rustix::process::Signal::CONT);
    // The jobs are added once more, as by a producer that got no answer.
    server.add(0..5, &[]);
    server.assert_all_stored_once(5);
    assert!(other.has_said("over from stalled"), "{:?}", other.said());
    let (status, said) = stalled.terminate();
    assert!(status.success() && said.iter().any(|line| line.contains("with 0 jobs")), "{said:?}");
    server.assert_all_stored_once(5);
}
