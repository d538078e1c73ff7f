//! One run of a timeline on real threads.
//!
//! The items take the time stamps, and time 0 is just before the first item is queued. The executor has one CPU. If the
//! machine has another CPU, the issuer runs on it and takes no time from the items. Otherwise the issuer sleeps until
//! the items have ended. The first run is not measured, because it makes the workers and the spare worker.

use std::time::{Duration, Instant};

use cmwq::{
    BuildExecutorError, BuildQueueError, CpuSet, Detection, Executor, JoinHandle, WorkQueue, blocking,
};
use testkit::{burn, pin};

use crate::scenario::{BURN, ITEMS, SLEEP, Timeline, Times};

/// Whether the items enter guards when they block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guards {
    Held,
    /// The negative control. Detection is off, too, so no other item fills the sleeps.
    LeftOut,
}

/// An executor of one CPU, and the queues of a timeline.
pub struct Bed {
    guards: Guards,
    queues: [WorkQueue; ITEMS.len()],
    issuer_cpu: Option<usize>,
}

/// The medians of some runs, in milliseconds.
pub struct Measured {
    pub items: [Times; ITEMS.len()],
    pub makespan: f64,
}

/// The time stamps of an item.
struct Stamps([Instant; 4]);

/// Returns the CPU on which all items run.
pub fn cpu() -> usize {
    Executor::global().cpus().first().expect("an executor has a CPU")
}

impl Bed {
    pub fn new(timeline: &Timeline, guards: Guards) -> Result<Self, Box<dyn std::error::Error>> {
        let executor = build_executor(guards)?;
        let q0 = build_queue(&executor, "q0", timeline.max_active, false)?;
        let others = if timeline.cpu_intensive {
            build_queue(&executor, "q1", timeline.max_active, true)?
        } else {
            q0.clone()
        };
        let issuer_cpu = Executor::global().cpus().iter().find(|other| *other != cpu());
        let bed = Self { guards, queues: [q0, others.clone(), others], issuer_cpu };
        bed.run();
        Ok(bed)
    }

    /// Runs the timeline this many times, and returns the median of each time.
    pub fn measure(&self, runs: usize) -> Measured {
        let runs: Vec<_> = (0..runs).map(|_| self.run()).collect();
        let items = std::array::from_fn(|item| {
            let median_of =
                |time: fn(&Times) -> f64| median(runs.iter().map(|run| time(&run[item])).collect());
            Times {
                start: median_of(|times| times.start),
                sleep: median_of(|times| times.sleep),
                wake: median_of(|times| times.wake),
                finish: median_of(|times| times.finish),
            }
        });
        Measured { items, makespan: median(runs.iter().map(makespan).collect()) }
    }

    /// Runs the timeline once. A new thread issues the items, so that the caller stays on its CPUs.
    pub fn run(&self) -> [Times; ITEMS.len()] {
        let guards = self.guards;
        let issue = || {
            // If the system refuses to bind the thread, the measurement is only less exact.
            self.issuer_cpu.inspect(|cpu| drop(pin(*cpu)));
            let zero = Instant::now();
            let issued = std::array::from_fn::<_, { ITEMS.len() }, _>(|number| {
                let burns = if number == 0 { 2 } else { 1 };
                self.queues[number].spawn(move || item(burns, guards)).expect("the queue has no limit")
            });
            issued.map(|handle| finished(handle).since(zero))
        };
        std::thread::scope(|scope| scope.spawn(issue).join().expect("an issuer does not panic"))
    }
}

/// Returns the time at which the last item of a run ended.
pub fn makespan(run: &[Times; ITEMS.len()]) -> f64 {
    run.iter().map(|times| times.finish).fold(0.0, f64::max)
}

fn build_executor(guards: Guards) -> Result<Executor, BuildExecutorError> {
    let executor = Executor::builder().cpus(CpuSet::single(cpu()));
    match guards {
        Guards::Held => executor.build(),
        Guards::LeftOut => executor.detection(Detection::Off).build(),
    }
}

fn build_queue(
    executor: &Executor,
    name: &str,
    max_active: Option<usize>,
    cpu_intensive: bool,
) -> Result<WorkQueue, BuildQueueError> {
    let queue = WorkQueue::per_cpu(name).cpu_intensive(cpu_intensive);
    let queue = match max_active {
        Some(items) => queue.max_active(items),
        None => queue,
    };
    queue.build_on(executor)
}

fn finished(handle: JoinHandle<Stamps>) -> Stamps {
    handle.join().expect("an item neither panics nor is cancelled")
}

/// Runs an item, which burns, sleeps, and burns again if `burns` is 2.
fn item(burns: u32, guards: Guards) -> Stamps {
    let start = Instant::now();
    burn(Duration::from_millis(BURN));
    let sleep = Instant::now();
    let nap = || std::thread::sleep(Duration::from_millis(SLEEP));
    match guards {
        Guards::Held => blocking(nap),
        Guards::LeftOut => nap(),
    }
    let wake = Instant::now();
    if burns > 1 {
        burn(Duration::from_millis(BURN));
    }
    Stamps([start, sleep, wake, Instant::now()])
}

impl Stamps {
    fn since(&self, zero: Instant) -> Times {
        let [start, sleep, wake, finish] = self.0.map(|stamp| (stamp - zero).as_secs_f64() * 1e3);
        Times { start, sleep, wake, finish }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}
