//! Circles of imports: files that import each other, directly or through other files. Such files can only be understood
//! together, so a circle must be small.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, code_of, shipped};

/// The largest number of files in a circle.
const MOST: usize = 10;

/// For each file of the library, by the path of its module, the modules that it imports. The root is `lib`.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the path of a file's module: `engine::pool` for `src/engine/pool/mod.rs`.
fn module_of(path: &str) -> String {
    let module = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    module.replace('/', "::")
}

/// Returns all paths in a file that begin with one of these prefixes, in imports and elsewhere. A path with braces
/// counts as one path for each of its ends. A path that ends with a star counts as the path of the module.
pub(super) fn paths_in(code: &str, starts: &[&str]) -> Vec<Vec<String>> {
    // Blanks are removed, except between two words.
    let mut text = String::new();
    for word in code.split_whitespace() {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if is_word(text.chars().next_back()) && is_word(word.chars().next()) {
            text.push(' ');
        }
        text.push_str(word);
    }
    let mut found = Vec::new();
    for start in starts {
        for (at, _) in text.match_indices(start) {
            let goes_on = |c: char| c.is_alphanumeric() || ['_', ':', '$'].contains(&c);
            if !text[..at].ends_with(goes_on) {
                ends_of(&text[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Adds the paths at the beginning of `text` to `found`, each with the names of `before` in front. Returns the rest of
/// the text.
fn ends_of<'a>(text: &'a str, before: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = ends_of(rest, before, found);
            // After the path, there may be `as` and another name.
            let Some(next) = rest.find([',', '}']) else { return "" };
            let is_last = rest[next..].starts_with('}');
            rest = &rest[next + 1..];
            if is_last {
                return rest;
            }
        }
    }
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let path: Vec<String> = before.iter().cloned().chain([text[..length].to_owned()]).collect();
    match text[length..].strip_prefix("::") {
        Some(rest) if !rest.starts_with(['*', '<']) => ends_of(rest, &path, found),
        _ => {
            found.push(path);
            &text[length..]
        }
    }
}

/// Returns the module to which a path in the file of `module` leads.
fn target(path: &[String], module: &str, known: &Imports) -> String {
    let own: Vec<String> = module.split("::").filter(|name| *name != "lib").map(str::to_owned).collect();
    let ups = path.iter().take_while(|name| *name == "super").count();
    let mut whole = match path[0].as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [&own[..], &path[1..]].concat(),
        _ => [&own[..own.len().saturating_sub(ups)], &path[ups..]].concat(),
    };
    // The last names of the path may be those of an item in the module, or of a part of the item.
    while !whole.is_empty() && !known.contains_key(&whole.join("::")) {
        whole.pop();
    }
    if whole.is_empty() { "lib".to_owned() } else { whole.join("::") }
}

fn imports_of(sources: &[Source]) -> Imports {
    let known: Imports = sources.iter().map(|source| (module_of(&source.path), BTreeSet::new())).collect();
    let mut imports = known.clone();
    for source in sources {
        let module = module_of(&source.path);
        let paths = paths_in(&code_of(&source.text), &["crate::", "self::", "super::"]);
        let targets = paths.iter().map(|path| target(path, &module, &known));
        let targets = targets.filter(|target| *target != module).collect();
        imports.insert(module, targets);
    }
    imports
}

/// Returns the modules that the given module imports, directly or through others.
fn reached_from<'a>(module: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(module) = next.pop() {
        let new = imports[module].iter().map(String::as_str).filter(|target| reached.insert(*target));
        next.extend(new.collect::<Vec<_>>());
    }
    reached
}

/// Returns the circles. Each circle is a set of modules that all import each other, directly or through others.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let reached: BTreeMap<&str, _> =
        imports.keys().map(|module| (module.as_str(), reached_from(module, imports))).collect();
    let circle_of = |module: &str| {
        let both_ways = |other: &&str| reached[module].contains(other) && reached[other].contains(module);
        reached.keys().copied().filter(both_ways).collect::<BTreeSet<_>>()
    };
    reached.keys().map(|module| circle_of(module)).filter(|circle| !circle.is_empty()).collect()
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn circles_of_imports_are_found() {
    let sources = [
        source("src/lib.rs", "pub use self::a::{A, b::B as Other};"),
        source("src/a/mod.rs", "mod b; mod c; fn f() { self::b::g::<u8>(); }"),
        source("src/a/b.rs", "use super::c::{self, C}; // use crate::d;\nfn g<T>() { \"crate::d\"; }"),
        source("src/a/c.rs", "use super::\n    {A, super::d::D};"),
        source("src/d.rs", "use std::fmt; use crate::policy::*; macro_rules! m { () => { $crate::lib::A } }"),
        source("src/policy.rs", "fn h() -> crate::d::D { crate::d::D { e: self::i } }"),
    ];
    let imports = imports_of(&sources);
    let named = |module: &str| imports[module].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((named("lib"), named("a")), (vec!["a", "a::b"], vec!["a::b"]));
    assert_eq!((named("a::b"), named("a::c")), (vec!["a::c"], vec!["a", "d"]));
    assert_eq!((named("d"), named("policy")), (vec!["policy"], vec!["d"]));
    let found = circles(&imports);
    assert_eq!(found, [["a", "a::b", "a::c"].into(), ["d", "policy"].into()].into());
}

#[test]
fn circles_of_imports_are_small() {
    let imports = imports_of(&shipped().collect::<Vec<_>>());
    assert!(
        imports.len() > 100
            && imports.values().all(|targets| targets.iter().all(|to| imports.contains_key(to)))
    );
    let large: Vec<_> = circles(&imports).into_iter().filter(|circle| circle.len() > MOST).collect();
    assert!(large.is_empty(), "files that import each other, more than {MOST} in a circle: {large:#?}");
}
