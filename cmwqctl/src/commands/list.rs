//! `cmwqctl list`.

use std::io::Write;

use cmwq::control::{Client, Process};
use serde::Serialize;

use crate::failure::Result;
use crate::process;
use crate::table::{Align, Table};

/// A process in the list. The field names are the keys of the JSON output.
#[derive(Serialize)]
struct Listed {
    pid: u32,
    program: String,
    prefix: String,
    queues: usize,
    pools: usize,
    threads: usize,
    socket: String,
}

impl Listed {
    /// Returns `None` if the process cannot be inspected any more.
    fn new(process: &Process) -> Option<Self> {
        let snapshot = Client::connect(&process.path).ok()?.dump().ok()?;
        Some(Self {
            pid: process.pid,
            program: process.program.clone(),
            prefix: process.prefix.clone(),
            queues: snapshot.queues.len(),
            pools: snapshot.pools.len(),
            threads: snapshot.threads,
            socket: process.path.display().to_string(),
        })
    }
}

pub(crate) fn run(json: bool, out: &mut dyn Write) -> Result<()> {
    let processes: Vec<Listed> = process::all()?.iter().filter_map(Listed::new).collect();
    if json {
        return super::write_json(&processes, out);
    }
    if processes.is_empty() {
        anstream::eprintln!("cmwqctl: no process with a control socket was found");
        return Ok(());
    }
    let mut table = Table::new([
        ("PID", Align::Right),
        ("PROGRAM", Align::Left),
        ("PREFIX", Align::Left),
        ("QUEUES", Align::Right),
        ("POOLS", Align::Right),
        ("THREADS", Align::Right),
        ("SOCKET", Align::Left),
    ]);
    for process in processes {
        table.row([
            process.pid.to_string(),
            process.program,
            process.prefix,
            process.queues.to_string(),
            process.pools.to_string(),
            process.threads.to_string(),
            process.socket,
        ]);
    }
    table.write(out)?;
    Ok(())
}
