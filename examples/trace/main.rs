//! Records a small load of items of all kinds, to show when and on which CPU each item ran.
//!
//! ```text
//! cargo run --release --example trace --features tracing -- trace.json
//! ```
//!
//! Open <https://ui.perfetto.dev> (or `chrome://tracing`) and drop `trace.json` on it. Each worker has a line with the
//! name of its thread: `cmwq/0:1` is worker 1 of CPU 0, and `cmwq/u8:0` is a worker of an unbound pool. Each item is a
//! slice with the name of its function, and a click on the slice shows the item's queue, pool and address. Slices
//! inside of an item's slice are the item's own spans. Marks between slices are the other events: `queue_work` where an
//! item was queued, and `cpu_intensive` where the executor found that an item keeps its CPU.
//!
//! The trace shows:
//!
//! * `thumbnail` (per CPU, computes 2 ms): one such item runs at a time on each CPU;
//! * `request` (managed, computes 0.5 ms and waits 4 ms under a guard): other items run on the CPU while a request
//!   waits;
//! * `legacy` (per CPU, sleeps without a guard): the executor detects the sleep after a moment, and another worker
//!   takes over;
//! * `report` (per CPU, computes 40 ms): after 10 ms the thumbnails that wait behind the report run beside it;
//! * `tick` (periodic).
//!
//! To do the same in your own program, use the crates `tracing-subscriber` and `tracing-chrome`, this crate's feature
//! `tracing`, and the code in `recorder`.
#![allow(clippy::disallowed_methods, reason = "stands in for a user of the crate")]

mod load;
mod recorder;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use cmwq::Executor;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let file = match arguments.as_slice() {
        [] => OsString::from("trace.json"),
        [file] if !file.to_string_lossy().starts_with('-') => file.clone(),
        _ => {
            eprintln!(
                "Usage: trace [FILE]\n\nWrites a trace of a small load to FILE, trace.json by default."
            );
            return ExitCode::from(2);
        }
    };
    match record(&file) {
        Ok(items) => {
            let file = file.to_string_lossy();
            println!("{items} items are in {file}: open https://ui.perfetto.dev and drop it there");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("trace: {}: {error}", file.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}

/// Runs the load, and returns the number of recorded items.
fn record(file: &OsString) -> Result<u64, Box<dyn Error>> {
    // Recorded events are still being written until this value is dropped.
    let recording = recorder::start(file)?;
    let executor = Executor::builder().build()?;
    let items = load::run(&executor)?;
    let report = executor.shutdown(Duration::from_secs(30))?;
    drop(recording);
    match report.is_complete() {
        true => Ok(items),
        false => Err(report.to_string().into()),
    }
}
