//! A job. It waits, as if for another service, and then computes.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest, Sha512};

const MOST_ROUNDS: u64 = 1_000_000_000;

/// The fields of an entry in the stream. Any program can add entries, so the fields may have any names and values.
pub(crate) type Fields = HashMap<Vec<u8>, Vec<u8>>;

pub(crate) struct Job {
    /// The name, which identifies the job for ever. The number of the job's entry does not identify it, because a
    /// producer that gets no answer may add the job twice.
    pub(crate) name: Vec<u8>,
    rounds: u64,
    pause: Duration,
}

impl Job {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, String> {
        let name = fields.get(&b"name"[..]).ok_or("it has no name")?.clone();
        let rounds = number(fields, "rounds")?.unwrap_or(1);
        if !(1..=MOST_ROUNDS).contains(&rounds) {
            return Err(format!("its rounds are not between 1 and {MOST_ROUNDS}"));
        }
        let pause = Duration::from_millis(number(fields, "pause")?.unwrap_or(0));
        Ok(Self { name, rounds, pause })
    }

    /// Returns a hash of the name, in hexadecimal.
    pub(crate) fn run(&self) -> String {
        if !self.pause.is_zero() {
            // While a job waits, its worker does not count as running, so another worker computes.
            cmwq::blocking(|| std::thread::sleep(self.pause));
        }
        let mut sum = Sha512::digest(&self.name);
        for _ in 1..self.rounds {
            sum = Sha512::digest(sum);
        }
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn number(fields: &Fields, name: &str) -> Result<Option<u64>, String> {
    let Some(text) = fields.get(name.as_bytes()) else { return Ok(None) };
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or(format!("its {name} are no number: {:?}", String::from_utf8_lossy(text)))
}
