//! Functions that the tests of the kit share.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Adds 1 to the number.
pub(crate) fn add(number: &AtomicU32) {
    number.fetch_add(1, SeqCst);
}

/// Calls `run`, which panics, and returns the message of the panic.
pub(crate) fn message(run: impl FnOnce()) -> String {
    let caught = catch_unwind(AssertUnwindSafe(run));
    text(&*caught.expect_err("the run fails"))
}

pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).expect("the payload is a text").to_owned()
}

/// Asserts that the text contains all of the parts.
#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
