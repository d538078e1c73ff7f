//! The process-wide executor when nobody configures it: a binary of its own, with one test.

use cmwq::{BuildExecutorError, Executor, WorkQueue};

/// spec: E1 (made on first use; an error if already made)
#[test]
fn the_global_executor_is_made_on_first_use() {
    let queue = WorkQueue::per_cpu("q").build().unwrap();
    let name = queue.spawn(|| std::thread::current().name().unwrap().to_owned()).unwrap().join().unwrap();
    assert!(name.starts_with("cmwq/"), "{name}");
    assert!(Executor::global().dump().threads > 0);
    let late = Executor::builder().build_global();
    assert!(matches!(late, Err(BuildExecutorError::GlobalExists)));
}
