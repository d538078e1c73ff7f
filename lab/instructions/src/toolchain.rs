//! The compiler and the tools with which operations were counted.

use std::error::Error;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// All things besides the sources that change the instructions or their counting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Toolchain {
    pub(crate) compiler: String,
    pub(crate) target: String,
    /// The version of the C library, whose allocator is included in the counts.
    pub(crate) libc: String,
    pub(crate) valgrind: String,
}

impl Toolchain {
    pub(crate) fn here() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let valgrind = said_by("valgrind", &["--version"]);
        Ok(Self {
            compiler: env!("COMPILER").into(),
            target: env!("TARGET").into(),
            libc: said_by("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_else(|| "unknown".into()),
            valgrind: valgrind.ok_or("there is no valgrind: sh .ci/setup-valgrind installs it")?,
        })
    }

    /// Returns the differences in words.
    pub(crate) fn differences(&self, from: &Self) -> Vec<String> {
        let pairs = [
            ("compiler", &self.compiler, &from.compiler),
            ("target", &self.target, &from.target),
            ("C library", &self.libc, &from.libc),
            ("valgrind", &self.valgrind, &from.valgrind),
        ];
        let told = |(what, now, then): (&str, &String, &String)| format!("{what}: {now}, recorded {then}");
        pairs.into_iter().filter(|(_, now, then)| now != then).map(told).collect()
    }
}

/// Returns the output of a program, if it succeeds and prints something.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
pub(crate) fn example() -> Toolchain {
    let text = |text: &str| text.to_owned();
    Toolchain {
        compiler: text("rustc 1.95.0"),
        target: text("x86_64-unknown-linux-gnu"),
        libc: text("glibc 2.36"),
        valgrind: text("valgrind-3.19.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        assert!(example().differences(&example()).is_empty());
        let other = Toolchain { compiler: "rustc 1.96.0".into(), libc: "glibc 2.41".into(), ..example() };
        assert_eq!(
            other.differences(&example()),
            ["compiler: rustc 1.96.0, recorded rustc 1.95.0", "C library: glibc 2.41, recorded glibc 2.36"]
        );
    }

    #[test]
    fn the_build_knows_its_compiler() {
        assert!(env!("COMPILER").starts_with("rustc 1."), "{}", env!("COMPILER"));
        assert!(env!("TARGET").contains('-'), "{}", env!("TARGET"));
    }
}
