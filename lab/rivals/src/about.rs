//! The conditions of the measurements.

use serde::Serialize;
use testkit::conditions::{self, Begin, versions};

use crate::args::Args;
use crate::effort::Effort;

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
    /// The duration of the run. `stolen` is the percentage of CPU time that other virtual machines on the same hardware
    /// used.
    seconds: u64,
    stolen: Option<f64>,
    /// Whether the user is root, so that threads may have nice levels below 0.
    root: bool,
}

impl About {
    /// Describes a run that has ended.
    pub(crate) fn this_run(args: &Args, begin: Begin) -> Self {
        let command = format!("cargo run --release -p rivals --{}", conditions::arguments());
        let (seconds, stolen) = (begin.seconds(), begin.stolen());
        Self {
            processor: conditions::processor(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            system: conditions::system(),
            compiler: begin.compiler,
            commit: begin.commit,
            versions: versions(include_str!("../../../Cargo.lock"), &PACKAGES),
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

#[cfg(test)]
mod tests {
    use super::{PACKAGES, versions};

    #[test]
    fn every_rivals_version_is_known() {
        let versions = versions(include_str!("../../../Cargo.lock"), &PACKAGES);
        assert_eq!(versions.len(), PACKAGES.len(), "{versions:?}");
        assert!(versions[1].starts_with("rayon 1."), "{versions:?}");
    }
}
