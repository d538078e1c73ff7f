//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::engine::Name;
use crate::load;
use crate::roundtrip;
use crate::serve;

pub(crate) const HELP: &str = "\
Usage: service-lab [OPTIONS]

Measures one HTTP service under overload, with different engines behind it. The
machine should do nothing else.

      --quick         two short rounds, for a first look
      --engine NAME   only this engine; may be repeated
                      (cmwq, cmwq-nice, tokio, tokio-nice, rayon, rayon-nice)
      --rounds N      the number of rounds, 1 to 100 (default: 7; quick: 2)
      --seconds N     the length of a measurement, 1 to 600 (default: 10; quick: 2)
      --overload N    how many times the machine's CPU time the requests ask for,
                      1 to 10 (default: 4)
      --rate N        requests for work per second, instead of what the overload says
      --check         exit with 1 if a figure is missed
      --write FILE    write the page, and its charts into a folder of that name
  -h, --help          print this help
";

/// The role of this process. The measurement starts the processes of the other roles.
pub(crate) enum Role {
    Help,
    Measure(Args),
    Serve(serve::Task),
    Load(load::Task),
    Roundtrip(roundtrip::Task),
}

#[derive(Clone)]
pub(crate) struct Args {
    pub(crate) quick: bool,
    pub(crate) engines: Vec<Name>,
    pub(crate) rounds: u32,
    pub(crate) seconds: u64,
    pub(crate) overload: u32,
    pub(crate) rate: Option<u32>,
    pub(crate) check: bool,
    pub(crate) write: Option<PathBuf>,
}

impl Role {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut role = None;
        let mut engines = Vec::new();
        let (mut rounds, mut seconds, mut overload) = (None, None, 4);
        let (mut quick, mut check, mut write) = (false, false, None);
        let (mut hashes, mut count, mut rate) = (1, 1, None);
        let mut address: Option<SocketAddr> = None;
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(Self::Help),
                Long("quick") => quick = true,
                Long("check") => check = true,
                Long("engine") => engines.push(parser.value()?.parse_with(Name::parse)?),
                Long("rounds") => rounds = Some(parser.value()?.parse_with(|text| number(text, 100))?),
                Long("seconds") => seconds = Some(parser.value()?.parse_with(|text| number(text, 600))?),
                Long("overload") => overload = parser.value()?.parse_with(|text| number(text, 10))?,
                Long("write") => write = Some(PathBuf::from(parser.value()?)),
                Long("hashes") => hashes = parser.value()?.parse_with(|text| number(text, 1_000_000))?,
                Long("count") => count = parser.value()?.parse_with(|text| number(text, 10_000_000))?,
                Long("rate") => rate = Some(parser.value()?.parse_with(|text| number(text, 1_000_000))?),
                Long("address") => address = Some(parser.value()?.parse()?),
                Value(value) if role.is_none() => role = Some(value.string()?),
                other => return Err(other.unexpected()),
            }
        }
        let engine = engines.first().copied();
        match role.as_deref() {
            None => {
                let engines = if engines.is_empty() { Name::ALL.to_vec() } else { engines };
                let rounds = rounds.unwrap_or(if quick { 2 } else { 7 });
                let seconds = u64::from(seconds.unwrap_or(if quick { 2 } else { 10 }));
                Ok(Self::Measure(Args { quick, engines, rounds, seconds, overload, rate, check, write }))
            }
            Some("serve") => {
                Ok(Self::Serve(serve::Task { engine: engine.ok_or("an engine is missing")?, hashes }))
            }
            Some("load") => {
                let seconds = u64::from(seconds.unwrap_or(10));
                let address = address.ok_or("the address is missing")?;
                let rate = rate.ok_or("the rate is missing")?;
                Ok(Self::Load(load::Task { address, rate, seconds }))
            }
            Some("roundtrip") => {
                let engine = engine.ok_or("an engine is missing")?;
                Ok(Self::Roundtrip(roundtrip::Task { engine, count }))
            }
            Some(other) => Err(format!("there is no role {other:?}").into()),
        }
    }
}

fn number(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or(format!("{text:?} is no number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::Role;

    #[test]
    fn bad_arguments_are_refused() {
        for arguments in [
            &["--rounds", "0"][..],
            &["--seconds", "601"],
            &["--overload", "-1"],
            &["--engine", "none"],
            &["serve"],
            &["load", "--rate", "5"],
            &["measure"],
        ] {
            assert!(Role::parse(lexopt::Parser::from_args(arguments)).is_err(), "{arguments:?}");
        }
        let checks = |arguments: &[&str]| match Role::parse(lexopt::Parser::from_args(arguments)) {
            Ok(Role::Measure(args)) => args.check,
            _ => unreachable!("{arguments:?}"),
        };
        assert!(!checks(&["--quick"]) && checks(&["--quick", "--check"]));
    }
}
