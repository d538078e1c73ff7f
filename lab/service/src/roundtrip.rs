//! The time that a task of the runtime takes to submit an empty item and to await its result.

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::engine::{Kind, Name};

pub(crate) struct Task {
    pub(crate) engine: Name,
    pub(crate) count: u32,
}

/// The percentiles of the round trips, in microseconds.
#[derive(Serialize, Deserialize)]
pub(crate) struct Roundtrip {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

pub(crate) fn roundtrip(task: &Task) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (kind, count) = (task.engine.kind, task.count);
    let measured = runtime.block_on(runtime.spawn(measure(kind, count)))??;
    let microseconds = |quantile| measured.value_at_quantile(quantile) as f64 / 1e3;
    let told = Roundtrip { p50: microseconds(0.5), p99: microseconds(0.99) };
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}

/// Measures `count` round trips in nanoseconds. A tenth as many round trips come before them and are not recorded.
async fn measure(kind: Kind, count: u32) -> Result<Histogram<u64>, Failure> {
    let mut histogram = Histogram::new_with_bounds(1, 10_000_000_000, 3)?;
    let queue = cmwq::WorkQueue::new("roundtrip");
    for number in 0..count + count / 10 {
        let begin = Instant::now();
        match kind {
            Kind::Cmwq => {
                let item = queue.spawn(move || black_box(number)).map_err(|refused| refused.error)?;
                black_box(item.await?);
            }
            _ => drop(black_box(tokio::task::spawn_blocking(move || black_box(number)).await?)),
        }
        if number >= count / 10 {
            histogram.saturating_record(begin.elapsed().as_nanos() as u64);
        }
    }
    Ok(histogram)
}
