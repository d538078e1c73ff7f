use super::{empty, forever, items, of_each};
use crate::bed::Bed;
use crate::load::{Latch, of_32_bytes};
use crate::rival::Rival;

const LINKS: usize = 50_000;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    let links = items::<R>(bed, LINKS);
    let latch = Latch::new(0);
    let seconds = bed.repeat(|| {
        latch.reset(1);
        rival.spawn(move || link(rival, links, latch));
        latch.wait();
    });
    of_each(bed, links, &seconds)
}

fn link<R: Rival>(rival: &'static R, left: usize, latch: &'static Latch) {
    if left == 0 {
        latch.count_down();
        return;
    }
    let captured = [left - 1; 2];
    rival.spawn(of_32_bytes(move || link(rival, std::hint::black_box(captured)[0], latch)));
}
