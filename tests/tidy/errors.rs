//! A test shows each error of the public interface.

use std::collections::BTreeSet;

use super::promises::read;
use super::{Source, sources_of, without_test_module};

/// Returns the variants of the public error types, as `Error::Variant`, from the text of the interface.
fn variants(interface: &str) -> BTreeSet<String> {
    let items = interface.lines().filter_map(|line| {
        let line = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line);
        line.strip_prefix("pub cmwq::")
    });
    let variants = items.filter_map(|item| {
        let path = item.split(['(', ' ']).next()?;
        let mut names = path.rsplit("::").map(|name| name.split('<').next().unwrap_or(name));
        let (variant, of) = (names.next()?, names.next()?);
        let is_error = of.ends_with("Error") || ["Cancelled", "ErrorKind"].contains(&of);
        let is_variant = variant.starts_with(|c: char| c.is_ascii_uppercase());
        (is_error && is_variant).then(|| format!("{of}::{variant}"))
    });
    variants.collect()
}

/// Returns the part of a source that is compiled for tests only.
fn for_tests(source: &Source) -> &str {
    let is_test = source.path.starts_with("tests/")
        || ["/tests/", "/runs/", "/tests.rs"].iter().any(|part| source.path.contains(part));
    if is_test { &source.text } else { &source.text[without_test_module(&source.text).len()..] }
}

/// Returns whether the text contains the variant as a whole word.
fn names(text: &str, variant: &str) -> bool {
    text.match_indices(variant).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        !text[..at].ends_with(is_part) && !text[at + variant.len()..].starts_with(is_part)
    })
}

#[test]
fn each_error_is_shown_by_a_test() {
    let variants = variants(&read("tests/public-api.txt"));
    assert!(variants.len() > 80, "{}: {variants:?}", variants.len());
    let sources: Vec<Source> =
        ["src", "tests", "cmwqctl/src", "cmwqctl/tests"].into_iter().flat_map(sources_of).collect();
    // These rules of `tests/tidy` do not count, because they show no error.
    let tests: Vec<&str> =
        sources.iter().filter(|source| !source.path.starts_with("tests/tidy/")).map(for_tests).collect();
    let missing: Vec<_> =
        variants.iter().filter(|variant| !tests.iter().any(|text| names(text, variant))).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A test in `it::handles` prints each type of error, and checks that its message does not repeat its source.
#[test]
fn each_type_of_error_is_printed_in_a_test() {
    let interface = read("tests/public-api.txt");
    let implemented = interface.lines().filter_map(|line| line.split_once("core::error::Error for cmwq::"));
    let types = implemented.map(|(_, path)| path.split('<').next().unwrap().rsplit("::").next().unwrap());
    let types: BTreeSet<&str> = types.collect();
    assert!(types.len() > 20, "{types:?}");
    let printed = read("tests/it/handles.rs");
    let missing: Vec<_> = types.into_iter().filter(|error| !names(&printed, error)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn variants_and_their_tests_are_found() {
    let interface = "#[non_exhaustive] pub enum cmwq::AError\npub cmwq::AError::One\npub cmwq::AError::One::cpu: usize\n\
                     pub cmwq::b::BError<T>::Two(T)\npub cmwq::Kind::Three\npub fn cmwq::AError::fmt(&self)\n";
    let found: Vec<_> = variants(interface).into_iter().collect();
    assert_eq!(found, ["AError::One", "BError::Two"]);
    assert!(names("matches!(e, AError::One { .. })", "AError::One") && !names("AError::Ones", "AError::One"));
    let source = Source { path: "src/a.rs".into(), text: "a\n#[cfg(test)]\nmod tests {\nb\n}\n".into() };
    assert_eq!(for_tests(&source), "#[cfg(test)]\nmod tests {\nb\n}\n");
}
