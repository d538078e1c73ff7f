//! Checks the mutants: each patch in `tests/mutants` applies to the tree. Each model or run of the engine that must
//! fail with a patch names this patch. `make loom-mutants`, which takes longer, shows that they fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// A patch: its name, the models that its head names, and its diff.
struct Mutant {
    name: String,
    models: Vec<PathBuf>,
    diff: String,
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn mutants() -> Vec<Mutant> {
    let mutant = |path: PathBuf| {
        let text = read(&path);
        let (head, diff) = text.split_once("\n--- ").expect("a diff");
        let models = head.lines().filter_map(|line| line.strip_prefix("model: "));
        assert!(head.contains("\nwhy: "), "{}", path.display());
        Mutant {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            models: models.map(file_of).collect(),
            diff: format!("--- {diff}"),
        }
    };
    files(&root().join("tests/mutants"), "patch").into_iter().map(mutant).collect()
}

fn file_of(model: &str) -> PathBuf {
    let path = root().join("src").join(model.replace("::", "/"));
    if path.is_dir() && !path.with_extension("rs").exists() {
        path.join("mod.rs")
    } else {
        path.with_extension("rs")
    }
}

/// Returns the names after "Red under:" in a model's file.
fn red_under(model: &Path) -> BTreeSet<String> {
    let text = read(model);
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let list: String =
        lines.skip_while(|line| !line.contains("Red under:")).take_while(|line| !line.is_empty()).collect();
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn each_mutant_is_named_by_its_models_and_by_no_other() {
    let mutants = mutants();
    let models = files(&root().join("src/protocol/models"), "rs")
        .into_iter()
        .chain(files(&root().join("src/runs"), "rs"));
    for model in models {
        let named = red_under(&model);
        let meant = mutants.iter().filter(|mutant| mutant.models.contains(&model));
        let meant: BTreeSet<_> = meant.map(|mutant| mutant.name.clone()).collect();
        assert_eq!(
            named,
            meant,
            "{}: the mutants that it names differ from those that name it",
            model.display()
        );
    }
    for mutant in mutants {
        assert!(!mutant.models.is_empty(), "{} names no model", mutant.name);
        mutant.models.iter().for_each(|model| assert!(model.exists(), "{}: {model:?}", mutant.name));
    }
}

/// Each file contains the lines that the hunks of the patches expect.
#[test]
fn each_mutant_applies() {
    for mutant in mutants() {
        for part in format!("\n{}", mutant.diff).split("\n--- a/").skip(1) {
            let (path, hunks) = part.split_once('\n').unwrap();
            let source = format!("\n{}", read(&root().join(path)));
            for hunk in hunks.split("\n@@ ").skip(1) {
                let lines = hunk.lines().skip(1);
                let before: Vec<_> = lines.filter_map(expected).collect();
                let before = before.join("\n");
                let is_there = source.contains(&format!("\n{before}\n"));
                assert!(is_there, "{} is stale: {path} does not contain\n{before}", mutant.name);
            }
        }
    }
}

/// Returns a line of a hunk if the file must contain this line before the patch is applied.
fn expected(line: &str) -> Option<&str> {
    match line.as_bytes().first() {
        Some(b' ' | b'-') => Some(&line[1..]),
        // Some editors strip the blank at the beginning of an empty line.
        None => Some(line),
        _ => None,
    }
}
