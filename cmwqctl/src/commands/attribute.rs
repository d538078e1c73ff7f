//! `cmwqctl get` and `cmwqctl set`.

use std::io::Write;

use cmwq::control::Client;

use crate::args::{Get, Set};
use crate::failure::Result;
use crate::process::failure;

pub(crate) fn get(args: &Get, client: &mut Client, out: &mut dyn Write) -> Result<()> {
    match args.attribute {
        Some(attribute) => writeln!(out, "{}", client.get(&args.queue, attribute).map_err(failure)?)?,
        None => {
            for (attribute, value) in client.attributes(&args.queue).map_err(failure)? {
                writeln!(out, "{:<16} {value}", attribute.name())?;
            }
        }
    }
    Ok(())
}

pub(crate) fn set(args: &Set, client: &mut Client, out: &mut dyn Write) -> Result<()> {
    let holds = client.set(&args.queue, args.attribute, &args.value).map_err(failure)?;
    writeln!(out, "{holds}")?;
    Ok(())
}
