//! The conditions of the measurements.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde::Serialize;

use crate::args::Args;
use crate::effort::Effort;
use crate::system::{self, MachineTime};

/// The rivals, and other crates that affect the numbers.
const PACKAGES: [&str; 9] = [
    "cmwq",
    "rayon",
    "tokio",
    "blocking",
    "threadpool",
    "rusty_pool",
    "affinitypool",
    "vicinal",
    "crossbeam-channel",
];

#[derive(Serialize)]
pub(crate) struct About {
    processor: String,
    pub(crate) cpus: usize,
    system: String,
    compiler: String,
    commit: String,
    versions: Vec<String>,
    pub(crate) command: String,
    pub(crate) effort: Effort,
    seed: u64,
    /// The duration of the run, and the percentage of CPU time that other virtual machines on the same hardware used.
    seconds: u64,
    stolen: Option<f64>,
    /// Whether the user is root, who may have nice levels below 0.
    root: bool,
}

/// The state at the beginning of a run. It is recorded then, because sources may be changed meanwhile.
pub(crate) struct Begin {
    compiler: Option<String>,
    commit: Option<String>,
    time: Instant,
    machine: Option<MachineTime>,
}

impl Begin {
    pub(crate) fn now() -> Self {
        let (compiler, commit) = (said_by("rustc", &["--version"]), commit());
        Self { compiler, commit, time: Instant::now(), machine: system::machine_time() }
    }

    fn stolen(&self) -> Option<f64> {
        let (then, now) = (self.machine?, system::machine_time()?);
        let all = now.all.checked_sub(then.all).filter(|all| *all > 0)?;
        Some(100.0 * now.stolen.saturating_sub(then.stolen) as f64 / all as f64)
    }
}

impl About {
    /// Describes a run that has ended.
    pub(crate) fn this_run(args: &Args, begin: Begin) -> Self {
        let arguments = std::env::args().skip(1).map(|argument| format!(" {}", without_folder(&argument)));
        let command = format!("cargo run --release -p rivals --{}", arguments.collect::<String>());
        let (seconds, stolen) = (begin.time.elapsed().as_secs(), begin.stolen());
        Self {
            processor: processor(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            system: said_by("uname", &["-sr"]).unwrap_or_else(|| "an unknown system".into()),
            compiler: begin.compiler.unwrap_or_else(|| "an unknown compiler".into()),
            commit: begin.commit.unwrap_or_else(|| "an unknown commit".into()),
            versions: versions(include_str!("../../../Cargo.lock")),
            command,
            effort: args.effort,
            seed: args.seed,
            seconds,
            stolen,
            root: rustix::process::geteuid().is_root(),
        }
    }

    pub(crate) fn markdown(&self) -> String {
        let stolen = self.stolen.filter(|percent| *percent >= 0.5);
        let stolen = stolen.map_or(String::new(), |percent| {
            format!("; {percent:.0} % of their time meanwhile went to other machines on this hardware")
        });
        let root = if self.root {
            "root, who may have nice levels below 0"
        } else {
            "not root: no nice levels below 0"
        };
        let effort =
            format!("{}, {} s, order of rivals from seed {}", self.effort.name(), self.seconds, self.seed);
        let rows = [
            ("machine", format!("{}, {} CPUs{stolen}", self.processor, self.cpus)),
            ("system", format!("{}, as {root}", self.system)),
            ("compiler", format!("{}, release profile", self.compiler)),
            ("commit", self.commit.clone()),
            ("versions", self.versions.join(", ")),
            ("effort", effort),
            ("command", format!("`{}`", self.command)),
        ];
        let rows = rows.map(|(name, value)| format!("| {name} | {value} |\n"));
        format!("| | |\n|---|---|\n{}", rows.concat())
    }

    /// Describes the machine in a few words.
    pub(crate) fn machine(&self) -> String {
        format!("{} CPUs ({}, {})", self.cpus, self.processor, self.system)
    }
}

/// Removes folders from a path in an argument, because they are private.
fn without_folder(argument: &str) -> String {
    let (option, value) = argument.split_once('=').map_or(("", argument), |(name, value)| (name, value));
    let name = Path::new(value).file_name().filter(|_| Path::new(value).is_absolute());
    match (name, option) {
        (None, _) => argument.to_owned(),
        (Some(name), "") => name.to_string_lossy().into_owned(),
        (Some(name), option) => format!("{option}={}", name.to_string_lossy()),
    }
}

fn processor() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or("an unknown processor".into(), |(_, name)| name.trim().to_owned())
}

fn commit() -> Option<String> {
    let commit = said_by("git", &["rev-parse", "--short=12", "HEAD"])?;
    let changed = said_by("git", &["status", "--porcelain", "--untracked-files=no"]).is_some();
    Some(if changed { format!("{commit}, with changes") } else { commit })
}

/// Returns the output of a program, if it succeeds and prints something.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Returns names and versions from the lock file.
fn versions(lock: &str) -> Vec<String> {
    let of = |name: &&str| {
        let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?.1;
        Some(format!("{name} {}", entry.split_once('"')?.0))
    };
    PACKAGES.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{PACKAGES, versions, without_folder};

    #[test]
    fn an_absolute_path_is_shown_as_a_name() {
        let shown =
            ["/some/where/page.md", "--write=/some/where/page.md", "docs/page.md", "empty/2", "--quick"]
                .map(without_folder);
        assert_eq!(shown, ["page.md", "--write=page.md", "docs/page.md", "empty/2", "--quick"]);
    }

    #[test]
    fn every_rivals_version_is_known() {
        let versions = versions(include_str!("../../../Cargo.lock"));
        assert_eq!(versions.len(), PACKAGES.len(), "{versions:?}");
        assert!(versions[1].starts_with("rayon 1."), "{versions:?}");
    }
}
