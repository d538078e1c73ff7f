//! Criterion's report of the measurements.
//!
//! Criterion measures one function after the other, but rows have to alternate. So the bench measures all slices first,
//! and then passes them to criterion as samples. An iteration is one block.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput};

use super::block::BYTES;
use super::report::{Measured, Slice};

/// The least number of samples that criterion requires.
const SAMPLES: usize = 10;

/// The most blocks for which a call really takes the time that it reports. Criterion determines the iterations of a
/// sample from the duration of its first calls, which have few blocks.
const TRUE_TO_LIFE: u64 = 64;
const WARM_UP: Duration = Duration::from_millis(4);

pub(crate) fn report(measured: &[Measured]) {
    let mut criterion = Criterion::default().warm_up_time(WARM_UP).without_plots();
    for of in measured {
        let mut group =
            criterion.benchmark_group(format!("affinity scopes, scenario {}", of.scenario.number));
        group.throughput(Throughput::Bytes(BYTES as u64)).sampling_mode(SamplingMode::Flat);
        for (row, slices) in of.rows.iter().filter(|(_, slices)| slices.len() >= SAMPLES) {
            let total: f64 = slices.iter().map(|slice| slice.seconds).sum();
            group.sample_size(slices.len()).measurement_time(Duration::from_secs_f64(total));
            let next = Cell::new(0);
            group.bench_function(row.name.as_str(), |bencher| {
                bencher.iter_custom(|blocks| {
                    let slice = &slices[next.replace((next.get() + 1) % slices.len())];
                    thread::sleep(time_of(slice, blocks.min(TRUE_TO_LIFE)));
                    time_of(slice, blocks)
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

fn time_of(slice: &Slice, blocks: u64) -> Duration {
    Duration::from_secs_f64(slice.seconds * blocks as f64 / slice.blocks as f64)
}
