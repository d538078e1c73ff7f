use std::time::Instant;

use super::{cpus, forever, percentiles};
use crate::bed::Bed;
use crate::load::Latch;
use crate::rival::Rival;

const TIMES: usize = 100;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    let mut seconds = Vec::new();
    bed.watch(|| seconds.extend((0..bed.count(TIMES)).map(|_| once(rival))));
    percentiles(seconds, &[50, 100])
}

fn once<R: Rival>(rival: &R) -> f64 {
    let (begun, ended) = (Latch::new(cpus()), Latch::new(cpus()));
    let gates: Vec<&'static Latch> = (0..cpus()).map(|_| Latch::new(1)).collect();
    for &gate in &gates {
        rival.spawn(move || {
            begun.count_down();
            R::block(|| gate.wait());
            ended.count_down();
        });
    }
    begun.wait();
    let begin = Instant::now();
    rival.spawn(move || gates.iter().for_each(|gate| gate.count_down()));
    ended.wait();
    begin.elapsed().as_secs_f64()
}
