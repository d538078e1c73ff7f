//! `cmwqctl get` and `cmwqctl set`.

use std::io::Write;

use cmwq::control::Client;

use crate::args::{Get, Set};
use crate::failure::Result;
use crate::process::failure;
use crate::text;

pub(crate) fn get(args: &Get, client: &mut Client, out: &mut dyn Write) -> Result<()> {
    match args.attribute {
        Some(attribute) => {
            let value = client.get(&args.queue, attribute).map_err(failure)?;
            writeln!(out, "{}", text::word(&value))?;
        }
        None => {
            for (attribute, value) in client.attributes(&args.queue).map_err(failure)? {
                writeln!(out, "{:<16} {}", attribute.name(), text::word(&value))?;
            }
        }
    }
    Ok(())
}

pub(crate) fn set(args: &Set, client: &mut Client, out: &mut dyn Write) -> Result<()> {
    let holds = client.set(&args.queue, args.attribute, &args.value).map_err(failure)?;
    writeln!(out, "{}", text::word(&holds))?;
    Ok(())
}
