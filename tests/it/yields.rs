//! The yields around atomics and locks, on which `make yields` and a part of `make test` rely.

use testkit::{again, assert_passed, output};

use crate::support::one_cpu;

/// The environment variable that tells a process that it is the child.
const CHILD: &str = "CMWQ_TEST_YIELDS";

/// The seed of the environment reaches the crate in this program. A program that is built with optimisation never
/// yields.
#[test]
fn threads_yield_if_the_environment_has_a_seed() {
    if std::env::var_os(CHILD).is_some() {
        let queue = cmwq::WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
        return queue.spawn(|| ()).unwrap().join().unwrap();
    }
    let run = |seed: Option<&str>| {
        let mut child = again("yields::threads_yield_if_the_environment_has_a_seed");
        child.env(CHILD, "1").env_remove("CMWQ_YIELD_SEED").envs(seed.map(|seed| ("CMWQ_YIELD_SEED", seed)));
        let ended = output(&mut child).unwrap();
        assert_passed(&ended);
        String::from_utf8_lossy(&ended.stderr).contains("threads yield at their points: CMWQ_YIELD_SEED=7\n")
    };
    assert_eq!((run(Some("7")), run(None)), (cfg!(debug_assertions), false));
}
