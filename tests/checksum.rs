//! Compares `examples/checksum` with the system's `sha512sum`, on a tree of unusual names.
//!
//! `cargo test` also builds the examples, but `cargo test --test checksum` does not.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::{example, output, skip};

const EMPTY: &str = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
                     47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e";

/// Returns a command for the example in this directory.
fn checksum(directory: &Path) -> Command {
    let mut command = Command::new(example("checksum"));
    command.current_dir(directory).stdin(Stdio::null());
    command
}

/// Returns a command that runs `sha512sum` in this directory. If the system has no `sha512sum` that writes names as the
/// example does, reports the test as skipped and returns `None`.
fn sha512sum(directory: &Path) -> Option<Command> {
    let version = Command::new("sha512sum").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let number = version.as_deref().unwrap_or("").lines().next().and_then(|line| line.split(' ').next_back());
    let major = number.and_then(|number| number.split('.').next()?.parse::<u32>().ok());
    if major.is_none_or(|major| major < 9) {
        skip(
            "coreutils",
            format_args!("the reference is sha512sum of GNU coreutils 9 or later, not {version:?}"),
        );
        return None;
    }
    let mut command = Command::new("sha512sum");
    command.current_dir(directory).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    Some(command)
}

/// Makes an empty directory for the test of this name.
fn scratch(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checksum-{test}"));
    if directory.exists() {
        fs::remove_dir_all(&directory).expect("the remains of an earlier run can be removed");
    }
    fs::create_dir_all(&directory).expect("the build's scratch directory can be written");
    directory
}

fn write(path: PathBuf, content: impl AsRef<[u8]>) {
    fs::write(&path, content).unwrap_or_else(|error| panic!("{path:?} is written: {error}"));
}

/// Makes `tree` in a directory. Returns the names of its regular files, in order.
fn odd_tree(directory: &Path) -> Vec<OsString> {
    let big: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let files: &[(&[u8], &[u8])] = &[
        (b"plain", b"1"),
        (b"two words", b"2"),
        (b"new\nline", b"3"),
        (b"back\\slash", b"4"),
        (b"return\r", b"5"),
        (b"\xff\xfe no UTF-8", b"6"),
        (b"-dash", b"7"),
        (b"--", b"8"),
        (b"it's", b"9"),
        (b"empty", b""),
        (b"big", &big),
        (b"one chunk", &big[..256 * 1024]),
        (b"and a byte", &big[..256 * 1024 + 1]),
        // These names sort just before and after the directory `sub/`.
        (b"sub ", b"10"),
        (b"sub.x", b"11"),
        (b"sub0", b"12"),
        (b"sub/z", b"13"),
        (b"sub/deep/\xc3\xa9", b"14"),
        (b"line\nbreak/x", b"15"),
    ];
    let mut names: Vec<_> =
        files.iter().map(|(name, _)| OsString::from_vec([b"tree/", *name].concat())).collect();
    for (name, (_, content)) in names.iter().zip(files) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("it lies in the tree")).expect("a directory is made");
        write(path, content);
    }
    let tree = directory.join("tree");
    fs::create_dir(tree.join("nothing in it")).expect("a directory is made");
    for (to, link) in [("nowhere", "dangling"), ("..", "sub/loop"), ("plain", "link to a file")] {
        symlink(to, tree.join(link)).expect("a link is made");
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, tree.join("fifo"), rustix::fs::Mode::RUSR).expect("a fifo is made");
    names.sort();
    names
}

fn run(command: &mut Command) -> Output {
    output(command).expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_same(ours: &Output, theirs: &Output) {
    assert_eq!(text(&ours.stdout), text(&theirs.stdout));
    assert!(ours.stdout == theirs.stdout, "the outputs differ in bytes that are no text");
    assert_eq!(text(&ours.stderr), text(&theirs.stderr).replace("sha512sum: ", "checksum: "));
    assert_eq!(ours.status.code(), theirs.status.code());
}

#[test]
fn a_listing_is_that_of_sha512sum_in_path_order() {
    let directory = scratch("listing");
    let names = odd_tree(&directory);
    let ours = run(checksum(&directory).arg("tree"));
    assert!(ours.status.success(), "{ours:?}");
    assert!(text(&ours.stdout).contains(&format!("\n{EMPTY}  tree/empty\n")));
    let Some(mut reference) = sha512sum(&directory) else { return };
    assert_same(&ours, &run(reference.arg("--").args(&names)));
}

#[test]
fn paths_that_lie_in_one_another_keep_the_order() {
    let directory = scratch("nested");
    let mut names = odd_tree(&directory);
    let ours = run(checksum(&directory).args(["tree/sub", "tree", "tree/sub/z"]));
    let Some(mut reference) = sha512sum(&directory) else { return };
    let below = names.iter().filter(|name| name.as_bytes().starts_with(b"tree/sub/"));
    let again: Vec<_> = below.cloned().chain(["tree/sub/z".into()]).collect();
    names.extend(again);
    names.sort();
    assert_same(&ours, &run(reference.arg("--").args(&names)));
}

#[test]
fn a_verification_is_that_of_sha512sum() {
    let directory = scratch("verification");
    odd_tree(&directory);
    let mut listing = run(checksum(&directory).arg("tree")).stdout;
    listing.extend_from_slice(b"# a comment\n\nno checksum\n");
    listing.extend_from_slice(format!("SHA512 (tree/empty) = {}\n", EMPTY.to_uppercase()).as_bytes());
    listing.extend_from_slice(format!("{EMPTY} *tree/plain\r\n{EMPTY}  tree\n\\{EMPTY}  x\\y").as_bytes());
    write(directory.join("listing"), &listing);
    write(directory.join("one blank"), format!("{EMPTY} tree/empty\n{EMPTY}  tree/empty\n"));
    write(directory.join("nothing"), "no checksum\n");
    fs::remove_file(directory.join("tree/new\nline")).expect("a file goes");
    write(directory.join("tree/sub0"), "changed");

    for arguments in [
        &["-c", "listing"][..],
        &["--check", "--quiet", "listing"],
        &["-c", "--status", "listing"],
        &["-c", "--ignore-missing", "listing"],
        &["-c", "one blank"],
        &["-c", "nothing"],
        &["-c", "one blank", "not there", "listing"],
    ] {
        let ours = run(checksum(&directory).args(arguments));
        assert_eq!(ours.status.code(), Some(1), "{arguments:?}: {ours:?}");
        let Some(mut reference) = sha512sum(&directory) else { return };
        assert_same(&ours, &run(reference.args(arguments)));
    }
}

#[test]
fn a_good_tree_verifies() {
    let directory = scratch("good");
    let names = odd_tree(&directory);
    let mut listing = run(checksum(&directory).arg("tree")).stdout;
    write(directory.join("listing"), &listing);
    let verified = run(checksum(&directory).args(["-c", "listing"]));
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    assert_eq!(text(&verified.stdout).matches(": OK\n").count(), names.len());

    // If some lines are properly formatted, other lines are an error only with `--strict`.
    listing.write_all(b"no checksum\n").expect("memory can be written");
    write(directory.join("listing"), &listing);
    assert!(run(checksum(&directory).args(["-c", "listing"])).status.success());
    assert_eq!(run(checksum(&directory).args(["-c", "--strict", "listing"])).status.code(), Some(1));
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_the_others_go_on() {
    let directory = scratch("unreadable");
    write(directory.join("good"), "");
    // Not even root can read the beginning of this regular file.
    let ours = run(checksum(&directory).args(["/proc/self/mem", "good", "it's missing"]));
    assert_eq!(text(&ours.stdout), format!("{EMPTY}  good\n"));
    assert_eq!(
        text(&ours.stderr),
        "checksum: /proc/self/mem: Input/output error\nchecksum: \"it's missing\": No such file or directory\n"
    );
    assert_eq!(ours.status.code(), Some(1));

    write(directory.join("closed"), "");
    fs::set_permissions(directory.join("closed"), fs::Permissions::from_mode(0o000)).expect("it is ours");
    if fs::File::open(directory.join("closed")).is_ok() {
        return skip("root", "this user may read a file without permissions");
    }
    let ours = run(checksum(&directory).arg("."));
    assert_eq!(text(&ours.stdout), format!("{EMPTY}  ./good\n"));
    assert_eq!(text(&ours.stderr), "checksum: ./closed: Permission denied\n");
    assert_eq!(ours.status.code(), Some(1));
}

#[test]
fn a_link_given_as_a_path_is_not_silently_skipped() {
    let directory = scratch("link");
    symlink("nowhere", directory.join("link")).expect("a link is made");
    let ours = run(checksum(&directory).arg("link"));
    assert_eq!(ours.status.code(), Some(1));
    assert!(text(&ours.stderr).contains("symbolic link"), "{ours:?}");
}

#[test]
fn invalid_arguments_are_usage_errors() {
    let directory = scratch("usage");
    for (arguments, says) in [
        (&[][..], "no path given"),
        (&["--fast", "x"], "--fast"),
        (&["--quiet", "x"], "--quiet"),
        (&["-c"], "no path given"),
        (&["--threads-report=3", "x"], "--threads-report"),
    ] {
        let ours = run(checksum(&directory).args(arguments));
        let message = text(&ours.stderr);
        assert_eq!(ours.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says) && message.contains("--help"), "{message}");
        assert!(ours.stdout.is_empty());
    }
    let help = run(checksum(&directory).arg("--help"));
    assert!(help.status.success() && help.stdout.starts_with(b"Usage: "), "{help:?}");
}

#[test]
fn the_report_goes_to_standard_error() {
    let directory = scratch("report");
    write(directory.join("good"), "");
    let ours = run(checksum(&directory).args(["--threads-report", "good"]));
    assert_eq!(text(&ours.stdout), format!("{EMPTY}  good\n"));
    let report = text(&ours.stderr);
    for figure in ["files         1\n", "MiB/s", "CPU seconds", "peak threads"] {
        assert!(report.contains(figure), "{figure}: {report}");
    }
}

/// The example ends without a message if its reader closes the pipe early, as `| head -1` does.
#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let directory = scratch("pipe");
    for n in 0..3000 {
        write(directory.join(format!("{n:0200}")), "");
    }
    let mut ours = checksum(&directory)
        .arg(".")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the item runs");
    let mut output = ours.stdout.take().expect("it is a pipe");
    output.read_exact(&mut [0]).expect("it prints something");
    drop(output);
    let ours = ours.wait_with_output().expect("it ends");
    assert_eq!(text(&ours.stderr), "");
    assert_eq!(ours.status.code(), Some(141));
}

#[test]
fn standard_input_is_a_path() {
    let directory = scratch("stdin");
    let ours = run(checksum(&directory).arg("-"));
    assert_eq!(text(&ours.stdout), format!("{EMPTY}  -\n"));
}
