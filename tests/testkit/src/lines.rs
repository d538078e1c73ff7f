//! A logger that keeps its lines.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A logger that keeps the crate's log lines, with their levels. A process has only one logger.
pub struct Lines(Mutex<Vec<(log::Level, String)>>);

/// The logger of this process.
pub static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl Lines {
    /// Installs this logger, which from now on keeps the lines of this level and of more severe ones.
    pub fn keep(&'static self, level: log::LevelFilter) {
        log::set_logger(self).expect("this process has no other logger");
        log::set_max_level(level);
    }

    /// Returns the lines of this level.
    pub fn of(&self, level: log::Level) -> Vec<String> {
        self.lock().iter().filter(|(of, _)| *of == level).map(|(_, line)| line.clone()).collect()
    }

    /// Returns the lines of this level that contain all of these words.
    pub fn with(&self, level: log::Level, words: &[&str]) -> Vec<String> {
        let mut lines = self.of(level);
        lines.retain(|line| words.iter().all(|word| line.contains(word)));
        lines
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(log::Level, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target() == "cmwq" {
            self.lock().push((record.level(), record.args().to_string()));
        }
    }

    fn flush(&self) {}
}
