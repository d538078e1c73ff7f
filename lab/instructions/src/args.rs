//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

use crate::callgrind::Task;
use crate::case::{CASES, Case};

const HELP: &str = "\
Usage: instructions [OPERATION]... [OPTION]...

Count the instructions of cmwq's hot operations by callgrind, and compare them with the record.

OPERATION is a name that --list shows, like 'queue' or 'queue/default'. Without one, all are counted.

      --list          list operations
      --update        write the counts into the record instead
      --record FILE   the record (default: record.json of this package)
      --bound N       permit N per cent more instead of 5; a round trip, which two threads make, keeps its own bound
      --rounds N      count N rounds, and take the median (default: 15)
      --profile       show in which functions the instructions are
      --json          print JSON instead of a table
  -h, --help          print this help
  -V, --version       print the version

Exit status: 0 on success, 1 if an operation takes more instructions than its bound permits, 2 if the
command line is wrong or counting failed. If the record is of another compiler, target, C library or
valgrind, counts are only compared with it.
";

/// The parsed command line.
pub(crate) enum Command {
    Run(Args),
    /// The task of a process under valgrind.
    Count(Task),
    Print(String),
}

pub(crate) struct Args {
    pub(crate) cases: Vec<&'static Case>,
    pub(crate) idle: usize,
    pub(crate) rounds: usize,
    pub(crate) update: bool,
    pub(crate) profile: bool,
    pub(crate) json: bool,
    pub(crate) record: PathBuf,
    /// How far the counts of a single thread may be above the record, in per cent.
    pub(crate) bound: Option<f64>,
}

impl Command {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut names: Vec<String> = Vec::new();
        let mut args = Args {
            cases: CASES.iter().collect(),
            idle: 4,
            rounds: 15,
            update: false,
            profile: false,
            json: false,
            record: concat!(env!("CARGO_MANIFEST_DIR"), "/record.json").into(),
            bound: None,
        };
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(Self::Print(HELP.into())),
                Short('V') | Long("version") => {
                    return Ok(Self::Print(format!("instructions {}\n", env!("CARGO_PKG_VERSION"))));
                }
                Long("list") => return Ok(Self::Print(list())),
                Long("count") => return count(&mut parser).map(Self::Count),
                Long("update") => args.update = true,
                Long("record") => args.record = parser.value()?.into(),
                Long("bound") => args.bound = Some(parser.value()?.parse()?),
                Long("rounds") => args.rounds = at_least_one(parser.value()?.parse()?)?,
                Long("profile") => args.profile = true,
                Long("json") => args.json = true,
                Value(name) => names.push(known(name.string()?)?),
                other => return Err(other.unexpected()),
            }
        }
        if args.update && args.json {
            return Err("either the record is written or JSON is printed, not both".into());
        }
        // Each case is counted once, in the order of the table.
        if !names.is_empty() {
            args.cases.retain(|case| names.iter().any(|name| case.is_meant_by(name)));
        }
        Ok(Self::Run(args))
    }
}

/// Reads the task of a process under valgrind from the other words of the command line.
fn count(parser: &mut lexopt::Parser) -> Result<Task, lexopt::Error> {
    let words: Vec<String> = parser.values()?.map(ValueExt::string).collect::<Result<_, _>>()?;
    Task::from_words(&words)
        .ok_or_else(|| format!("an operation and two numbers of rounds are needed, not {words:?}").into())
}

fn known(name: String) -> Result<String, lexopt::Error> {
    if CASES.iter().any(|case| case.is_meant_by(&name)) {
        return Ok(name);
    }
    let mut operations: Vec<&str> = CASES.iter().map(|case| case.operation).collect();
    operations.dedup();
    Err(format!("there is no operation {name:?}; choose one of {}", operations.join(", ")).into())
}

fn at_least_one(rounds: usize) -> Result<usize, lexopt::Error> {
    if rounds > 0 { Ok(rounds) } else { Err("at least one round is needed".into()) }
}

fn list() -> String {
    CASES.iter().map(|case| format!("{:24} {}\n", case.name(), case.definition)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Command, String> {
        Command::parse(lexopt::Parser::from_args(words)).map_err(|error| error.to_string())
    }

    fn cases(words: &[&str]) -> Vec<String> {
        match parsed(words) {
            Ok(Command::Run(args)) => args.cases.iter().map(|case| case.name()).collect(),
            _ => panic!("{words:?} is no run"),
        }
    }

    #[test]
    fn an_operation_stands_for_all_its_queues() {
        assert_eq!(cases(&["guard"]), ["guard/per-CPU", "guard/default"]);
        assert_eq!(cases(&["run/ordered", "queue/default", "run/ordered"]), ["queue/default", "run/ordered"]);
        assert_eq!(cases(&[]).len(), CASES.len());
    }

    #[test]
    fn errors_of_the_command_line_are_reported() {
        let error = |words: &[&str]| parsed(words).err().unwrap_or_default();
        assert!(
            error(&["gard"])
                .starts_with("there is no operation \"gard\"; choose one of queue, queue-pending, ")
        );
        assert_eq!(error(&["--rounds", "0"]), "at least one round is needed");
        assert!(error(&["--update", "--json"]).contains("not both"));
        assert!(error(&["--count", "queue/default", "1"]).contains("two numbers"));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = CASES.iter().map(Case::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
    }
}
