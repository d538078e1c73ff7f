//! What the numbers belong to.

use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::args::Args;

/// The rivals, and what else decides over the numbers.
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
    command: String,
    effort: &'static str,
    seed: u64,
}

impl About {
    pub(crate) fn this_run(args: &Args) -> Self {
        let arguments = std::env::args().skip(1).map(|argument| format!(" {argument}"));
        let command = format!("cargo run --release -p rivals --{}", arguments.collect::<String>());
        Self {
            processor: processor(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            system: said_by("uname", &["-sr"]).unwrap_or_else(|| "an unknown system".into()),
            compiler: said_by("rustc", &["--version"]).unwrap_or_else(|| "an unknown compiler".into()),
            commit: commit().unwrap_or_else(|| "an unknown commit".into()),
            versions: versions(include_str!("../../Cargo.lock")),
            command,
            effort: args.effort.name(),
            seed: args.seed,
        }
    }

    pub(crate) fn markdown(&self) -> String {
        let Self { processor, cpus, system, compiler, commit, versions, command, effort, seed } = self;
        format!(
            "| | |\n|---|---|\n| machine | {processor}, {cpus} CPUs |\n| system | {system} |\n\
             | compiler | {compiler} |\n| commit | {commit} |\n| versions | {} |\n| effort | {effort} |\n\
             | seed of the order | {seed} |\n| command | `{command}` |\n",
            versions.join(", ")
        )
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

/// What a program prints, if it prints something and is content.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// What was built with: names and versions out of the lock file.
fn versions(lock: &str) -> Vec<String> {
    let of = |name: &&str| {
        let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?.1;
        Some(format!("{name} {}", entry.split_once('"')?.0))
    };
    PACKAGES.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{PACKAGES, versions};

    #[test]
    fn every_rivals_version_is_known() {
        let versions = versions(include_str!("../../Cargo.lock"));
        assert_eq!(versions.len(), PACKAGES.len(), "{versions:?}");
        assert!(versions[1].starts_with("rayon 1."), "{versions:?}");
    }
}
