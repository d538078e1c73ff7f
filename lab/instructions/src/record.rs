//! The recorded counts: a file in the repository, with a line for each operation.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::callgrind::Counts;
use crate::case::Case;
use crate::toolchain::Toolchain;
use crate::verdict::median;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) toolchain: Toolchain,
    /// The instructions of one operation each.
    pub(crate) instructions: BTreeMap<String, f64>,
}

impl Record {
    /// Reads the file. Returns `None` if there is none.
    pub(crate) fn read(file: &Path) -> Result<Option<Self>, Box<dyn Error + Send + Sync>> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| format!("{}: {error}", file.display()))?,
        };
        let record = Self::parse(&text)
            .map_err(|error| format!("{} is not a valid record: {error}", file.display()))?;
        Ok(Some(record))
    }

    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the former record with these counts in it. If `is_all` is set, the counts are complete, and no part of
    /// the former record is used.
    pub(crate) fn updated(
        former: Option<Self>,
        toolchain: Toolchain,
        is_all: bool,
        counts: &[(&Case, Counts)],
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut instructions = BTreeMap::new();
        if let Some(former) = former.filter(|_| !is_all) {
            let differences = toolchain.differences(&former.toolchain);
            if !differences.is_empty() {
                let told = differences.join("; ");
                return Err(
                    format!("the record is of another toolchain, so record all operations ({told})").into()
                );
            }
            instructions = former.instructions;
        }
        for (case, counts) in counts {
            // The record keeps one digit more than necessary, so that the file shows small changes.
            instructions.insert(case.name(), (median(&counts.rounds) * 10.0).round() / 10.0);
        }
        Ok(Self { toolchain, instructions })
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(fs::write(file, self.text()?).map_err(|error| format!("{}: {error}", file.display()))?)
    }

    fn text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CASES;
    use crate::toolchain::example;

    fn record(instructions: &[(&str, f64)]) -> Record {
        let instructions = instructions.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Record { toolchain: example(), instructions }
    }

    #[test]
    fn a_record_survives_its_file() {
        let written = record(&[("queue/default", 341.2), ("guard/default", 136.0)]);
        let text = written.text().unwrap();
        assert_eq!(Record::parse(&text).unwrap(), written);
        assert!(text.contains("\n    \"queue/default\": 341.2\n"), "a line for each: {text}");
    }

    #[test]
    fn an_invalid_record_is_refused() {
        assert!(Record::parse("{}").is_err());
        assert!(Record::parse("{\"toolchain\": {}, \"instructions\": {\"guard\": \"many\"}}").is_err());
        let text = record(&[]).text().unwrap();
        assert!(Record::parse(&text.replace("instructions", "instruction")).is_err(), "a misspelt key");
    }

    #[test]
    fn the_record_of_the_repository_has_exactly_these_operations() {
        let record = Record::parse(include_str!("../record.json")).unwrap();
        let mut names: Vec<String> = CASES.iter().map(Case::name).collect();
        names.sort();
        assert!(record.instructions.keys().eq(&names), "record all again: make bench-check UPDATE=1");
        assert!(record.instructions.values().all(|count| *count > 10.0), "{record:?}");
    }

    #[test]
    fn the_record_may_be_missing() {
        assert_eq!(Record::read(Path::new("there/is/none.json")).unwrap(), None);
    }

    #[test]
    fn some_counts_keep_the_others_and_all_replace_everything() {
        let (first, second) = (&CASES[0], &CASES[1]);
        let former = || Some(record(&[("gone", 1.0), (&second.name(), 2.0)]));
        let counts = [(first, Counts { rounds: vec![10.0, 30.04, 99.0], functions: Vec::new() })];
        let some = Record::updated(former(), example(), false, &counts).unwrap();
        assert_eq!(some, record(&[("gone", 1.0), (&first.name(), 30.0), (&second.name(), 2.0)]));
        let all = Record::updated(former(), example(), true, &counts).unwrap();
        assert_eq!(all, record(&[(&first.name(), 30.0)]));
    }

    #[test]
    fn counts_of_two_compilers_are_not_mixed() {
        let other = Toolchain { compiler: "rustc 1.96.0".into(), ..example() };
        let error = Record::updated(Some(record(&[])), other.clone(), false, &[]).unwrap_err();
        assert!(error.to_string().contains("rustc 1.96.0, recorded rustc 1.95.0"), "{error}");
        assert_eq!(Record::updated(Some(record(&[])), other.clone(), true, &[]).unwrap().toolchain, other);
    }
}
