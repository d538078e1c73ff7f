//! The command line.

use lexopt::prelude::*;

use crate::peer::{self, Peer};

pub(crate) const USAGE: &str = "\
Runs the tests of published pools over cmwq, unchanged.

usage: peers [OPTION...] [PEER...]      all by default

  --runs N     the number of runs; odd ones use managed queues, even ones plain unbound queues (default 10)
  --load N     busy threads meanwhile (default: one for each CPU)
  --no-docs    leave out the documentation examples, which run once
";

pub(crate) struct Args {
    pub(crate) runs: usize,
    pub(crate) load: usize,
    pub(crate) docs: bool,
    pub(crate) peers: Vec<&'static Peer>,
}

impl Args {
    /// `None` if the command line asks for help.
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut args = Self { runs: 10, load: cpus, docs: true, peers: Vec::new() };
        while let Some(argument) = parser.next()? {
            match argument {
                Long("runs") => args.runs = parser.value()?.parse()?,
                Long("load") => args.load = parser.value()?.parse()?,
                Long("no-docs") => args.docs = false,
                Short('h') | Long("help") => return Ok(None),
                Value(name) => args.peers.push(peer::find(&name.string()?)?),
                _ => return Err(argument.unexpected()),
            }
        }
        if args.peers.is_empty() {
            args.peers = peer::ALL.iter().collect();
        }
        Ok(Some(args))
    }
}
