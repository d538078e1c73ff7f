//! Checks the skips: a test that this machine cannot run reports this, is counted, and is on the list of permitted
//! skips.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{exists, root, sources_of};
use testkit::{SKIPS, itself, output, skip, wait};

/// The environment variable that tells a process that a test has started it, to skip the test.
const CHILD: &str = "CMWQ_TEST_SKIPPED";

/// Returns the lines of `.ci/skips`. Each line has a lack, and the tests that may be skipped because of it.
fn permitted() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(".ci/skips")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| {
        let (lack, test) = line.split_once(' ').expect("a lack and a test");
        (lack.to_owned(), test.trim().to_owned())
    };
    lines.map(pair).collect()
}

#[test]
fn a_skip_is_printed_in_spite_of_the_test_harness_and_recorded() {
    if std::env::var_os(CHILD).is_some() {
        return skip("nothing", "this line\nand that");
    }
    let test = "skips::a_skip_is_printed_in_spite_of_the_test_harness_and_recorded";
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skips");
    let _of_an_earlier_run = fs::remove_file(&file);
    let output = output(itself().args([test, "--exact"]).env(CHILD, "1").env(SKIPS, &file)).unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = format!("SKIPPED tidy::{test} (nothing): this line and that\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(written, format!("tidy::{test}\tnothing\tthis line and that\n"));
}

#[test]
fn a_program_that_hangs_is_killed() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let status = wait(&mut sleeper, Duration::from_millis(50)).unwrap();
    assert!(!status.success(), "{status}");
}

#[test]
fn tests_that_may_be_skipped_exist() {
    for (lack, test) in permitted() {
        let test = test.strip_prefix("cmwq::").unwrap_or(&test);
        let any = test.strip_suffix('*').is_some_and(|folder| folder.is_empty() || folder.ends_with("::"));
        assert!(any || exists(test), "{lack}: there is no test {test}");
    }
}

/// `.ci/machine` reports each lack of the machine, and `.ci/test` reports each lack of a build or an emulator.
#[test]
fn every_lack_is_one_that_the_scripts_report() {
    let machine = fs::read_to_string(root().join(".ci/machine")).unwrap();
    let parts = fs::read_to_string(root().join(".ci/test")).unwrap();
    let of_builds: Vec<&str> = parts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("lacks=(")?.strip_suffix(')'))
        .flat_map(|all| all.split(' '))
        .collect();
    let looked_for = |lack: &str| machine.contains(&format!("echo {lack}\n")) || of_builds.contains(&lack);
    let known: BTreeSet<String> = permitted().into_iter().map(|(lack, _)| lack).collect();
    let strange: Vec<&String> = known.iter().filter(|lack| !looked_for(lack)).collect();
    assert!(strange.is_empty(), "{strange:?}");

    let this = "tests/tidy/skips.rs";
    for source in
        ["src", "tests", "examples", "cmwqctl"].into_iter().flat_map(sources_of).filter(|it| it.path != this)
    {
        for call in source.text.split("skip(").skip(1) {
            let Some(lack) = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            assert!(known.contains(lack), "{}: .ci/skips does not know {lack:?}", source.path);
        }
        let own_words = source.path != "tests/testkit/src/skips.rs" && source.text.contains("SKIPPED");
        assert!(!own_words, "{}: a test is skipped by tests/testkit", source.path);
    }
}
