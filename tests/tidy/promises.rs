//! The promises of the crate about its packages and documents.

use std::fs;
use std::process::Command;

use super::{root, sources_of};
use testkit::output;

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the lines of a table of a manifest.
pub(super) fn table_of<'a>(manifest: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("[{name}]");
    let lines = manifest.lines().skip_while(move |line| *line != head).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#') && !line.is_empty())
}

/// Returns the names of a table's entries.
fn names_of(manifest: &str, table: &str) -> Vec<String> {
    table_of(manifest, table).filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

/// For each departure from the kernel, words of the contract, and words of the guide.
const DEPARTURES: [[&str; 2]; 8] = [
    ["typed errors", "typed errors"],
    ["cancels armed timers", "cancels the queue's armed timers"],
    ["survive", "survive"],
    ["unbalanced `enable`", "surplus call of [`enable`](crate::Work::enable) is an error"],
    ["managed unbound queues", "Managed queues"],
    ["work-conserving", "conserve work"],
    ["RCU work", "RCU work"],
    ["per CPU and priority", "pinned thread for each CPU and priority"],
];

/// spec: D.1: the guide mentions each departure that the contract lists.
#[test]
fn departures_from_the_kernel_are_documented() {
    let contract = read("docs/contract.md");
    let row = contract.lines().find_map(|line| line.strip_prefix("| D |")).expect("there is such a row");
    let listed: Vec<&str> = row.split("; ").collect();
    assert_eq!(listed.len(), DEPARTURES.len(), "{listed:#?}");
    let page = read("src/guide/from_kernel.rs").replace("\n//!   ", " ");
    let section = page.split("//! # Departures from the kernel").nth(1).expect("there is such a section");
    for (part, [word, said]) in listed.into_iter().zip(DEPARTURES) {
        assert!(part.contains(word), "{part:?} is not about {word:?}");
        assert!(section.contains(said), "{said:?} is not there");
    }
}

/// spec: X4.1, X4.4 (with all features): `Cargo.toml`, the front page and the CI agree on the minimum version.
#[test]
fn the_minimum_rust_version_is_stated_and_built_with() {
    let manifest = read("Cargo.toml");
    let version = table_of(&manifest, "package").find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.expect("it is stated").trim_matches('"');
    assert!(read("src/lib.rs").contains(&format!("minimum supported Rust version is {version}.")));
    let ci = read(".github/workflows/ci.yml");
    for options in ["", " --all-features", " --no-default-features"] {
        assert!(ci.contains(&format!("cargo +{version} build --lib{options}\n")), "{options}");
    }
}

/// spec: X4.4 (with the minimum Rust version): at night, a missing toolchain is a failure. The CI installs the
/// toolchain.
#[test]
fn without_a_toolchain_of_the_minimum_version_the_night_fails() {
    let check = |complete: &str| {
        let mut command = Command::new("bash");
        command.arg(root().join(".ci/features")).arg("rust-version").env("COMPLETE", complete);
        // bash reads this variable as a function. The function stands for a `rustup` without this toolchain.
        output(command.env("BASH_FUNC_rustup%%", "() { return 1; }")).unwrap()
    };
    let (usual, complete) = (check(""), check("1"));
    assert!(usual.status.success() && !complete.status.success(), "{usual:?}, {complete:?}");
    assert!(String::from_utf8_lossy(&usual.stderr).starts_with("NOT CHECKED: "), "{usual:?}");
    let ci = read(".github/workflows/ci.yml");
    let nightly = ci.split_once("\n  nightly:\n").expect("there is such a job").1;
    let manifest = read("Cargo.toml");
    let version = table_of(&manifest, "package").find_map(|line| line.strip_prefix("rust-version = "));
    let install = format!("rustup toolchain install {} ", version.expect("it is stated").trim_matches('"'));
    assert!(nightly.contains(&install));
}

/// spec: X4.2: the sources use each dependency that is not optional.
#[test]
fn a_default_build_uses_each_of_its_dependencies() {
    let manifest = read("Cargo.toml");
    let sources = sources_of("src");
    for line in table_of(&manifest, "dependencies").filter(|line| !line.contains("optional = true")) {
        let name = line.split_once(" = ").expect("a dependency").0.replace('-', "_");
        let is_used = sources.iter().any(|source| source.text.contains(&format!("{name}::")));
        assert!(is_used, "{name} is not used");
    }
}

/// spec: X4.3: `make check` builds with each feature alone, without features, and with all features.
#[test]
fn every_feature_is_built_by_itself() {
    let makefile = read("Makefile");
    let built = makefile.lines().find_map(|line| line.strip_prefix("FEATURES = ")).expect("a list");
    let mut built: Vec<&str> = built.split(' ').collect();
    let features = names_of(&read("Cargo.toml"), "features");
    // `hwloc` is the feature that the default build enables.
    let mut features: Vec<&str> =
        features.iter().map(String::as_str).filter(|name| !["default", "hwloc"].contains(name)).collect();
    built.sort_unstable();
    features.sort_unstable();
    assert_eq!(built, features);
    for options in
        ["$(EVERYTHING) --all-targets", "--no-default-features --features $$feature", "clippy --all-targets"]
    {
        assert!(makefile.contains(options), "{options}");
    }
}

/// spec: X4.3: functions for the crate's own tests need a feature that no user enables, and are not in the
/// documentation.
#[test]
fn settings_for_tests_are_no_part_of_the_interface() {
    const CONDITION: &str = "#[cfg(any(test, feature = \"__testing\"))] #[doc(hidden)] pub fn ";
    let sources = sources_of("src");
    let mut settings = 0;
    for text in sources.iter().map(|source| &source.text) {
        for (at, _) in text.match_indices("/// For tests of this crate") {
            let code = text[at..].lines().map(str::trim).skip_while(|line| line.starts_with("///"));
            let code = code.take(3).collect::<Vec<_>>().join(" ");
            assert!(code.starts_with(CONDITION), "{code}");
            settings += 1;
        }
    }
    assert_eq!(settings, 2);
    let manifest = read("Cargo.toml");
    let enabled = |line: &&str| line.starts_with("default = ") || line.starts_with("features = ");
    assert!(!manifest.lines().filter(enabled).any(|line| line.contains("__testing")));
}

/// Returns the commands of a target of the `Makefile`.
pub(super) fn recipe_of<'a>(makefile: &'a str, target: &str) -> Vec<&'a str> {
    let head = format!("{target}:");
    let lines = makefile.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let recipe: Vec<&str> = lines.map_while(|line| line.strip_prefix('\t')).collect();
    assert!(!recipe.is_empty(), "there is no target {target}");
    recipe
}

/// Returns whether `make nightly` makes this target of `lab/Makefile`, with all checks.
pub(super) fn runs_at_night(target: &str) -> bool {
    let makefile = read("lab/Makefile").replace("\\\n", " ");
    let recipe = recipe_of(&makefile, "nightly");
    assert_eq!(recipe, ["$(MAKE) --keep-going CHECK=1 COMPLETE=1 LIMIT=3600 $(NIGHTLY)"]);
    let listed = makefile.lines().find_map(|line| line.strip_prefix("NIGHTLY = ")).expect("there is a list");
    listed.split_whitespace().any(|listed| listed == target)
}

/// spec: C6.2 (`timelines --check`), S1.9 (`undeclared --check`), W5.7, I3.11 (`timers --check`), B3.2, B3.3, B3.8
/// (`weights --check`), O1.12 (`bench-counters`), I5.2 (`lab-service`), T1.1 (`lab-hour`), T2.1 (`lab-orders`), X1.2
/// (`make cross`): `make nightly` runs the checks that depend on times or on other machines, and so are no tests. A
/// check that prints figures exits with 1 if it misses one.
#[test]
fn what_no_test_can_prove_is_checked_at_night() {
    let makefile = read("lab/Makefile");
    for (target, check) in [
        ("timelines-check", "run --release -p timelines -- --check"),
        ("undeclared-check", "run --release -p undeclared -- --check"),
        ("timers-check", "bench --bench timers -- --check"),
        ("weights-check", "bench --bench weights -- --check"),
        ("lab-hour", "bench --features testing --bench virtual_time -- --check"),
        ("lab-orders", "test --release --features testing --test testing schedules"),
        ("bench-counters", "$(if $(CHECK),--check)"),
        ("lab-service", "$(if $(CHECK),--check,--write docs/service.md))"),
        ("cross", ".ci/test $(or $(TARGETS),aarch64-unknown-linux-gnu x86_64-unknown-linux-musl)"),
        ("test-bare", "bash tests/bare/run"),
    ] {
        assert!(runs_at_night(target), "{target}");
        let recipe = recipe_of(&makefile, target);
        assert!(recipe.iter().any(|line| line.ends_with(check)), "{target}: {recipe:?}");
    }
}

/// spec: C6.2, S1.9, I1.8, I4.1, O3.5 (`make bench-check` counts instructions of a build without the feature): the gate
/// also has lines for these checks.
#[test]
fn the_gate_checks_times_instructions_packages_and_services() {
    let gate = read("tests/gate/run");
    let listed = gate.split_once("\nlines=(").and_then(|(_, rest)| rest.split_once(')'));
    let listed: Vec<&str> = listed.expect("there is a list").0.split_whitespace().collect();
    for (line, command) in [
        ("timelines", "timelines -- --check"),
        ("undeclared", "undeclared -- --check"),
        ("timers", "\"$make\" timers-check"),
        ("weights", "\"$make\" weights-check"),
        ("instructions", "\"$make\" bench-check"),
        ("interface", "\"$make\" public-api COMPLETE=1"),
        ("package", "\"$make\" package"),
        ("kit", "lab-hour lab-mistakes lab-orders lab-seeds"),
        // Without Redis, the tests of the example `fleet` would be skipped.
        ("services", "sh .ci/setup-redis && \"$make\" services"),
    ] {
        let runs = gate.lines().filter_map(|text| text.trim_start().strip_prefix(&format!("{line}) ")));
        let runs: Vec<&str> = runs.collect();
        assert!(listed.contains(&line) && runs.len() == 1 && runs[0].contains(command), "{line}: {runs:?}");
    }
    let counted = read("lab/instructions/Cargo.toml");
    let library = table_of(&counted, "dependencies").find(|line| line.starts_with("cmwq = "));
    assert_eq!(library, Some("cmwq = { path = \"../..\" }"), "it is counted without features");
}

/// spec: X4.2, I5.2 (the gate tests the comparison): no command for this package or its workspace builds a dependency
/// that only services need.
#[test]
fn services_are_packages_of_their_own() {
    let manifest = read("Cargo.toml");
    let excluded =
        table_of(&manifest, "workspace").find(|line| line.starts_with("exclude = ")).expect("a list");
    let makefile = read("lab/Makefile");
    let built = makefile.lines().find_map(|line| line.strip_prefix("SERVICES = ")).expect("a list");
    let examples = fs::read_dir(root().join("examples")).unwrap();
    let examples = examples.map(|entry| format!("examples/{}", entry.unwrap().file_name().display()));
    let packages = examples.filter(|folder| root().join(folder).join("Cargo.toml").exists());
    let mut services: Vec<String> = packages.chain(["lab/service".to_owned()]).collect();
    services.sort_unstable();
    for folder in &services {
        assert!(excluded.contains(&format!("\"{folder}\"")), "{folder} is not in {excluded}");
        assert!(root().join(folder).join("Cargo.lock").exists(), "{folder} has no lock of its own");
    }
    let checked = recipe_of(&makefile, "check-benches");
    assert!(checked.iter().any(|line| line.contains("SERVICES=lab/service ")), "{checked:?}");
    assert_eq!(built.split(' ').collect::<Vec<_>>(), services);
    let locked = read("Cargo.lock");
    for name in ["axum", "redis", "tonic"] {
        assert!(!locked.contains(&format!("name = \"{name}\"\n")), "the workspace needs {name}");
    }
}

/// spec: X4.4 (every pair of features): `make nightly` checks each pair of the features in `Cargo.toml`.
#[test]
fn every_pair_of_features_is_built_at_night() {
    assert!(runs_at_night("features"));
    let names = output(Command::new("bash").arg(root().join(".ci/features")).arg("list")).unwrap();
    assert!(names.status.success(), "{names:?}");
    let listed = String::from_utf8(names.stdout).unwrap();
    let mut expected = Vec::new();
    let features = names_of(&read("Cargo.toml"), "features");
    let features: Vec<_> = features.iter().filter(|name| *name != "default").collect();
    for (at, one) in features.iter().enumerate() {
        expected.extend(features[at + 1..].iter().map(|two| format!("{one},{two}")));
    }
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
}

/// Returns the tables of a page. For each table: the line where it begins, its lines, and the text after it up to the
/// next empty line.
fn tables_of(page: &str) -> Vec<(usize, Vec<&str>, String)> {
    let lines: Vec<&str> = page.lines().collect();
    let begins = (0..lines.len()).filter(|at| lines[*at].starts_with('|'));
    let begins = begins.filter(|at| *at == 0 || !lines[at - 1].starts_with('|'));
    let table = |at: usize| {
        let rows: Vec<&str> = lines[at..].iter().copied().take_while(|line| line.starts_with('|')).collect();
        let below = lines[at + rows.len()..].iter().skip(1).take_while(|line| !line.is_empty());
        (at + 1, rows, below.copied().collect::<Vec<_>>().join(" "))
    };
    begins.map(table).collect()
}

/// Returns whether these rows contain a measured value.
fn has_figures(rows: &[&str]) -> bool {
    let units = [" ns ", " \u{b5}s ", " ms ", " s ", " % ", " %,", " %)", " million/s"];
    let numbered = |text: &str, unit: &str| {
        text.match_indices(unit).any(|(at, _)| text[..at].ends_with(|c: char| c.is_ascii_digit()))
    };
    rows.iter().any(|row| units.iter().any(|unit| numbered(row, unit)))
}

/// The pages with tables of measured values. `docs/benchmarks.md`, which a program writes, names its commit once.
const FIGURES: [(&str, usize); 3] = [("README.md", 1), ("docs/scenarios.md", 4), ("docs/costs.md", 4)];

/// The processors of the machines that the figures were measured on.
const PROCESSORS: [&str; 2] = ["AMD EPYC", "Intel Xeon"];

/// `tests/gate/figures` searches for the same words, and reports old figures.
#[test]
fn published_figures_name_their_commit_and_command() {
    for (path, least) in FIGURES {
        let page = read(path);
        let tables: Vec<_> = tables_of(&page).into_iter().filter(|(_, rows, _)| has_figures(rows)).collect();
        assert!(tables.len() >= least, "{path}: {tables:?}");
        for (line, _, below) in tables {
            let said = below.strip_prefix("Measured at ").or_else(|| below.strip_prefix("Simulated at "));
            let commit = said.and_then(|said| said.split_once(" by `")).map(|(commit, _)| commit);
            let is_commit = |text: &str| text.len() >= 7 && text.chars().all(|c| c.is_ascii_hexdigit());
            assert!(commit.is_some_and(is_commit), "{path}:{line}: below it is {below:?}");
        }
        // Each page names the machine and the privilege once.
        assert!(PROCESSORS.iter().any(|name| page.contains(name)), "{path} does not name the processor");
        assert!(page.contains("as root"), "{path} does not say that the commands ran as root");
    }
}

/// The document is short, because an engineer reads all of it before a first change.
#[test]
fn the_description_of_the_architecture_is_short() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= 250, "{lines} lines");
}

/// The first program is on the first screen of the front page.
#[test]
fn the_front_page_is_short() {
    let page = read("README.md");
    assert!(page.lines().count() <= 120, "{} lines", page.lines().count());
    let screen: String = page.lines().take(40).collect();
    for command in ["make demo", "make test", "cargo add cmwq", "--no-default-features"] {
        assert!(screen.contains(command), "{command} is not in the first screen");
    }
}
