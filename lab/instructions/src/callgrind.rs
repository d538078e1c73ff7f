//! The process whose instructions callgrind counts.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{self, Command, Output};
use std::thread;
use std::time::Duration;

use crate::case::{CASES, Case};
use crate::profile::Profile;
use crate::verdict::median;

/// The time limit of a case. A case takes two seconds, or ten seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The name of callgrind's output files, to which it appends the number of the round.
const OUTPUT: &str = "counts";

/// The results of a count.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The instructions of one operation, in each round.
    pub(crate) rounds: Vec<f64>,
    /// The instructions of each function.
    pub(crate) functions: Vec<(String, f64)>,
}

impl Counts {
    /// Returns the counts of the process with the fewer instructions, of two processes that counted one operation.
    pub(crate) fn least(self, other: Self) -> Self {
        if median(&self.rounds) <= median(&other.rounds) { self } else { other }
    }
}

/// The count of an operation.
pub(crate) struct Task {
    pub(crate) case: &'static Case,
    /// The number of rounds that are not counted.
    pub(crate) idle: usize,
    pub(crate) rounds: usize,
}

impl Task {
    fn words(&self) -> [String; 3] {
        [self.case.name(), self.idle.to_string(), self.rounds.to_string()]
    }

    pub(crate) fn from_words(words: &[String]) -> Option<Self> {
        let [name, idle, rounds] = words else { return None };
        let case = CASES.iter().find(|case| case.name() == *name)?;
        Some(Self { case, idle: idle.parse().ok()?, rounds: rounds.parse().ok()? })
    }

    /// Does the task, in the counted process. The operation does not run on the main thread, because all other threads
    /// get the CPUs of the main thread.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let case = self.case.name();
        thread::spawn(move || {
            thread::sleep(PATIENCE);
            eprintln!("instructions: {case} has not ended within {} s", PATIENCE.as_secs());
            process::exit(1);
        });
        let issuer = thread::spawn(move || self.case.count(self.idle, self.rounds));
        issuer.join().unwrap_or_else(|_| Err("the issuer has panicked".into()))
    }

    pub(crate) fn count(&self) -> Result<Counts, Box<dyn Error + Send + Sync>> {
        let folder = tempfile::tempdir()?;
        let output = self.valgrind(folder.path())?;
        let case = self.case.name();
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{case}: valgrind has ended with {}:\n{told}", output.status).into());
        }
        let (mut rounds, mut profile) = (Vec::new(), Profile::default());
        for round in 1..=self.rounds {
            let file = folder.path().join(format!("{OUTPUT}.{round}"));
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let total = total(&text).ok_or_else(|| format!("{case}: callgrind reports no total"))?;
            rounds.push(total as f64 / self.case.times as f64);
            profile.add(&text);
        }
        Ok(Counts { rounds, functions: profile.most(self.rounds * self.case.times) })
    }

    fn valgrind(&self, folder: &Path) -> Result<Output, Box<dyn Error + Send + Sync>> {
        let mut output = std::ffi::OsString::from("--callgrind-out-file=");
        output.push(folder.join(OUTPUT));
        let mut command = Command::new("valgrind");
        // Threads take turns if valgrind supports that. So the code of a round trip always takes the same path.
        command.args(["--quiet", "--tool=callgrind", "--collect-atstart=no", "--fair-sched=try"]).arg(output);
        command.arg(std::env::current_exe()?).arg("--count").args(self.words());
        Ok(command.output().map_err(|error| format!("valgrind cannot be started: {error}"))?)
    }
}

/// Returns callgrind's total. Returns `None` if callgrind counted more than instructions, which are its default.
fn total(text: &str) -> Option<u64> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    (line("events: ")?.trim() == "Ir").then_some(())?;
    line("totals: ")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_with_the_fewer_instructions_counts() {
        let counts = |rounds: &[f64]| Counts { rounds: rounds.to_vec(), functions: Vec::new() };
        let (few, many) = ([9.0, 3000.0, 3001.0], [2.0, 3700.0, 3701.0]);
        assert_eq!(counts(&few).least(counts(&many)).rounds, few);
        assert_eq!(counts(&many).least(counts(&few)).rounds, few);
    }

    #[test]
    fn the_total_is_found() {
        let text = "# callgrind format\nversion: 1\ndesc: Trigger: Client Request\n\npositions: line\nevents: Ir\n\
                    fn=(0)\n0 12\n\ntotals: 171469\n";
        assert_eq!(total(text), Some(171_469));
    }

    #[test]
    fn a_total_of_other_events_is_refused() {
        assert_eq!(total("totals: 12\n"), None, "an unknown event");
        assert_eq!(total("events: Ir Bc\ntotals: 12 3\n"), None, "more than one event");
        assert_eq!(total("events: Ir\n"), None, "an incomplete file");
        assert_eq!(total("events: Ir\ntotals: many\n"), None);
    }

    #[test]
    fn a_task_survives_its_command_line() {
        for case in CASES {
            let task = Task { case, idle: 3, rounds: 7 };
            let again = Task::from_words(&task.words()).expect("the words are a task");
            assert_eq!((again.case.name(), again.idle, again.rounds), (case.name(), 3, 7));
        }
        assert!(
            Task::from_words(&["queue".into(), "1".into(), "2".into()]).is_none(),
            "the queue is missing"
        );
    }
}
