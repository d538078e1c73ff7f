//! The command line.

use lexopt::prelude::*;

use crate::effort::Effort;
use crate::figures::{FIGURES, Figure};
use crate::mode::Mode;

const HELP: &str = "\
Usage: undeclared [--mode MODE]... [--only NAME]... [--quick] [--check] [--json]

Items block, spin and compute for long without a word to the executor. Measure how soon others
take their places, how many threads that takes and what it costs, and list who did it.

      --mode MODE   measure in this mode only; may be repeated. Modes:
                      off       the executor learns of nothing
                      sampling  it looks at the states of the threads
                      switches  it reads the scheduler's records of context switches
                      guards    items tell by guards; detection is left to the executor
      --only NAME   measure this only; may be repeated. Names:
";

const HELP_END: &str = "      --quick       measure less: figures are coarse, and nothing is proven
      --check       measure up to three times what is missed, and exit with 1 if it is missed then
      --json        print JSON instead of tables
  -h, --help        print this help
  -V, --version     print the version

Figures are those of the machine at this moment: whoever else uses it delays items, too.

Exit status: 0 if all is well, 1 if a check failed or nothing could be measured, 2 for a usage error.
";

/// What the user wants.
pub(crate) enum Command {
    Run(Args),
    Print(String),
}

/// What to do.
pub(crate) struct Args {
    pub(crate) modes: Vec<Mode>,
    pub(crate) figures: Vec<&'static Figure>,
    pub(crate) effort: Effort,
    pub(crate) check: bool,
    pub(crate) json: bool,
}

impl Command {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let (mut modes, mut names) = (Vec::new(), Vec::new());
        let mut args = Args {
            modes: Mode::ALL.to_vec(),
            figures: FIGURES.iter().collect(),
            effort: Effort::FULL,
            check: false,
            json: false,
        };
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(Self::Print(help())),
                Short('V') | Long("version") => {
                    return Ok(Self::Print(format!("undeclared (cmwq) {}\n", env!("CARGO_PKG_VERSION"))));
                }
                Long("quick") => args.effort = Effort::QUICK,
                Long("check") => args.check = true,
                Long("json") => args.json = true,
                Long("mode") => modes.push(mode(&parser.value()?.string()?)?),
                Long("only") => names.push(known(parser.value()?.string()?)?),
                other => return Err(other.unexpected()),
            }
        }
        // In our order, each once.
        if !modes.is_empty() {
            args.modes.retain(|mode| modes.contains(mode));
        }
        if !names.is_empty() {
            args.figures.retain(|figure| names.iter().any(|name| name == figure.name));
        }
        Ok(Self::Run(args))
    }
}

fn help() -> String {
    let lines = FIGURES.iter().map(|figure| format!("{:22}{:<11} {}\n", "", figure.name, figure.title));
    [HELP.to_owned()].into_iter().chain(lines).chain([HELP_END.to_owned()]).collect()
}

fn mode(name: &str) -> Result<Mode, lexopt::Error> {
    let names = Mode::ALL.map(Mode::name);
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    found.ok_or_else(|| format!("there is no mode {name:?}, but {}", names.join(", ")).into())
}

fn known(name: String) -> Result<String, lexopt::Error> {
    if FIGURES.iter().any(|figure| figure.name == name) {
        return Ok(name);
    }
    let names: Vec<_> = FIGURES.iter().map(|figure| figure.name).collect();
    Err(format!("there is no figure {name:?}, but {}", names.join(", ")).into())
}
