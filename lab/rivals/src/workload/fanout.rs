use super::{empty, forever, of_each};
use crate::bed::Bed;
use crate::effort::Effort;
use crate::load::{Latch, of_32_bytes};
use crate::rival::Rival;

const EACH: usize = 10;

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    let rival = forever::<R>(None);
    empty::warm_up(rival, 100);
    let levels = match bed.effort {
        Effort::Full => 5,
        Effort::Quick => 4,
        Effort::Tiny => 2,
    };
    let items = (0..=levels).map(|level| EACH.pow(level)).sum();
    let latch = Latch::new(0);
    let seconds = bed.repeat(|| {
        latch.reset(items);
        rival.spawn(move || branch(rival, levels, latch));
        latch.wait();
    });
    of_each(bed, items, &seconds)
}

fn branch<R: Rival>(rival: &'static R, levels: u32, latch: &'static Latch) {
    if levels > 0 {
        for number in 0..EACH {
            let captured = (levels - 1, number);
            rival.spawn(of_32_bytes(move || branch(rival, std::hint::black_box(captured).0, latch)));
        }
    }
    latch.count_down();
}
