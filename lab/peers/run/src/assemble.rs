//! Puts shims and published tests together below `target/peers`.
//!
//! That folder becomes a copy of this workspace, including the lock file. In the copy, the unit tests and examples of
//! the peer are appended to each shim's sources, and the peer's test files stand beside them. Unchanged files are not
//! written, so cargo builds only the changed ones again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::peer::{self, Peer};
use crate::{Failure, Places, published};

/// The entries of the folder that do not belong to the copy, and that are never removed.
const KEPT: [&str; 2] = ["target", "logs"];

pub(crate) fn assemble(places: &Places, peers: &[&Peer]) -> Result<(), Failure> {
    let sources = fetch(&places.lab)?;
    let mut files = BTreeMap::new();
    collect(&places.lab, Path::new(""), &mut files)?;
    for peer in peers {
        let source = sources.get(peer.name).ok_or_else(|| format!("cargo did not fetch {}", peer.name))?;
        add_published(peer, source, &mut files)?;
    }
    for (path, contents) in &files {
        let path = places.home.join(path);
        if fs::read(&path).ok().as_ref() != Some(contents) {
            fs::create_dir_all(path.parent().expect("a file is in a folder"))?;
            fs::write(&path, contents)?;
        }
    }
    let paths: BTreeSet<PathBuf> = files.into_keys().collect();
    remove_others(&places.home, Path::new(""), &paths)
}

/// Lets cargo fetch the published packages, and returns their folders by name.
fn fetch(lab: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let output = crate::cargo()
        .args(["metadata", "--format-version=1", "--locked", "--manifest-path"])
        .arg(lab.join("Cargo.toml"))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("cargo metadata failed".into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let published = packages.iter().filter(|package| package["source"].is_string()).filter_map(|package| {
        let name = package["name"].as_str()?;
        let manifest = Path::new(package["manifest_path"].as_str()?);
        peer::find(name).is_ok().then(|| (name.to_owned(), manifest.with_file_name("")))
    });
    Ok(published.collect())
}

/// Reads all files below a folder, by their paths from `root`.
fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Failure> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.insert(path, fs::read(entry.path())?);
        }
    }
    Ok(())
}

fn add_published(peer: &Peer, source: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Failure> {
    let folder = Path::new(peer.name);
    let library = fs::read_to_string(source.join("src/lib.rs"))?;
    let mut appended = String::from("\n#[cfg(doctest)]\nmod published_examples;\n");
    if peer.unit {
        let tests =
            published::unit_tests(&library).ok_or_else(|| format!("{} has no unit tests", peer.name))?;
        files.insert(folder.join("src/published_tests.rs"), tests.into());
        appended.push_str("\ninclude!(\"published_tests.rs\");\n");
    }
    let mut modules = BTreeMap::new();
    collect(source, Path::new("src"), &mut modules)?;
    let examples = modules.values().flat_map(|text| published::examples(&String::from_utf8_lossy(text)));
    let examples: String =
        examples.enumerate().map(|(number, text)| format!("{text}mod example_{number} {{}}\n\n")).collect();
    files.insert(folder.join("src/published_examples.rs"), examples.into());
    files.get_mut(&folder.join("src/lib.rs")).ok_or("a shim has a library")?.extend(appended.bytes());
    for test in peer.tests {
        let path = Path::new("tests").join(test).with_extension("rs");
        files.insert(folder.join(&path), fs::read(source.join(&path))?);
    }
    Ok(())
}

/// Removes files that an earlier run has copied and this run does not need.
fn remove_others(root: &Path, folder: &Path, paths: &BTreeSet<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if KEPT.iter().any(|kept| path == Path::new(kept)) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_others(root, &path, paths)?;
        } else if !paths.contains(&path) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
