//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

use crate::child::Task;
use crate::effort::Effort;
use crate::rival::{self, Entry, RIVALS};
use crate::workload::{CASES, Case};

const HELP: &str = "\
Usage: rivals [WORKLOAD]... [OPTION]...

Run cmwq and its alternatives on the same work: each measurement in a process of its own, in rounds,
each of which takes all rivals in another order. Print Markdown.

WORKLOAD is a name that --list shows, like 'empty' or 'empty/2'. Without one, all are run.

      --list          list workloads and rivals
      --only NAME     the same as WORKLOAD; may be repeated
      --rival NAME    run only this rival; may be repeated. 'cmwq*' means all names that begin so
      --rounds N      repeat everything N times (default: 3)
      --quick         a tenth of the work, one round: a first look
      --tiny          hardly any work: a smoke test
      --seed N        the order of rivals (default: 1)
      --json          print JSON instead of tables
      --svg DIR       draw a chart of each workload into this folder
      --write FILE    write the tables into this file, with charts in a folder beside it
  -h, --help          print this help
  -V, --version       print the version

Exit status: 0 on success, 1 if a file could not be written, 2 for a usage error. Rivals that are
stuck or fail are marked as such.
";

/// The parsed command line.
pub(crate) enum Command {
    Run(Args),
    /// The task of a child process.
    Child(Task),
    Print(String),
}

/// The settings of a run.
pub(crate) struct Args {
    pub(crate) cases: Vec<&'static Case>,
    pub(crate) rivals: Vec<&'static Entry>,
    pub(crate) rounds: Option<usize>,
    pub(crate) effort: Effort,
    pub(crate) seed: u64,
    pub(crate) json: bool,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) write: Option<PathBuf>,
}

impl Command {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let (mut names, mut rivals): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut args = Args {
            cases: CASES.iter().collect(),
            rivals: RIVALS.iter().collect(),
            rounds: None,
            effort: Effort::Full,
            seed: 1,
            json: false,
            svg: None,
            write: None,
        };
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(Self::Print(HELP.into())),
                Short('V') | Long("version") => {
                    return Ok(Self::Print(format!("rivals {}\n", env!("CARGO_PKG_VERSION"))));
                }
                Long("list") => return Ok(Self::Print(list())),
                Long("child") => return child(&mut parser).map(Self::Child),
                Value(name) => names.push(known_case(name.string()?)?),
                Long("only") => names.push(known_case(parser.value()?.string()?)?),
                Long("rival") => rivals.push(known_rival(parser.value()?.string()?)?),
                Long("rounds") => args.rounds = Some(at_least_one(parser.value()?.parse()?)?),
                Long("quick") => args.effort = Effort::Quick,
                Long("tiny") => args.effort = Effort::Tiny,
                Long("seed") => args.seed = parser.value()?.parse()?,
                Long("json") => args.json = true,
                Long("svg") => args.svg = Some(parser.value()?.into()),
                Long("write") => args.write = Some(with_extension(parser.value()?.into())?),
                other => return Err(other.unexpected()),
            }
        }
        // Each case is run once, in the order of the list.
        if !names.is_empty() {
            args.cases.retain(|case| names.iter().any(|name| case.is_meant_by(name)));
        }
        if !rivals.is_empty() {
            args.rivals.retain(|rival| rivals.iter().any(|name| is_meant(rival, name)));
        }
        Ok(Self::Run(args))
    }
}

/// Reads the task of a child from the other words of its command line.
fn child(parser: &mut lexopt::Parser) -> Result<Task, lexopt::Error> {
    let words: Vec<String> = parser.values()?.map(ValueExt::string).collect::<Result<_, _>>()?;
    let task = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [case, rival, effort, settles] => CASES.iter().find(|known| known.name() == case).and_then(|case| {
            let (rival, effort) = (rival::find(rival)?, Effort::find(effort)?);
            Some(Task { case, rival, effort, settles: settles == "settle" })
        }),
        _ => None,
    };
    task.ok_or_else(|| format!("a child needs a case, a rival and an effort, not {words:?}").into())
}

fn known_case(name: String) -> Result<String, lexopt::Error> {
    if CASES.iter().any(|case| case.is_meant_by(&name)) {
        return Ok(name);
    }
    let mut names: Vec<&str> = CASES.iter().map(|case| case.workload).collect();
    names.dedup();
    Err(format!("there is no workload {name:?}; choose one of {}", names.join(", ")).into())
}

fn known_rival(name: String) -> Result<String, lexopt::Error> {
    if RIVALS.iter().any(|rival| is_meant(rival, &name)) {
        return Ok(name);
    }
    let names: Vec<&str> = RIVALS.iter().map(|rival| rival.name).collect();
    Err(format!("there is no rival {name:?}; choose one of {}", names.join(", ")).into())
}

fn is_meant(rival: &Entry, name: &str) -> bool {
    name.strip_suffix('*').map_or(rival.name == name, |begin| rival.name.starts_with(begin))
}

fn at_least_one(rounds: usize) -> Result<usize, lexopt::Error> {
    if rounds > 0 { Ok(rounds) } else { Err("at least one round is needed".into()) }
}

/// Returns the file if its name has an extension. The charts go into a folder with the file's name without the
/// extension.
fn with_extension(file: PathBuf) -> Result<PathBuf, lexopt::Error> {
    if file.extension().is_some() {
        return Ok(file);
    }
    Err(format!("a page is written into a file like \"{0}.md\", not {0:?}", file.display()).into())
}

fn list() -> String {
    let cases = CASES.iter().map(|case| format!("{}\n    {}\n", case.name(), case.definition));
    let rivals = RIVALS.iter().map(|rival| {
        let can = [
            (rival.can.limits, "limits"),
            (rival.can.batches, "batches"),
            (rival.can.priorities, "priorities"),
            (rival.can.tenants, "tenants"),
        ];
        let can: Vec<&str> = can.into_iter().filter(|(can, _)| *can).map(|(_, what)| what).collect();
        format!("{:24} {}\n", rival.name, can.join(", "))
    });
    format!("{}\nRivals, and their features:\n\n{}", cases.collect::<String>(), rivals.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{Args, Command};
    use crate::effort::Effort;

    fn parse(words: &[&str]) -> Result<Args, String> {
        match Command::parse(lexopt::Parser::from_args(words)) {
            Ok(Command::Run(args)) => Ok(args),
            Ok(_) => Err("it is no run".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn workloads_and_rivals_are_chosen_by_name() {
        let args =
            parse(&["empty/2", "--only", "cpu", "--rival", "cmwq*", "--rival", "rayon", "--quick"]).unwrap();
        let cases: Vec<String> = args.cases.iter().map(|case| case.name()).collect();
        assert_eq!(cases, ["empty/2", "cpu"]);
        assert!(args.rivals.iter().all(|rival| rival.name == "rayon" || rival.name.starts_with("cmwq")));
        assert!(args.rivals.len() > 5);
        assert_eq!(args.effort, Effort::Quick);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        for words in [
            &["fast"][..],
            &["--rival", "goroutines"],
            &["--rounds", "0"],
            &["--child", "empty"],
            &["--write", "page"],
        ] {
            let Err(error) = parse(words) else { panic!("{words:?} was accepted") };
            assert!(error.len() > 20, "{error}");
        }
    }
}
