//! Rules for the language: a thread or a part is the subject of a sentence, and lines of comments are short.

use std::fs;

use super::{Source, root};

/// The largest number of characters in a line of a comment.
const LINE: usize = 120;

/// Returns all text files of the repository, whatever their names are.
fn texts() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            // Cargo, git and the fuzzer make these folders.
            if path
                .file_name()
                .is_some_and(|name| ["target", ".git", "corpus"].iter().any(|made| name == *made))
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let relative = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push(Source { path: relative, text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Returns whether the text contains a word that stands for an unnamed thread or part. Such a word may be part of a
/// name.
fn names_no_subject(text: &str) -> bool {
    let text = text.to_lowercase();
    let pronouns = ["no", "some", "every", "any"].map(|start| format!("{start}{}", "body"));
    pronouns.iter().map(String::as_str).chain([concat!("who", "ever")]).any(|word| text.contains(word))
}

/// Returns the mark that begins a comment in this file, or `None` if its comments are not checked.
fn mark_of(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.trim_start_matches('.').rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs" | "c") => Some("//"),
        // Scripts and Makefiles have no extension.
        Some("toml" | "yml") | None => Some("#"),
        Some(_) => None,
    }
}

/// Returns whether the line is a comment that is too long. A row of a table cannot be divided.
fn is_long_comment(line: &str, mark: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix(mark) else { return false };
    let is_row = text.trim_start_matches(['/', '!']).trim_start().starts_with('|');
    line.chars().count() > LINE && !is_row
}

#[test]
fn pronouns_and_long_comments_are_found() {
    assert!(names_no_subject(concat!("if No", "body waits")) && names_no_subject(concat!("f_who", "ever_g")));
    assert!(!names_no_subject("the body of a thread, who and ever"));
    let long = "a ".repeat(LINE / 2);
    assert!(is_long_comment(&format!("    /// {long}"), "//") && is_long_comment(&format!("# {long}"), "#"));
    assert!(!is_long_comment(&format!("//! | {long}"), "//") && !is_long_comment(&long, "#"));
    assert_eq!(
        [".ci/run", "tests/a.b/run", "a.rs", "a.svg"].map(mark_of),
        [Some("#"), Some("#"), Some("//"), None]
    );
}

#[test]
fn sentences_and_names_say_which_thread_or_part_acts() {
    let texts = texts();
    assert!(
        ["README.md", "Cargo.toml", ".ci/run", "src/lib.rs"]
            .iter()
            .all(|path| texts.iter().any(|text| text.path == *path))
    );
    let mut found = Vec::new();
    for Source { path, text } in &texts {
        if names_no_subject(path) {
            found.push(path.clone());
        }
        // Lock files contain the names of other projects' packages.
        if !path.ends_with(".lock") && names_no_subject(text) {
            let lines = text.lines().enumerate().filter(|(_, line)| names_no_subject(line));
            found.extend(lines.map(|(n, line)| format!("{path}:{}: {}", n + 1, line.trim())));
        }
    }
    assert!(found.is_empty(), "name the thread or the part instead: {found:#?}");
}

#[test]
fn comments_fit_in_their_lines() {
    let mut long = Vec::new();
    for Source { path, text } in texts() {
        let Some(mark) = mark_of(&path) else { continue };
        let lines = text.lines().enumerate().filter(|(_, line)| is_long_comment(line, mark));
        long.extend(lines.map(|(n, _)| format!("{path}:{}", n + 1)));
    }
    assert!(long.is_empty(), "comments of more than {LINE} characters: {long:#?}");
}
