//! Makespans (the times until the last item has ended) of the four documented timelines on one CPU, and of (b) without
//! guards.
//!
//! ```text
//! cargo bench --bench timelines -- --quick
//! ```
//!
//! The documented makespans are 50, 25, 35 and 25 ms, and up to 1.1 times as much is good. Without guards, (b) takes 50
//! ms. The times are from the first submission to the last time stamp inside an item, as in `lab/timelines`, which also
//! shows every event.
#![allow(missing_docs, reason = "criterion's macros make public functions")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use timelines::measure::{self, Bed, Guards};
use timelines::scenario::TIMELINES;

fn makespans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timelines");
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(3));
    for timeline in &TIMELINES {
        let mut measure = |name: String, guards| {
            let bed = Bed::new(timeline, guards).expect("an executor of one CPU can be made");
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|runs| {
                    let spans = (0..runs).map(|_| measure::makespan(&bed.run()));
                    spans.map(|ms| Duration::from_secs_f64(ms / 1e3)).sum()
                });
            });
        };
        measure(format!("({}) documented {} ms", timeline.key, timeline.makespan()), Guards::Held);
        if timeline.key == 'b' {
            measure("(b) without guards".into(), Guards::LeftOut);
        }
    }
    group.finish();
}

criterion_group!(benches, makespans);
criterion_main!(benches);
