//! A small service that is written without any guards. Its items call `std::thread::sleep`, `Mutex::lock` and
//! `File::read` like any other code.
//!
//! Each kind of item comes from a function of its own, so the executor's lists show that function's name. Only in one
//! mode, for comparison, items enter guards.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bed::NO_PANIC;
use crate::load::burn;
use crate::mode::Mode;
use crate::pages::Pages;

/// The CPU time of a request.
const REQUEST: Duration = Duration::from_micros(400);
/// The time that another service takes to answer.
const REMOTE: Duration = Duration::from_millis(6);
/// The time that it takes to make an entry durable.
const COMMIT: Duration = Duration::from_micros(2500);
const NOTE: Duration = Duration::from_micros(20);
/// The CPU time of a report. A real service should divide the report, or give it to a CPU-intensive queue.
const REPORT: Duration = Duration::from_millis(40);

pub(crate) struct Service {
    mode: Mode,
    ledger: Mutex<u64>,
    pages: Pages,
}

impl Service {
    /// # Errors
    ///
    /// If the pages cannot be written.
    pub(crate) fn new(mode: Mode) -> io::Result<Self> {
        Ok(Self { mode, ledger: Mutex::new(0), pages: Pages::write()? })
    }
}

/// Makes an item that asks another service. A sleep stands for that request.
pub(crate) fn ask_remote(service: &Arc<Service>) -> impl FnOnce() + Send + 'static {
    let mode = service.mode;
    move || {
        burn(REQUEST / 2);
        mode.wait(|| sleep(REMOTE));
        burn(REQUEST / 2);
    }
}

/// Makes an item that makes an entry in the ledger. The ledger is locked until the entry is durable.
pub(crate) fn book(service: &Arc<Service>) -> impl FnOnce() + Send + 'static {
    let service = Arc::clone(service);
    move || {
        burn(REQUEST);
        let mut ledger = service.mode.wait(|| service.ledger.lock()).expect(NO_PANIC);
        *ledger += 1;
        service.mode.wait(|| sleep(COMMIT));
    }
}

/// Makes an item that reads a page that is not in memory.
pub(crate) fn send_page(
    service: &Arc<Service>,
    number: usize,
) -> impl FnOnce() -> io::Result<usize> + Send + 'static {
    let service = Arc::clone(service);
    move || {
        let mut file = service.pages.open(number)?;
        let page = service.mode.wait(|| read(&mut file))?;
        burn(REQUEST);
        Ok(page.len())
    }
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    file.read_to_end(&mut page)?;
    Ok(page)
}

/// Makes an item that only computes, and returns the time since the request.
pub(crate) fn shrink_image(asked: Instant) -> impl FnOnce() -> Duration + Send + 'static {
    move || {
        burn(REQUEST);
        asked.elapsed()
    }
}

/// Makes an item that computes for a short time, and returns the time since the request.
pub(crate) fn take_note(asked: Instant) -> impl FnOnce() -> Duration + Send + 'static {
    move || {
        burn(NOTE);
        asked.elapsed()
    }
}

/// Makes an item that computes for long.
pub(crate) fn write_report() -> impl FnOnce() + Send + 'static {
    || burn(REPORT)
}
