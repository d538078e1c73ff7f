use std::thread;
use std::time::Duration;

use super::cpu::{BURN, of_items};
use crate::bed::Bed;
use crate::load::burn;
use crate::rival::Rival;

const ITEMS: usize = 4000;
const SLEEP: Duration = Duration::from_millis(5);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    of_items(bed, ITEMS, |rival: &R, number, latch| {
        rival.spawn(move || {
            burn(BURN);
            if number % 4 == 3 {
                R::block(|| thread::sleep(SLEEP));
            }
            latch.count_down();
        });
    })
}
