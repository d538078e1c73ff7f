//! Rules for the sources: imports go downward and in small circles, only `sys` uses the system, files and functions are
//! short, unsafe code gives reasons, sentences have subjects, and the table of proofs names existing tests.
#![allow(clippy::disallowed_methods, reason = "tests stand in for a user, who has the standard library")]

mod circles;
mod comparison;
mod errors;
mod examples;
mod mutants;
mod package;
mod ports;
mod promises;
mod prose;
mod seam;
mod skips;
mod spec;
mod waits;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES: usize = 450;
const FUNCTION_LINES: usize = 70;

/// A file: its path from the root of the package, and its text.
struct Source {
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources_of(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries: Vec<PathBuf> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in entries {
            // A package of its own has a `target` folder with sources, which is skipped.
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push(Source { path: relative, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// Returns the sources of the library, without those that are compiled for tests only.
fn shipped() -> impl Iterator<Item = Source> {
    let test_only =
        |path: &str| path.starts_with("src/runs/") || path.contains("/models") || path.contains("/tests");
    sources_of("src").into_iter().filter(move |source| !test_only(&source.path)).map(|mut source| {
        source.text = without_test_module(&source.text).to_owned();
        source
    })
}

// The scanner. ----------------------------------------------------------------------------------------------------

/// Returns the text before the module of tests at the end of a file. Test modules in files of their own do not count.
fn without_test_module(text: &str) -> &str {
    let starts = text.match_indices("#[cfg(").filter(|(at, _)| {
        let mut lines = text[*at..].lines();
        let condition = lines.next().is_some_and(|line| line.contains("test"));
        let item = lines.find(|line| !line.starts_with("#["));
        condition && item.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    });
    starts.map(|(at, _)| &text[..at]).next().unwrap_or(text)
}

/// Returns the text with comments and the contents of literals blanked out. Lines are kept.
fn code_of(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = literal_or_comment(&characters, at);
        if end > at {
            code.extend(characters[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            code.push(characters[at]);
            at += 1;
        }
    }
    code
}

/// Returns the end of the literal or comment that begins here, or `at` if none does.
fn literal_or_comment(text: &[char], at: usize) -> usize {
    let rest = &text[at..];
    let find = |from: usize, end: &[char]| {
        let found = rest[from..].windows(end.len()).position(|window| window == end);
        at + found.map_or(rest.len(), |found| from + found + end.len())
    };
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => find(2, &['*', '/']),
        ['r', '"', ..] => find(2, &['"']),
        ['r', '#', '"', ..] => find(3, &['"', '#']),
        ['"', ..] => {
            let mut end = 1;
            while end < rest.len() && rest[end] != '"' {
                end += if rest[end] == '\\' { 2 } else { 1 };
            }
            (at + end + 1).min(text.len())
        }
        ['\'', '\\', _, ..] => find(3, &['\'']),
        ['\'', _, '\'', ..] => at + 3,
        _ => at,
    }
}

/// Returns the first name after `crate::` of each path in a file, also of paths in braces and of those with `super`.
fn crate_paths(path: &str, text: &str) -> BTreeSet<String> {
    let code: String = code_of(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let depth = depth_of(path);
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with("$") && !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            names.extend(first_names(&code[at + "crate::".len()..]));
        }
    }
    // A module at depth n reaches the root of the crate by n times `super`.
    let to_the_root = "super::".repeat(depth);
    for (at, _) in code.match_indices(&to_the_root) {
        let beyond = code[..at].ends_with("super::") || code[at + to_the_root.len()..].starts_with("super::");
        if depth > 0 && !beyond {
            names.extend(first_names(&code[at + to_the_root.len()..]));
        }
    }
    names
}

/// Returns how many modules enclose the code of a file.
fn depth_of(path: &str) -> usize {
    let module = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    if module == "lib" { 0 } else { module.split('/').count() }
}

/// Returns the name at the beginning of the rest of a path. If it begins with braces, returns the name of each part.
fn first_names(rest: &str) -> Vec<String> {
    let name = |part: &str| -> String {
        part.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut depth, mut parts, mut part) = (0, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                part.push(c);
            }
        }
    }
    parts.push(part);
    parts.iter().map(|part| name(part)).filter(|name| !name.is_empty()).collect()
}

/// Returns the name and length of every function.
fn functions(text: &str) -> Vec<(String, usize)> {
    let code = code_of(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let begins = code[..at].ends_with(|c: char| c.is_whitespace() || c == '(') || at == 0;
        let Some(open) = code[at..].find(['{', ';']).filter(|_| begins && !name.is_empty()) else { continue };
        let body = &code[at + open..];
        let mut depth = 0;
        let end = body.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0
        });
        let end = end.map_or(body.len(), |(end, _)| end);
        found.push((name, code[at..(at + open + end + 1).min(code.len())].lines().count()));
    }
    found
}

// The rules. ------------------------------------------------------------------------------------------------------

/// Returns the layer of a module right below the root. Modules without a layer of their own belong to the facade.
fn layer_of(name: &str) -> &str {
    match name {
        "policy" | "protocol" | "sys" | "engine" | "observe" | "runs" => name,
        _ => "facade",
    }
}

fn may_import(layer: &str, other: &str) -> bool {
    layer == other
        || match layer {
            "policy" => false,
            "sys" => other == "policy",
            "protocol" => ["policy", "sys"].contains(&other),
            "engine" => ["protocol", "policy", "sys"].contains(&other),
            "observe" => ["engine", "protocol", "policy", "sys"].contains(&other),
            // `runs` contains tests only, and runs the whole crate.
            "runs" => true,
            _ => other != "runs",
        }
}

/// Returns imports that go the wrong way, as `file → name`.
fn wrong_imports(path: &str, text: &str) -> Vec<String> {
    let module = path.trim_start_matches("src/").split(['/', '.']).next().unwrap();
    let layer = if module == "lib" { return Vec::new() } else { layer_of(module) };
    let names = crate_paths(path, text);
    let wrong = names.into_iter().filter(|name| !may_import(layer, layer_of(name)));
    wrong.map(|name| format!("{path} → {name}")).collect()
}

#[test]
fn the_scanner_notices_imports_that_go_up() {
    for (path, text, wrong) in [
        ("src/policy/a.rs", "use crate::policy::b::C;", 0),
        ("src/policy/a.rs", "use crate::sys::clock;", 1),
        ("src/policy/a.rs", "use crate::CpuSet;", 1),
        ("src/policy/a.rs", "use super::super::engine::pool::worker_pool::Pool;", 1),
        ("src/policy/a/b.rs", "use super::super::super::engine::Pool; use super::super::c::D;", 1),
        ("src/policy/a.rs", "fn f() { crate::engine::worker::worker_thread::run() }", 1),
        ("src/policy/a.rs", "// use crate::engine;\nconst A: &str = \"crate::engine\";", 0),
        ("src/engine/a.rs", "use crate::{policy::{a, b}, protocol::c, observe::{d, e}, sys};", 1),
        ("src/engine/a.rs", "use crate::blocking;\nuse crate::\n    queue::Q;", 2),
        ("src/engine/mod.rs", "use super::queue::Q;", 1),
        ("src/engine/mod.rs", "use super::policy::Q;", 0),
        ("src/sys/a.rs", "use crate::protocol::b; use crate::policy::c;", 1),
        ("src/protocol/a.rs", "use crate::engine::b; use crate::sys::c;", 1),
        ("src/observe/a.rs", "use crate::engine::b; use crate::executor::c;", 1),
        ("src/engine/a.rs", "use crate::policy::b; use crate::runs::c;", 1),
        ("src/queue/mod.rs", "use crate::engine::b; use crate::{CpuSet, sys, policy::c};", 0),
    ] {
        assert_eq!(wrong_imports(path, text).len(), wrong, "{path}: {text}: {:?}", crate_paths(path, text));
    }
}

#[test]
fn the_scanner_measures_functions_and_skips_literals() {
    let text = "fn a() {\n    let _ = \"}\"; // }\n    let c = '}';\n    let l: &'static str = r\"{\";\n}\nfn b();\n";
    assert_eq!(functions(text), [("a".to_owned(), 5), ("b".to_owned(), 1)]);
    assert_eq!(code_of("a /* b\n */ \"\\\"c\" 'd' 'e").split_whitespace().collect::<String>(), "a'e");
    assert_eq!(
        without_test_module("a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\n#[allow(c)]\nmod tests {\n}"),
        "a\n#[cfg(test)]\nmod tests;\nb\n"
    );
}

#[test]
fn imports_go_downward() {
    let sources = sources_of("src").into_iter().filter(|source| !source.path.ends_with("/tests.rs"));
    let wrong: Vec<String> =
        sources.flat_map(|source| wrong_imports(&source.path, without_test_module(&source.text))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_and_functions_are_short() {
    let mut long = Vec::new();
    for source in
        shipped().chain(["cmwqctl/src", "lab", "tests/testkit/src"].into_iter().flat_map(sources_of))
    {
        let lines = source.text.lines().count();
        if lines > FILE_LINES {
            long.push(format!("{}: {lines} lines", source.path));
        }
        let functions = functions(&source.text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES);
        long.extend(functions.map(|(name, lines)| format!("{}: {name} has {lines} lines", source.path)));
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn no_unfinished_code_stays() {
    let unfinished = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("db", "g!(")];
    let elsewhere =
        [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/tm", "p/"), concat!("/Us", "ers/")];
    let sources = ["src", "tests", "examples", "cmwqctl", "lab"].into_iter().flat_map(sources_of);
    let found: Vec<String> = sources
        .flat_map(|source| {
            let words = unfinished.into_iter().chain(elsewhere).filter(|word| source.text.contains(word));
            words.map(|word| format!("{}: {word}", source.path)).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Code that two targets share must be a crate, such as `tests/testkit`.
#[test]
fn no_target_compiles_the_modules_of_another_one() {
    let attribute = concat!("#[pa", "th = \"..");
    let sources = ["src", "tests", "benches", "examples", "cmwqctl", "lab"].into_iter().flat_map(sources_of);
    let found: Vec<String> =
        sources.filter(|source| source.text.contains(attribute)).map(|source| source.path).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// User code is called in few places, which contain its panics. Each entry has a name, and the files that may use it.
const DOORS: [(&str, &[&str]); 4] = [
    ("log::", &["src/engine/user_code.rs"]),
    ("tracing::", &["src/engine/trace/mod.rs", "src/engine/trace/subscriber.rs"]),
    ("::metrics::", &["src/observe/metrics.rs"]),
    // Besides `user_code`, these contain panics: an item, the body of a scope, the first closure of a join, the
    // manager's own code, and the tests that a machine runs.
    (
        "catch_unwind(",
        &[
            "src/engine/user_code.rs",
            "src/engine/trace/mod.rs",
            "src/engine/worker/worker_thread.rs",
            "src/engine/item/fork.rs",
            "src/engine/item/scope.rs",
            "src/engine/manager/supervision.rs",
            "src/sys/machine/baton.rs",
            "src/sys/machine/mod.rs",
            "src/sys/machine/watch.rs",
            "src/testing/setup.rs",
        ],
    ),
];

/// spec: W9.5 (user code ends no thread, wherever it is called)
#[test]
fn user_code_is_called_only_where_panics_are_contained() {
    let mut beside = Vec::new();
    for source in shipped() {
        let code = code_of(&source.text);
        for (name, files) in DOORS {
            let is_named =
                code.match_indices(name).any(|(at, _)| !code[..at].ends_with(char::is_alphanumeric));
            if is_named && !files.contains(&source.path.as_str()) {
                beside.push(format!("{}: {name}", source.path));
            }
        }
    }
    assert!(beside.is_empty(), "{beside:#?}");
}

#[test]
fn policy_forbids_unsafe_code() {
    let sources = sources_of("src/policy").into_iter();
    let open: Vec<String> = sources
        .filter(|source| !source.path.ends_with("/mod.rs") && !source.path.ends_with("/tests.rs"))
        .filter(|source| !source.text.contains("#![forbid(unsafe_code)]"))
        .map(|source| source.path)
        .collect();
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn unsafe_code_gives_reasons() {
    let mut silent = Vec::new();
    for source in ["src", "lab/instructions/src", "tests/testkit/src"].into_iter().flat_map(sources_of) {
        let code = code_of(&source.text);
        let (code, text): (Vec<&str>, Vec<&str>) = (code.lines().collect(), source.text.lines().collect());
        let uses = code.iter().enumerate().filter(|(_, line)| is_unsafe(line)).map(|(n, _)| n);
        for n in uses {
            let opened = source.text.split("#![allow(").skip(1).any(|attribute| {
                let attribute = &attribute[..attribute.find(")]").unwrap_or(attribute.len())];
                attribute.contains("unsafe_code") && attribute.contains("reason =")
            });
            if !opened {
                silent.push(format!("{}: allows unsafe code without a reason", source.path));
            }
            // The documentation of an unsafe function says what its caller must ensure.
            let is_function = code[n].contains("unsafe fn")
                || (code[n].contains("unsafe extern") && code[n].contains(" fn "));
            let word = if is_function { "# Safety" } else { "SAFETY: " };
            let excused = code[n].contains(": unsafe fn") || code[n].contains("unsafe_code");
            if !excused && !text[n.saturating_sub(12)..=n].iter().any(|line| line.contains(word)) {
                silent.push(format!("{}:{}: no {word:?}", source.path, n + 1));
            }
        }
    }
    silent.dedup();
    assert!(silent.is_empty(), "{silent:#?}");
}

fn is_unsafe(line: &str) -> bool {
    line.match_indices("unsafe").any(|(at, word)| {
        let before = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        !before && line[at + word.len()..].starts_with([' ', '{'])
    })
}

// The table of proofs. --------------------------------------------------------------------------------------------

/// Returns the tests that a text names, as `path::to::test` between backquotes.
fn named_tests(text: &str) -> Vec<&str> {
    let words = text.split('`').skip(1).step_by(2);
    words.filter(|word| word.contains("::") && !word.contains([' ', '(', '<'])).collect()
}

/// Returns the files that may contain a test of this path: `it::flush::a` is in `tests/it/flush.rs`,
/// `policy::idle_set::tests::a` in `src/policy/idle_set.rs` or next to it, `cmwqctl::cli::a` in `cmwqctl/tests/cli.rs`,
/// `examples::axum::http::a` in `examples/axum/tests/http.rs`, `undeclared::a` in `lab/undeclared/tests/undeclared.rs`,
/// `lab::service::smoke::a` in `lab/service/tests/smoke.rs`.
fn files_of(test: &str) -> Vec<String> {
    let mut modules: Vec<&str> = test.split("::").collect();
    modules.pop();
    let (package, modules) = match modules[..] {
        ["cmwqctl", ref rest @ ..] => ("cmwqctl/".to_owned(), rest),
        [folder @ ("examples" | "lab"), package, ref rest @ ..] => (format!("{folder}/{package}/"), rest),
        ref all => (String::new(), all),
    };
    let path = modules.join("/");
    let outer = path.trim_end_matches("/tests");
    [
        format!("{package}tests/{path}.rs"),
        format!("lab/{path}/tests/{path}.rs"),
        format!("{package}tests/{path}/main.rs"),
        format!("{package}src/{path}.rs"),
        format!("{package}src/{path}/mod.rs"),
        format!("{package}src/{outer}.rs"),
        format!("{package}src/{outer}/mod.rs"),
    ]
    .into()
}

fn exists(test: &str) -> bool {
    let name = format!("fn {}(", test.split("::").last().unwrap());
    let generic = name.replace('(', "<");
    files_of(test)
        .iter()
        .filter_map(|file| fs::read_to_string(root().join(file)).ok())
        .any(|text| code_of(&text).contains(&name) || code_of(&text).contains(&generic))
}

#[test]
fn names_of_tests_are_looked_up() {
    assert!(
        exists("it::flush::a_flush_passes_cancelled_items") && exists("tidy::names_of_tests_are_looked_up")
    );
    assert!(
        !exists("it::flush::there_is_no_such_test") && !exists("no_file::a_flush_passes_cancelled_items")
    );
}
