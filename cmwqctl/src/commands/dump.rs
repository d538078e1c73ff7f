//! `cmwqctl dump`.

use std::io::Write;

use cmwq::control::Client;

use crate::args::Dump;
use crate::failure::Result;
use crate::process::failure;

pub(crate) fn run(args: &Dump, client: &mut Client, out: &mut dyn Write) -> Result<()> {
    let snapshot = client.dump().map_err(failure)?;
    if args.json {
        return super::write_json(&snapshot, out);
    }
    let text = if args.busy { snapshot.busy().to_string() } else { snapshot.to_string() };
    out.write_all(text.as_bytes())?;
    Ok(())
}
