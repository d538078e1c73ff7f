//! The command line.

use lexopt::prelude::*;

use crate::effort::Effort;
use crate::figures::{FIGURES, Figure};
use crate::mode::Mode;

const HELP: &str = "\
Usage: undeclared [--mode MODE]... [--only NAME]... [--quick] [--check] [--json]

Items block, spin and compute for long without a guard. Measure how soon other items start, how
many threads that takes and what it costs, and list the offenders.

      --mode MODE   measure only in this mode; may be repeated. Modes:
                      off       the executor does not detect blocking
                      sampling  the executor samples the states of the threads
                      switches  the executor reads the scheduler's records of context switches
                      guards    items enter guards; detection has its default
      --only NAME   measure only this; may be repeated. Names:
";

const HELP_END: &str = "      --quick       measure less: figures are coarse and prove nothing
      --check       measure missed figures up to three times, and exit with 1 if one is still missed, or if the system
                    does not permit a mode (choose the others with --mode)
      --json        print JSON instead of tables
  -h, --help        print this help
  -V, --version     print the version

Figures depend on the present load of the machine: other programs delay items, too.

Exit status: 0 on success, 1 if a check failed or nothing could be measured, 2 for a usage error.
";

/// The parsed command line.
pub(crate) enum Command {
    Run(Args),
    Print(String),
}

/// The settings of a run.
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
        // Each mode is measured once, in the order of the table.
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
    found.ok_or_else(|| format!("there is no mode {name:?}; choose one of {}", names.join(", ")).into())
}

fn known(name: String) -> Result<String, lexopt::Error> {
    if FIGURES.iter().any(|figure| figure.name == name) {
        return Ok(name);
    }
    let names: Vec<_> = FIGURES.iter().map(|figure| figure.name).collect();
    Err(format!("there is no figure {name:?}; choose one of {}", names.join(", ")).into())
}
