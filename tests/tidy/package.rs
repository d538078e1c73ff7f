//! The packages, as users get them. These tests only read them, and `make package` builds and runs them.

use std::collections::BTreeSet;
use std::env;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::promises::{read, runs_at_night, table_of};
use super::root;
use testkit::output;

/// The published packages, and their folders.
const PACKAGES: [(&str, &str); 2] = [("cmwq", ""), ("cmwqctl", "cmwqctl")];

/// Returns the paths of the files in a package.
fn files_of(package: &str) -> BTreeSet<PathBuf> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command
        .args(["package", "--list", "--allow-dirty", "--offline", "--package", package])
        .current_dir(root());
    let listed = output(&mut command).unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// Returns the targets of the links and pictures of a page. Leaves out addresses, and links into the page itself.
fn relative_links(page: &str) -> impl Iterator<Item = &str> {
    let links = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links
        .filter(|link| !link.contains("://"))
        .filter_map(|link| link.split('#').next())
        .filter(|link| !link.is_empty())
}

/// Returns the path of a file that a page in a folder links to, or `None` if the link leads out of the package.
fn target_of(folder: &Path, link: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            part => path.push(part),
        }
    }
    Some(path)
}

#[test]
fn links_and_pictures_of_a_package_are_inside_of_it() {
    for (package, folder) in PACKAGES {
        let files = files_of(package);
        let mut links = 0;
        for page in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
            let text = read(Path::new(folder).join(page).to_str().unwrap());
            for link in relative_links(&text) {
                let target = target_of(page.parent().unwrap(), link);
                assert!(
                    target.is_some_and(|file| files.contains(&file)),
                    "{package}: {}: {link}",
                    page.display()
                );
                links += 1;
            }
        }
        assert!(links > 20 || package != "cmwq", "{links} links were found");
    }
}

#[test]
fn links_are_found_and_followed() {
    let page = "[a](a.md#part) ![b](../b.svg) [c](https://c.d/e) [d](#part)";
    assert_eq!(relative_links(page).collect::<Vec<_>>(), ["a.md", "../b.svg"]);
    assert_eq!(target_of(Path::new("docs"), "../b.svg"), Some("b.svg".into()));
    assert_eq!(target_of(Path::new(""), "../b.svg"), None);
}

/// Sources for tests are not published, and the files that a license demands are.
#[test]
fn packages_contain_what_users_need() {
    for (package, folder) in PACKAGES {
        let files = files_of(package);
        for needed in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(files.contains(Path::new(needed)), "{package} lacks {needed}");
        }
        let for_tests = |file: &&PathBuf| {
            let names: Vec<_> = file.iter().filter_map(|name| name.to_str()).collect();
            ["runs", "models", "tests", "tests.rs", "lab", "benches"].iter().any(|name| names.contains(name))
        };
        assert_eq!(files.iter().find(for_tests), None, "{package}");

        let manifest = read(Path::new(folder).join("Cargo.toml").to_str().unwrap());
        for key in
            ["description", "license", "readme", "documentation", "keywords", "categories", "rust-version"]
        {
            let key = format!("{key} = ");
            assert!(
                table_of(&manifest, "package").any(|line| line.starts_with(&key)),
                "{package} has no {key}"
            );
        }
    }
}

/// docs.rs shows all features except two. `hwloc` needs a C library and adds no public item, and `__testing` is for
/// tests.
#[test]
fn the_documentation_on_docs_rs_has_all_features() {
    let manifest = read("Cargo.toml");
    let shown =
        table_of(&manifest, "package.metadata.docs.rs").find_map(|line| line.strip_prefix("features = "));
    let mut shown: Vec<&str> = shown.expect("a list").split('"').skip(1).step_by(2).collect();
    let names = table_of(&manifest, "features").filter_map(|line| Some(line.split_once(" = ")?.0));
    let mut expected: Vec<&str> =
        names.filter(|name| !["default", "hwloc", "__testing"].contains(name)).collect();
    shown.sort_unstable();
    expected.sort_unstable();
    assert_eq!(shown, expected);
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn first_word(text: &str) -> Option<&str> {
    text.split(|c| !is_word(c)).next().filter(|word| !word.is_empty())
}

fn last_word(text: &str) -> Option<&str> {
    text.rsplit(|c| !is_word(c)).next().filter(|word| !word.is_empty())
}

/// Returns the names that a text mentions as code, such as `a` of `a(b)` and of `B::a`.
fn names_in(text: &str) -> Vec<&str> {
    let found = text.split('`').skip(1).step_by(2).flat_map(|code| {
        let calls = code.match_indices('(').filter_map(|(at, _)| last_word(&code[..at]));
        let is_type =
            |at: usize| last_word(&code[..at]).is_some_and(|word| word.starts_with(char::is_uppercase));
        let paths = code.match_indices("::").filter(move |(at, _)| is_type(*at));
        calls.chain(paths.filter_map(|(at, _)| first_word(&code[at + 2..])))
    });
    found.collect()
}

/// A reader of the list of changes finds each new name in the interface.
#[test]
fn the_list_of_changes_leads_to_names_that_exist() {
    let (list, interface) = (read("CHANGELOG.md"), read("tests/public-api.txt"));
    let changed = list.split("\n### Changed\n").nth(1).expect("a section").split("\n### ").next().unwrap();
    let added = list.split("\n### Added\n").nth(1).expect("a section").split("\n### ").next().unwrap();
    let rows: Vec<&str> = changed.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() > 20, "there is a table of old and new names");
    let replaced: Vec<&str> =
        rows.iter().filter_map(|row| row.split(" | ").nth(1)).flat_map(names_in).collect();
    let added = names_in(added);
    assert!(replaced.len() > 30 && added.len() > 30, "{replaced:?}, {added:?}");
    let existing: BTreeSet<&str> = interface.split("::").skip(1).filter_map(first_word).collect();
    let missing: Vec<_> = replaced.iter().chain(&added).filter(|name| !existing.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// At night and in the CI, a missing toolchain is a failure. The CI installs the toolchain.
#[test]
fn the_public_interface_is_compared_at_night_and_in_the_ci() {
    assert!(runs_at_night("public-api"));
    let script = read(".ci/api");
    let toolchain = script.lines().find_map(|line| line.strip_prefix("toolchain=")).expect("it is fixed");
    let ci = read(".github/workflows/ci.yml");
    let nightly = ci.split_once("\n  nightly:\n").expect("there is such a job").1;
    let install = format!("      - run: rustup toolchain install {toolchain} --profile minimal\n");
    assert!(nightly.contains(&install));
    assert!(ci.contains(&format!("{install}      - run: make public-api COMPLETE=1\n")));
}

#[test]
fn packages_are_used_outside_at_night_and_in_the_ci() {
    assert!(runs_at_night("package"));
    assert!(read(".github/workflows/ci.yml").contains("- run: make package\n"));
}

/// A queue has eight functions that submit, and one that takes all options. The first page of the documentation has few
/// functions.
#[test]
fn ways_to_submit_are_few() {
    let interface = read("tests/public-api.txt");
    let of_queue = interface.lines().filter_map(|line| line.strip_prefix("pub fn cmwq::WorkQueue::"));
    let submits = |line: &&str| {
        let generic = line.find(['<', '(']).is_some_and(|at| line[at..].starts_with('<'));
        (generic && !line.starts_with("hash<")) || line.contains("&cmwq::Work)")
    };
    let mut ways: Vec<_> =
        of_queue.filter(submits).filter_map(|line| line.split(['<', '(']).next()).collect();
    ways.sort_unstable();
    let with_options = "item";
    let one_call = ["enqueue", "for_each", "items", "map", "scope", "spawn", "spawn_detached", "try_scope"];
    let mut expected = [&one_call[..], &[with_options]].concat();
    expected.sort_unstable();
    assert_eq!(ways, expected);
    let free = interface.lines().filter_map(|line| line.strip_prefix("pub fn cmwq::"));
    let free: BTreeSet<_> =
        free.filter_map(first_word).filter(|name| name.starts_with(char::is_lowercase)).collect();
    assert!((5..=40).contains(&free.len()), "{free:?}");
}

/// At the head of the crate's documentation, tables, defaults, costs and limits help a reader to decide. They link to
/// few functions.
#[test]
fn the_decision_needs_few_functions() {
    let page = read("src/lib.rs");
    let (head, _) = page.split_once("//! # What it does for you\n").expect("the section after the decision");
    let links = head.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let is_function = |link: &&str| {
        let name = link.rsplit_once("::").map(|(_, name)| name);
        !link.starts_with("mod@") && name.is_some_and(|name| name.starts_with(char::is_lowercase))
    };
    let functions: BTreeSet<_> = links.filter(is_function).collect();
    assert!((20..=40).contains(&functions.len()), "{}: {functions:?}", functions.len());
}

/// A later version need not be compatible with a pre-release, but a caret requirement would admit it. So requirements
/// name the exact version.
#[test]
fn pre_releases_are_pinned_exactly() {
    let manifest = read("Cargo.toml");
    let loose = |line: &&str| line.contains("-alpha") || line.contains("-beta") || line.contains("-rc");
    let pre_releases: Vec<&str> =
        manifest.lines().filter(|line| !line.starts_with('#')).filter(loose).collect();
    assert!(!pre_releases.is_empty(), "no pre-release is used any more, so this test may be deleted");
    assert!(pre_releases.iter().all(|line| line.contains("\"=")), "{pre_releases:#?}");
}
