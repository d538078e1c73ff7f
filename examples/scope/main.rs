//! Computes the checksum of every block of a file in memory, in parallel from borrowed slices, and then sequentially:
//! `cargo run --release --example scope -- FILE`.
//!
//! Items of a [`scope`](cmwq::WorkQueue::scope) borrow the blocks and write to borrowed results. Nothing is copied,
//! reference-counted or sent through a channel. When the scope returns, all items have ended.
#![allow(clippy::disallowed_methods, reason = "stands in for a user of the crate")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use cmwq::{QueueError, WorkQueue};
use sha2::{Digest, Sha512};

type Sum = [u8; 64];

const BLOCK: usize = 1 << 20;

fn main() -> ExitCode {
    match run(std::env::args_os().nth(1).as_deref().map(Path::new)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scope: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: Option<&Path>) -> Result<(), Box<dyn std::error::Error>> {
    let data = match path {
        Some(path) => std::fs::read(path)?,
        None => made_up(64 * BLOCK),
    };
    let queue = WorkQueue::new("blocks");

    let start = Instant::now();
    let parallel = sums_of_blocks(&queue, &data)??;
    let in_parallel = start.elapsed();
    let start = Instant::now();
    let sequential: Vec<Sum> = data.chunks(BLOCK).map(sum).collect();
    let one_by_one = start.elapsed();

    if parallel != sequential {
        return Err("the sums differ".into());
    }
    let mib = data.len() as f64 / BLOCK as f64;
    let of_all = sum(&parallel.concat());
    let hex: String = of_all[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{} blocks, checksum of their checksums {hex}…", parallel.len());
    println!("one by one   {:7.0} MiB/s", mib / one_by_one.as_secs_f64());
    println!("in a scope   {:7.0} MiB/s", mib / in_parallel.as_secs_f64());
    Ok(())
}

/// Spawns one item for each block. The scope returns when all these items have ended.
fn sums_of_blocks(queue: &WorkQueue, data: &[u8]) -> Result<Result<Vec<Sum>, QueueError>, cmwq::ScopeError> {
    let mut sums = vec![[0; 64]; data.len().div_ceil(BLOCK)];
    let spawned = queue.try_scope(|s| {
        for (block, place) in data.chunks(BLOCK).zip(&mut sums) {
            s.spawn(move || *place = sum(block))?;
        }
        Ok(())
    })?;
    Ok(spawned.map(|()| sums))
}

fn sum(block: &[u8]) -> Sum {
    Sha512::digest(block).into()
}

/// Returns bytes that look random (xorshift).
fn made_up(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(length / 8).flatten().collect()
}
