//! The pools, the chosen tests, and the tests that are expected to fail.

use std::fs;
use std::path::Path;

use crate::Failure;

/// A published pool, and the shim of the same name.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Whether the unit tests in its `src/lib.rs` are run.
    pub(crate) unit: bool,
    /// The files in its folder `tests` that are run.
    pub(crate) tests: &'static [&'static str],
    /// The number of these tests, without the documentation examples.
    pub(crate) count: usize,
}

pub(crate) const ALL: &[Peer] = &[
    // Four parts are left out. The unit test counts the items in the peer's own queue. `async_task_smoke` tests another
    // crate. `loom_queue` is a model of the peer's queue. The peer itself ignores `unsound`.
    Peer { name: "affinitypool", unit: false, tests: &["self_spawn_wakeup", "threadpool_tests"], count: 42 },
    Peer { name: "rusty_pool", unit: true, tests: &[], count: 34 },
    Peer { name: "scheduled-thread-pool", unit: true, tests: &[], count: 13 },
    Peer { name: "scoped_threadpool", unit: true, tests: &["threads-living-too-long-demo"], count: 9 },
    Peer { name: "threadpool", unit: true, tests: &[], count: 21 },
    Peer { name: "yastl", unit: true, tests: &[], count: 15 },
];

pub(crate) fn find(name: &str) -> Result<&'static Peer, String> {
    ALL.iter().find(|peer| peer.name == name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|peer| peer.name).collect();
        format!("there is no peer {name}; there are {}", names.join(", "))
    })
}

/// A test that is expected to fail.
pub(crate) struct Expected {
    pub(crate) peer: &'static str,
    pub(crate) test: String,
    pub(crate) reason: String,
}

impl Peer {
    /// Reads the shim's `expected.txt`. Each line has a test's name, two spaces or more, and the reason why the test
    /// fails.
    pub(crate) fn expected(&self, lab: &Path) -> Result<Vec<Expected>, Failure> {
        let path = lab.join(self.name).join("expected.txt");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let (test, reason) = line.split_once("  ").ok_or_else(|| {
                    format!("{}: {line}: two spaces part a test's name from the reason", path.display())
                })?;
                Ok(Expected { peer: self.name, test: test.to_owned(), reason: reason.trim().to_owned() })
            })
            .collect()
    }
}
