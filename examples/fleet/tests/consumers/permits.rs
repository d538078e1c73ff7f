//! The number of jobs that a consumer fetches.

use std::collections::BTreeMap;

use crate::support::{Server, eventually};

/// spec: I4.2: of 50 jobs, a consumer takes as many as may run and may wait on it. Other consumers get the remaining
/// jobs.
#[test]
fn permits_decide_how_many_jobs_a_consumer_fetches() {
    let Some(server) = Server::start() else { return };
    server.add(0..50, &["--pause", "600"]);
    let _small = server.work("small", &["--active", "2", "--pending", "3"]);
    let mut expected = BTreeMap::from([("small".to_owned(), 5)]);
    eventually("it has five", || server.in_hand() == expected);
    let _large = server.work("large", &["--active", "30", "--pending", "10"]);
    expected.insert("large".into(), 40);
    eventually("the other one has 40", || server.in_hand() == expected);
    // If a consumer could ask for more jobs, it would do so within these seconds.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(server.in_hand(), expected);
    assert!(server.fleet(&["status"]).starts_with("waiting 5, in hand 45, stored 0"));
}
