use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::of_each;
use crate::bed::Bed;
use crate::load::{Latch, burn};
use crate::rival::Rival;

const TENANTS: usize = 100;
const ROUNDS: usize = 20;
/// The most pending items of each tenant. They are few, so that the measured memory is that of queues and pools, and
/// not that of items.
const EACH: usize = 10;
const BURN: Duration = Duration::from_micros(50);
const SLEEP: Duration = Duration::from_millis(5);

pub(super) fn run<R: Rival>(bed: &Bed) -> Vec<f64> {
    // Tenants are never dropped, so that their threads can be counted at the end.
    let tenants: &'static [R] = R::tenants(bed.count(TENANTS * 10).min(TENANTS)).leak();
    let asleep: &'static Asleep = Box::leak(Box::default());
    let (rounds, latch) = (bed.count(ROUNDS), Latch::new(0));
    let time = bed.watch(|| {
        for _ in 0..rounds {
            latch.reset(tenants.len() * EACH);
            (0..EACH).for_each(|number| one_of_each(tenants, number, asleep, latch));
            latch.wait();
        }
    });
    let mut values = of_each(bed, tenants.len() * EACH * rounds, &[time.as_secs_f64()]);
    values.push(asleep.peak.load(Relaxed) as f64);
    values
}

/// Queues one item of each tenant. Different tenants sleep at different times, because they are independent.
fn one_of_each<R: Rival>(tenants: &[R], number: usize, asleep: &'static Asleep, latch: &'static Latch) {
    for (place, tenant) in tenants.iter().enumerate() {
        tenant.spawn(move || {
            burn(BURN);
            if (place + number) % 20 == 19 {
                asleep.during(|| R::block(|| thread::sleep(SLEEP)));
            }
            latch.count_down();
        });
    }
}

/// The number of sleeping items, and its peak.
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
