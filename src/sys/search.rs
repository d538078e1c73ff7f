//! The search for an event: for a short time, a thread that waits for the event looks for it instead of sleeping.

use std::time::Duration;

use super::{clock, machine, thread};

/// A search looks for its event this many times before it offers the CPU to other threads. All these looks together
/// take about 1 µs.
const LOOKS: u32 = 32;

/// If an offer of the CPU (a yield) takes longer than this, another thread has used the CPU.
const TAKEN: Duration = Duration::from_micros(5);

/// On a made-up machine (a simulation for tests), a search lets this time pass between two looks, because each look
/// costs the simulator much real time.
const BETWEEN_LOOKS: Duration = Duration::from_nanos(250);

/// The result of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) found: bool,
    /// The time for which the search has kept the CPU. This time is at most the limit of the search.
    pub(crate) used: Duration,
    /// The time from the start to the end of the search, including the time for which other threads used the CPU.
    pub(crate) took: Duration,
}

/// Calls `found` again and again until it returns true, but for at most `limit`. Between the calls, offers the CPU to
/// other threads. Gives up if another thread has used the CPU.
///
/// On a made-up machine without costs, calls `found` only once, because time stands still on such a machine while a
/// thread runs. A build with `--cfg cmwq_unsearched` also calls `found` only once, because the purpose of this build is
/// to count instructions.
pub(crate) fn search(limit: Duration, mut found: impl FnMut() -> bool) -> Search {
    if cfg!(cmwq_unsearched) || machine::current().is_some() {
        return search_in_machine(limit, found);
    }
    let used_up = |used: Duration| used.min(limit); // The thread may have lost its CPU unnoticed.
    let mut used = Duration::ZERO;
    let start = clock::now();
    let mut begin = start;
    while used < limit {
        for _ in 0..LOOKS {
            if found() {
                let end = clock::now();
                used += end.since(begin);
                return Search { found: true, used: used_up(used), took: end.since(start) };
            }
            std::hint::spin_loop();
        }
        let offer = clock::now();
        used += offer.since(begin);
        thread::yield_now();
        begin = clock::now();
        if begin.since(offer) > TAKEN {
            break;
        }
        used += begin.since(offer);
    }
    Search { found: found(), used: used_up(used), took: begin.since(start) }
}

fn search_in_machine(limit: Duration, mut found: impl FnMut() -> bool) -> Search {
    let begin = clock::now();
    loop {
        let (found, used) = (found(), clock::now().since(begin));
        if found || used >= limit || machine::stays_awake(BETWEEN_LOOKS) != Some(true) {
            return Search { found, used, took: used };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::machine::{Config, Costs, Mutex, burn, run};
    use super::super::wait::Until;
    use super::*;

    #[test]
    fn a_search_ends_with_its_event() {
        let mut looks = 0;
        let search = search(Duration::from_secs(3600), || {
            looks += 1;
            looks == 40
        });
        // If another thread uses the CPU, the search ends without having found its event.
        assert!(looks <= 40 && search.found == (looks == 40));
    }

    /// A search takes simulated time, unless another thread wants the CPU.
    #[test]
    fn a_search_on_a_machine_with_costs_takes_its_time() {
        let micros = Duration::from_micros;
        let costs = Costs { of_cache: 1, near: micros(1), far: micros(1), wake: micros(1) };
        for (others, events, time) in [(0, u32::MAX, micros(20)), (0, 5, micros(1)), (1, u32::MAX, micros(0))]
        {
            let config = Config { costs: Some(costs), ..Config::new(1) };
            let search = run(config, || {
                let found = Arc::new(Mutex::new(None));
                let noted = Arc::clone(&found);
                let mut looks = 0;
                let mut look = move || {
                    looks += 1;
                    looks == events
                };
                let searches = move || *noted.lock() = Some(search(Duration::from_micros(20), &mut look));
                let mut threads = vec![thread::spawn("searcher".to_owned(), None, searches).unwrap()];
                let other =
                    || thread::spawn("other".to_owned(), None, || burn(Duration::from_micros(50))).unwrap();
                threads.extend((0..others).map(|_| other()));
                threads.into_iter().for_each(|thread| thread::join(thread, Until::FOREVER).unwrap());
                let search = found.lock().take();
                search.unwrap()
            });
            assert_eq!((search.found, search.used, search.took), (events == 5, time, time), "{others}");
        }
    }

    /// spec: C8.2
    #[test]
    fn a_search_in_vain_ends() {
        let search = search(Duration::from_micros(20), || false);
        assert!(!search.found && search.used <= Duration::from_micros(20));
    }
}
