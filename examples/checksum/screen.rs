//! Standard output, messages on standard error, and a progress bar if standard error is a terminal.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cmwq::WorkQueue;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::names;
use crate::walk;

/// The size of the pieces in which output is written. A shorter piece is written if no further result is ready.
const PIECE: usize = 64 * 1024;

/// Writes standard output and standard error around the bar.
pub(crate) struct Screen {
    pending: Vec<u8>,
    progress: Arc<Progress>,
    output_is_terminal: bool,
}

/// The progress of the run, shared with the items.
pub(crate) struct Progress {
    bar: ProgressBar,
    files: AtomicU64,
    bytes: AtomicU64,
    finished: Arc<AtomicBool>,
}

impl Screen {
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        Self { pending: Vec::new(), progress, output_is_terminal: io::stdout().is_terminal() }
    }

    /// Adds a line to the output.
    pub(crate) fn print(&mut self, line: &[u8]) {
        self.pending.extend_from_slice(line);
    }

    /// Counts a result, and writes the pending output if it is long enough.
    pub(crate) fn file_done(&mut self) -> io::Result<()> {
        self.progress.file_done();
        if self.pending.len() < PIECE { Ok(()) } else { self.flush() }
    }

    /// Writes the pending output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let write = || {
            let mut output = io::stdout().lock();
            output.write_all(&self.pending)?;
            output.flush()
        };
        // If standard output and the bar are on one terminal, the bar is hidden during the write.
        let written = if self.output_is_terminal { self.progress.bar.suspend(write) } else { write() };
        self.pending.clear();
        written
    }

    /// Prints a message in the usual form of tools, which has the program, the subject and the reason.
    pub(crate) fn message(&self, text: &str) {
        // If standard error is closed, the message is lost.
        self.progress.bar.suspend(|| writeln!(io::stderr(), "checksum: {text}").ok());
    }

    pub(crate) fn file_error(&self, path: &Path, error: &io::Error) {
        self.message(&format!("{}: {}", names::quoted(path), reason(error)));
    }
}

/// Returns the system's text of an error, without the number that Rust adds.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].into(),
        None => text,
    }
}

impl Progress {
    pub(crate) fn new() -> Self {
        // The bar is hidden if standard error is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style("{spinner} {msg}, {bytes} at {binary_bytes_per_sec}"));
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self { bar, files: AtomicU64::new(0), bytes: AtomicU64::new(0), finished: Arc::default() }
    }

    /// Counts files and bytes in the background, if the bar is visible.
    pub(crate) fn count(&self, paths: &[PathBuf]) {
        if self.bar.is_hidden() {
            return;
        }
        let Ok(queue) = WorkQueue::builder("checksum-count").build() else { return };
        let (bar, finished, paths) = (self.bar.clone(), Arc::clone(&self.finished), paths.to_vec());
        let count = move || {
            let _guard = cmwq::BlockingGuard::enter();
            let mut total = 0;
            for path in walk::files(&paths).flatten() {
                if finished.load(Relaxed) {
                    return;
                }
                total += fs::symlink_metadata(&path).map_or(0, |about| about.len());
            }
            bar.set_length(total);
            bar.set_style(style(
                "{wide_bar} {percent}% of {total_bytes}, {msg}, {binary_bytes_per_sec}, {eta} left",
            ));
        };
        // If this item is refused, the bar shows how much is done, but not the total.
        queue.spawn(count).map(drop).ok();
    }

    pub(crate) fn hashed(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.bar.inc(bytes);
    }

    fn file_done(&self) {
        let files = self.files.fetch_add(1, Relaxed) + 1;
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("{files} files"));
        }
    }

    pub(crate) fn finish(&self) {
        self.finished.store(true, Relaxed);
        self.bar.finish_and_clear();
    }

    pub(crate) fn files(&self) -> u64 {
        self.files.load(Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well-formed")
}
