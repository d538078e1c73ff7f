//! The conditions of a measurement, for the pages that publish it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The state at the beginning of a run. It is recorded at the beginning, because sources may be changed during the run.
pub struct Begin {
    /// The name and version of the compiler.
    pub compiler: String,
    /// The commit, and whether the sources differ from it.
    pub commit: String,
    time: Instant,
    machine: Option<MachineTime>,
}

impl Begin {
    /// Records the present state.
    pub fn now() -> Self {
        let compiler = said_by("rustc", &["--version"]).unwrap_or_else(|| "an unknown compiler".into());
        let commit = commit().unwrap_or_else(|| "an unknown commit".into());
        Self { compiler, commit, time: Instant::now(), machine: MachineTime::now() }
    }

    /// Returns the duration of the run so far, in seconds.
    pub fn seconds(&self) -> u64 {
        self.time.elapsed().as_secs()
    }

    /// Returns the percentage of CPU time since the beginning that other virtual machines on the same hardware used.
    pub fn stolen(&self) -> Option<f64> {
        let (then, now) = (self.machine?, MachineTime::now()?);
        let all = now.all.checked_sub(then.all).filter(|all| *all > 0)?;
        Some(100.0 * now.stolen.saturating_sub(then.stolen) as f64 / all as f64)
    }
}

/// The time of all CPUs since the machine was started, in ticks.
#[derive(Clone, Copy)]
struct MachineTime {
    all: u64,
    /// The time in which virtual CPUs were ready to run, but the host ran another virtual machine.
    stolen: u64,
}

impl MachineTime {
    fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        // The remaining fields are the parts of guests in the earlier fields.
        let ticks: Vec<u64> = ticks.take(8).map(|ticks| ticks.parse().ok()).collect::<Option<_>>()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }
}

/// Returns the arguments of this program as they stand on a command line, each after a space.
pub fn arguments() -> String {
    std::env::args().skip(1).map(|argument| format!(" {}", without_folder(&argument))).collect()
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

/// Returns the name of the processor.
pub fn processor() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or("an unknown processor".into(), |(_, name)| name.trim().to_owned())
}

/// Returns the name and the release of the system.
pub fn system() -> String {
    said_by("uname", &["-sr"]).unwrap_or_else(|| "an unknown system".into())
}

fn commit() -> Option<String> {
    let commit = said_by("git", &["rev-parse", "--short=12", "HEAD"])?;
    let changed = said_by("git", &["status", "--porcelain", "--untracked-files=no"]).is_some();
    Some(if changed { format!("{commit}, with changes") } else { commit })
}

/// Returns the output of a program, if it succeeds and prints something. It runs in the checkout from which cargo
/// started this process. The folder at compile time may be another checkout, because checkouts may share a target
/// folder.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let checkout =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let output = Command::new(program).args(arguments).current_dir(checkout).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Returns the names and versions of those of these packages that are in the lock file.
pub fn versions(lock: &str, packages: &[&str]) -> Vec<String> {
    let of = |name: &&str| {
        let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?.1;
        Some(format!("{name} {}", entry.split_once('"')?.0))
    };
    packages.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::without_folder;

    #[test]
    fn an_absolute_path_is_shown_as_a_name() {
        let shown =
            ["/some/where/page.md", "--write=/some/where/page.md", "docs/page.md", "empty/2", "--quick"]
                .map(without_folder);
        assert_eq!(shown, ["page.md", "--write=page.md", "docs/page.md", "empty/2", "--quick"]);
    }
}
