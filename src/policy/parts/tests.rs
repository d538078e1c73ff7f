use proptest::prelude::*;

use super::*;

fn seen(passed_over: u64) -> Seen {
    Seen { has_entries: true, passed_over }
}

const EMPTY: Seen = Seen { has_entries: false, passed_over: 1000 };

#[test]
fn a_pool_has_at_most_as_many_parts_as_cpus() {
    let table = [
        // CPUs, parts, parts that CPUs use
        ("0", 1, 1),
        ("1-2", 2, 2),
        ("0-2", 2, 2),
        ("6-11", 4, 4),
        ("0-7", 8, 8),
        ("0-3,8-11", 8, 4), // siblings share a part
        ("0,2,4,6", 4, 4),
        ("1,3,5,7", 4, 4),
        ("0,8,16,24", 4, 4),
        ("0-255", 8, 8),
    ];
    for (cpus, parts, used) in table {
        let set: CpuSet = cpus.parse().unwrap();
        let division = Division::new(&set);
        let of_cpus: BTreeSet<usize> = set.iter().map(|cpu| division.part_of(cpu)).collect();
        assert_eq!((division.parts(), of_cpus.len()), (parts, used), "{cpus}");
    }
    assert_eq!((Division::WHOLE.parts(), Division::WHOLE.part_of(5)), (1, 0));
}

fn at(micros: u64) -> Time {
    Time::from_nanos(0) + Duration::from_micros(micros)
}

/// Begins a stretch of a worker that takes 0.1 ms for `span` items.
fn begin(part: usize, span: u32, micros: u64) -> Stretch {
    Stretch::begin(part, Stretch::default(), span, || at(micros))
}

/// spec: F8.7 (the length of a stretch): a stretch of short items has at most 16 entries, and takes at most 25 µs.
#[test]
fn a_stretch_takes_25_microseconds_or_16_entries() {
    for (span, entries) in [(8, 2), (40, 10), (64, 16), (1024, 16)] {
        let mut stretch = begin(3, span, 0);
        assert_eq!(stretch.part(), 3);
        let mut taken = 0;
        while stretch.goes_on(span, || panic!("the clock is not read while items are short")) {
            (stretch, taken) = (stretch.taken(), taken + 1);
        }
        assert_eq!(taken, entries, "{span}");
    }
    let items_are_long = begin(0, 1024, 0).goes_on(7, || at(0));
    assert!(!items_are_long && !Stretch::default().goes_on(1024, || at(0)));
}

/// spec: F8.7 (the length of a stretch): after long items, a worker takes several short items in one stretch, and not
/// only one.
#[test]
fn a_stretch_of_long_items_ends_by_the_clock() {
    for (each, entries) in [(0, 16), (62, 16), (100, 10), (500, 2), (5000, 1)] {
        let mut stretch = begin(1, 1, 0);
        let mut taken = 0;
        while stretch.goes_on(1, || at(taken * each)) {
            (stretch, taken) = (stretch.taken(), taken + 1);
        }
        assert_eq!(taken, entries, "{each} µs");
    }
}

#[test]
fn a_worker_takes_from_its_own_part_first() {
    let chosen = |own, parts: &[Seen]| choose(own, Stretch::default(), 64, parts.len(), |part| parts[part]);
    assert_eq!(chosen(0, &[EMPTY, EMPTY]), None);
    assert_eq!(chosen(1, &[seen(3), seen(0)]), Some(1));
    assert_eq!(chosen(1, &[seen(3), EMPTY]), Some(0), "its own part is empty");
    assert_eq!(chosen(2, &[seen(0), EMPTY, EMPTY, seen(0)]), Some(3), "the parts that follow first");
    assert_eq!(chosen(1, &[seen(4), seen(0)]), Some(0), "passed over twice as often as there are parts");
    assert_eq!(chosen(0, &[seen(0), seen(8), seen(9), seen(8)]), Some(2), "most often");
    assert_eq!(chosen(0, &[seen(9), seen(9)]), Some(0));
}

/// spec: F8.7 (long items): a worker with long items goes from part to part.
#[test]
fn a_worker_with_long_items_goes_from_part_to_part() {
    let chosen =
        |last, parts: &[Seen]| choose(0, begin(last, 7, 0), 7, parts.len(), |part| parts[part]).unwrap();
    assert_eq!(chosen(0, &[seen(0), seen(0)]), 1);
    assert_eq!(chosen(1, &[seen(0), seen(0)]), 0);
    assert_eq!(chosen(0, &[seen(0), EMPTY]), 0);
    assert_eq!(chosen(0, &[seen(1), seen(1), seen(2), seen(1)]), 2, "most often");
    let last = begin(0, 1024, 0).ended();
    assert!(!last.goes_on(1024, || at(0)));
    assert_eq!(choose(0, last, 1024, 2, |_| seen(0)), Some(1), "a check has ended the stretch");
    assert!(!Stretch::begin(1, last, 1024, || at(0)).goes_on(1024, || at(1000)), "by the clock");
}

/// A model of a pool's worklist. Each part is represented by its number of entries.
struct Model {
    parts: Vec<(u32, Seen)>,
    /// The stretch of each worker.
    stretches: Vec<Stretch>,
}

impl Model {
    fn new(parts: usize) -> Self {
        let empty = Seen { has_entries: false, passed_over: 0 };
        Self { parts: vec![(0, empty); parts], stretches: vec![Stretch::default(); parts] }
    }

    fn push(&mut self, part: usize) {
        self.parts[part].0 += 1;
        self.parts[part].1.has_entries = true;
    }

    /// Makes a worker take an entry. Returns the entry's part.
    fn take(&mut self, worker: usize, span: u32, now: Time) -> Option<usize> {
        let stretch = self.stretches[worker];
        let goes_on = stretch.goes_on(span, || now) && self.parts[stretch.part()].0 > 0;
        let stretch = if goes_on { stretch } else { self.choose(worker, span, now)? };
        self.stretches[worker] = stretch.taken();
        let (entries, seen) = &mut self.parts[stretch.part()];
        *entries -= 1;
        seen.has_entries = *entries > 0;
        Some(stretch.part())
    }

    fn choose(&mut self, worker: usize, span: u32, now: Time) -> Option<Stretch> {
        let last = self.stretches[worker];
        let chosen = choose(worker, last, span, self.parts.len(), |part| self.parts[part].1)?;
        for (part, (_, seen)) in self.parts.iter_mut().enumerate() {
            if part == chosen {
                seen.passed_over = 0;
            } else if seen.has_entries {
                seen.passed_over += 1;
            }
        }
        Some(Stretch::begin(chosen, last, span, || now))
    }
}

proptest! {
    /// spec: F8.7 (the number of entries that overtake): at most 64 entries for each part overtake the first entry of a
    /// part, whatever the workers' items and the issuers do.
    #[test]
    fn no_part_is_neglected(
        parts in prop::sample::select(vec![2_usize, 4, 8]),
        steps in prop::collection::vec((any::<bool>(), 0..8_usize, 0..8_usize, 1..100_u32), 1..4000),
        waiting in 0..8_usize,
    ) {
        let waiting = waiting % parts;
        let mut model = Model::new(parts);
        (0..parts).for_each(|part| model.push(part));
        let mut overtaken = 0;
        for (pushes, part, worker, span) in steps {
            if pushes {
                model.push(part % parts);
            }
            match model.take(worker % parts, span, at(0)) {
                Some(part) if part == waiting => overtaken = 0,
                Some(_) if model.parts[waiting].0 > 0 => overtaken += 1,
                _ => {}
            }
            prop_assert!(overtaken <= 64 * parts as u32, "{overtaken} of {parts} parts");
        }
    }

    /// spec: F8.7 (long items start in turn): workers take about equally many long items from each part.
    #[test]
    fn long_items_start_in_turn(parts in prop::sample::select(vec![2_usize, 4, 8]), workers: [u8; 32]) {
        let mut model = Model::new(parts);
        (0..100 * parts).for_each(|entry| model.push(entry % parts));
        let mut taken = vec![0_u32; parts];
        for (number, worker) in workers.into_iter().enumerate() {
            // Each item takes longer than a stretch.
            if let Some(part) = model.take(usize::from(worker) % parts, 1, at(1000 * number as u64)) {
                taken[part] += 1;
            }
        }
        let (least, most) = (taken.iter().min().unwrap_or(&0), taken.iter().max().unwrap_or(&0));
        prop_assert!(most - least <= 2, "{taken:?}");
    }
}
