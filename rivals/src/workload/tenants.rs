use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::of_each;
use crate::bed::Bed;
use crate::load::{Latch, burn};
use crate::rival::Rival;

const TENANTS: usize = 100;
const ITEMS: usize = 200;
const BURN: Duration = Duration::from_micros(50);
const SLEEP: Duration = Duration::from_millis(5);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    // They live as long as the process: their threads are counted at the end.
    let tenants: &'static [R] = R::tenants(bed.count(TENANTS * 10).min(TENANTS)).leak();
    let asleep: &'static Asleep = Box::leak(Box::default());
    let each = bed.count(ITEMS);
    let latch = Latch::new(tenants.len() * each);
    let time = bed.watch(|| {
        for number in 0..each {
            for tenant in tenants {
                tenant.spawn(move || {
                    burn(BURN);
                    if number % 20 == 19 {
                        asleep.during(|| R::block(|| thread::sleep(SLEEP)));
                    }
                    latch.count_down();
                });
            }
        }
        latch.wait();
    });
    let mut values = of_each(bed, tenants.len() * each, time);
    values.push(asleep.peak.load(Relaxed) as f64);
    values
}

/// How many items sleep, and how many there were at most.
#[derive(Default)]
struct Asleep {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Asleep {
    fn during(&self, sleep: impl FnOnce()) {
        self.peak.fetch_max(self.now.fetch_add(1, Relaxed) + 1, Relaxed);
        sleep();
        self.now.fetch_sub(1, Relaxed);
    }
}
