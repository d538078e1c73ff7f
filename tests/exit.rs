//! The end of the process. This program starts itself again several times for each scenario below. The new process must
//! end in time, with the expected status and output.
//!
//! `cargo test --test exit -- NAME` runs the scenarios whose names contain NAME.
#![cfg_attr(not(target_os = "linux"), allow(unused))]
#![allow(unsafe_code, reason = "exit handlers and forks are libc's")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::cell::RefCell;
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use cmwq::{BlockingGuard, Executor, QueueError, TopologySource, WaitError, Work, WorkQueue};
use testkit::threads::{block_only, main_status, name_of, own_status, tasks};
use testkit::{holds_within, itself, output_within, skip, skip_test};

/// The environment variable that names the scenario of this process.
const SCENARIO: &str = "CMWQ_EXIT_SCENARIO";
const PATIENCE: Duration = Duration::from_secs(30);
const ROUNDS: usize = 8;

struct Scenario {
    name: &'static str,
    play: fn(),
    status: i32,
    output: &'static str,
}

macro_rules! scenarios {
    ($($name:ident => $status:literal, $output:literal;)*) => {
        &[$(Scenario { name: stringify!($name), play: $name, status: $status, output: $output }),*]
    };
}

const SCENARIOS: &[Scenario] = scenarios![
    main_returns_while_everything_is_busy => 0, "";
    main_returns_while_the_first_worker_is_made => 0, "";
    main_returns_while_an_executor_ends => 0, "";
    main_exits_while_everything_is_busy => 3, "";
    main_panics_while_everything_is_busy => 101, "";
    an_item_exits => 4, "";
    a_blocked_item_exits => 5, "";
    many_exit_at_once => 6, "";
    exit_handlers_use_queues => 0, "handled finished ";
    exit_handlers_use_queues_after_an_item_exits => 7, "handled ";
    destructors_of_the_main_thread_use_queues => 0, "destroyed ";
    destructors_of_workers_use_queues => 0, "destroyed destroyed destroyed destroyed ";
    destructors_of_threads_use_queues => 0, "destroyed ";
    a_forked_child_exits => 0, "refused refused ";
    a_child_that_a_destructor_forks_exits => 0, "child parent ";
    the_main_thread_ends_first => 9, "same changed kept ";
    the_main_thread_makes_threads_meanwhile => 0, "same ";
];

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(SCENARIO) {
        let scenario =
            SCENARIOS.iter().find(|scenario| scenario.name == name).expect("a scenario of this name");
        (scenario.play)();
        return ExitCode::SUCCESS;
    }
    if !cfg!(target_os = "linux") {
        skip("portable", "the fate of threads at exit is known for Linux only");
        return ExitCode::SUCCESS;
    }
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let chosen = SCENARIOS.iter().filter(|scenario| scenario.name.contains(&filter));
    let (mut passed, mut failed) = (0, 0);
    for scenario in chosen {
        let outcome = (0..ROUNDS).try_for_each(|_| check(scenario));
        println!("test {} ... {}", scenario.name, if outcome.is_ok() { "ok" } else { "FAILED" });
        match outcome {
            Ok(()) => passed += 1,
            Err(complaint) => {
                failed += 1;
                println!("{complaint}");
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Reports that this process skips its scenario.
fn skip_scenario(because: &str) {
    let name = std::env::var(SCENARIO).expect("it is set for each scenario");
    skip_test(&name, "portable", because);
}

/// Runs a scenario in a process of its own, and compares status and output with the expected ones.
fn check(scenario: &Scenario) -> Result<(), String> {
    let mut child = itself();
    // A process that hangs is killed, and then does not have the expected status.
    let ended = output_within(PATIENCE, child.env(SCENARIO, scenario.name).stdin(Stdio::null())).unwrap();
    let [output, errors] = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if ended.status.code() == Some(scenario.status) && output == scenario.output {
        return Ok(());
    }
    Err(format!(
        "{}: {}, output {output:?}; expected exit status {}, output {:?}\n{errors}",
        scenario.name, ended.status, scenario.status, scenario.output
    ))
}

// Background activity. -----------------------------------------------------------------------------------------------

/// Writes to standard output without a buffer, because the standard library may have torn down its own buffer.
fn say(word: &str) {
    // SAFETY: the pointer and the length are those of one slice.
    unsafe { libc::write(1, word.as_ptr().cast(), word.len()) };
}

/// Returns the global executor, which has an active progress check.
fn global() -> &'static Executor {
    static GLOBAL: OnceLock<&'static Executor> = OnceLock::new();
    let builder = || Executor::builder().progress_check(Duration::from_secs(10));
    GLOBAL.get_or_init(|| builder().build_global().unwrap().executor())
}

fn queue() -> WorkQueue {
    global();
    WorkQueue::new("q")
}

/// Tells [`be_busy`] once that an item or a thread has begun.
struct Begins(Once, Sender<()>);

impl Begins {
    fn tell(&self) {
        self.0.call_once(|| self.1.send(()).unwrap());
    }
}

/// Keeps the executor busy on every kind of queue. Items run, sleep with and without a guard, and queue themselves
/// again. There are idle workers, and threads that queue and flush without end. Returns when all items and threads have
/// begun.
fn be_busy() {
    global();
    let (tell, told) = mpsc::channel();
    let mut count = 0;
    let mut begins = || {
        count += 1;
        Begins(Once::new(), tell.clone())
    };
    for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
        let queue = kind("busy").max_pending(1000).build().unwrap();
        let ready: Vec<_> = (0..3).map(|_| queue.spawn(|| ()).unwrap()).collect();
        ready.into_iter().for_each(|handle| handle.join().unwrap());
        let (again, runs) = (queue.clone(), begins());
        let without_end = Work::with_handle(move |this| {
            runs.tell();
            let _may_be_full = again.enqueue(this);
        });
        // This item is queued first, because the next item holds the ordered queue.
        queue.enqueue(&without_end).unwrap();
        let sleeps = begins();
        let asleep = move || {
            let _guard = BlockingGuard::enter();
            sleeps.tell();
            std::thread::sleep(2 * PATIENCE);
        };
        drop(queue.spawn(asleep).unwrap());
        let queues = begins();
        std::thread::spawn(move || {
            loop {
                if queue.spawn(std::thread::yield_now).is_err() {
                    queue.flush_timeout(Duration::from_millis(1)).unwrap_or_default();
                }
                queues.tell();
            }
        });
    }
    let hidden = WorkQueue::unbound("hidden").build().unwrap();
    let (sleeps, spins, flushes) = (begins(), begins(), begins());
    let asleep = move || {
        sleeps.tell();
        std::thread::sleep(2 * PATIENCE);
    };
    drop(hidden.spawn(asleep).unwrap());
    drop(
        hidden
            .spawn(move || {
                spins.tell();
                loop {
                    std::hint::spin_loop();
                }
            })
            .unwrap(),
    );
    std::thread::spawn(move || {
        flushes.tell();
        hidden.flush()
    });
    // If one of them never begins, the process is killed, and then does not have the expected status.
    (0..count).for_each(|_| told.recv().unwrap());
}

/// Uses every operation that a user may call at any moment.
fn use_queues() {
    let old = queue();
    assert_eq!(old.spawn(|| 6 * 7).unwrap().join().unwrap(), 42);
    let work = Work::new(|| cmwq::blocking(std::thread::yield_now));
    old.enqueue(&work).unwrap();
    old.flush_timeout(PATIENCE).unwrap();
    let new = WorkQueue::ordered("new").build().unwrap();
    let nested = new.clone();
    assert_eq!(new.spawn(move || nested.spawn(|| 1).unwrap()).unwrap().join().unwrap().join().unwrap(), 1);
    let topology = TopologySource::Synthetic("core:2 pu:1".into());
    let own = Executor::builder().topology(topology).build().unwrap();
    let queue = WorkQueue::per_cpu("own").build_on(&own).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    drop(queue.spawn(|| ()).unwrap());
}

/// Calls its function when it is dropped.
struct Acts(fn());

impl Drop for Acts {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Uses queues when it is dropped.
struct UsesQueues;

impl Drop for UsesQueues {
    fn drop(&mut self) {
        let _guard = BlockingGuard::enter();
        use_queues();
        say("destroyed ");
    }
}

thread_local! {
    static AT_THE_END: RefCell<Option<UsesQueues>> = const { RefCell::new(None) };
    static ACTS_AT_THE_END: RefCell<Option<Acts>> = const { RefCell::new(None) };
}

/// Makes the calling thread use queues when it ends.
fn use_queues_at_the_end() {
    AT_THE_END.set(Some(UsesQueues));
}

extern "C" fn exit_handler() {
    use_queues();
    say("handled ");
}

fn register_exit_handler() {
    // SAFETY: the handler is a function of this program.
    assert_eq!(unsafe { libc::atexit(exit_handler) }, 0);
}

/// Nonzero if the program's destructor, which runs after all exit handlers, uses queues.
static FINISH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn finish() {
    if FINISH.load(Ordering::Relaxed) != 0 {
        use_queues();
        say("finished ");
    }
}

#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds pointers to functions without arguments, which the C library calls at exit.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = finish;

fn never() -> ! {
    loop {
        std::thread::park();
    }
}

// The scenarios. --------------------------------------------------------------------------------------------------

/// spec: X3.1 (a global executor never shut down, threads parked, blocked and busy)
fn main_returns_while_everything_is_busy() {
    be_busy();
}

/// spec: X3.1
fn main_returns_while_the_first_worker_is_made() {
    drop(WorkQueue::new("first").spawn(|| ()).unwrap());
}

/// spec: X3.1
fn main_returns_while_an_executor_ends() {
    let topology = TopologySource::Synthetic("core:4 pu:1".into());
    let executor = Executor::builder().topology(topology).random_placement(1).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    (0..20).for_each(|_| drop(queue.spawn(std::thread::yield_now).unwrap()));
}

/// spec: X3.1
fn main_exits_while_everything_is_busy() {
    be_busy();
    std::process::exit(3);
}

/// spec: X3.1
fn main_panics_while_everything_is_busy() {
    be_busy();
    panic!("on purpose");
}

/// spec: X3.1
fn an_item_exits() {
    be_busy();
    drop(queue().spawn(|| std::process::exit(4)).unwrap());
    never();
}

/// spec: X3.1
fn a_blocked_item_exits() {
    be_busy();
    let item = || cmwq::blocking(|| std::process::exit(5));
    drop(WorkQueue::per_cpu("q").build().unwrap().spawn(item).unwrap());
    never();
}

/// spec: X3.1
fn many_exit_at_once() {
    be_busy();
    let unbound = WorkQueue::unbound("q").build().unwrap();
    (0..4).for_each(|_| drop(unbound.spawn(|| std::process::exit(6)).unwrap()));
    std::process::exit(6);
}

/// spec: X3.2 (static destructors): queues still work in exit handlers and in the program's own destructors.
fn exit_handlers_use_queues() {
    FINISH.store(1, Ordering::Relaxed);
    register_exit_handler();
    use_queues();
    // When this function returns, and the process ends, the workers are parked.
}

/// spec: X3.2: the exit handlers run on a worker, because its item calls `exit`. So this item never ends.
fn exit_handlers_use_queues_after_an_item_exits() {
    register_exit_handler();
    global();
    drop(WorkQueue::per_cpu("q").max_active(1).build().unwrap().spawn(|| std::process::exit(7)).unwrap());
    never();
}

/// spec: X3.2 (thread-local destructors)
fn destructors_of_the_main_thread_use_queues() {
    use_queues_at_the_end();
}

/// spec: X3.2 (thread-local destructors): the thread-local destructors of a worker run after it has left its pool.
fn destructors_of_workers_use_queues() {
    let topology = TopologySource::Synthetic("core:1 pu:1".into());
    let executor = Executor::builder().topology(topology).thread_name_prefix("brief").build().unwrap();
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let meeting = Arc::new(std::sync::Barrier::new(4));
    let items: Vec<_> = (0..4)
        .map(|_| {
            let meeting = Arc::clone(&meeting);
            let item = move || {
                use_queues_at_the_end();
                meeting.wait();
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    items.into_iter().for_each(|item| item.join().unwrap());
    drop((queue, executor));
    let is_there = || tasks().iter().any(|task| name_of(task).starts_with("brief/"));
    assert!(holds_within(PATIENCE, || !is_there()), "the workers' threads do not end");
}

/// spec: X3.2 (thread-local destructors)
fn destructors_of_threads_use_queues() {
    std::thread::spawn(use_queues_at_the_end).join().unwrap();
}

/// spec: X2, X3.1: the child of a busy parent runs its exit handlers, which learn that they run in a child.
fn a_forked_child_exits() {
    static PARENTS: OnceLock<WorkQueue> = OnceLock::new();
    extern "C" fn handler() {
        let parents = PARENTS.get().unwrap();
        if parents.enqueue(&Work::new(|| ())) == Err(QueueError::Forked) {
            assert_eq!(parents.flush(), Err(WaitError::Forked));
            say("refused ");
        }
    }
    be_busy();
    PARENTS.set(queue()).unwrap();
    // SAFETY: the handler is a function of this program.
    assert_eq!(unsafe { libc::atexit(handler) }, 0);
    for _ in 0..2 {
        // SAFETY: the child only exits, and the handlers use only operations that are promised for a child.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // The standard library's `exit` takes a lock. A thread of the parent that began or ended at the fork may
            // have held it. `libc::exit` also runs the exit handlers, which this test needs. SAFETY: the child has only
            // this thread, so no other thread uses its data.
            unsafe { libc::exit(8) };
        }
        let mut status = 0;
        // SAFETY: the pointer leads to a number that outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 8, "the child ended with {status}");
    }
}

/// spec: X2, X3, E5: if a worker's thread-local destructor forks, the child, which has only this thread, ends.
fn a_child_that_a_destructor_forks_exits() {
    fn fork() {
        // SAFETY: the child only writes and exits. The remaining thread-local destructors also run in the child.
        let child = unsafe { libc::fork() };
        if child == 0 {
            say("child ");
            // SAFETY: as in `a_forked_child_exits`.
            unsafe { libc::exit(0) };
        }
        let mut status = 0;
        // SAFETY: the pointer leads to a number that outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status}");
        say("parent ");
    }
    let topology = TopologySource::Synthetic("core:1 pu:1".into());
    let executor = Executor::builder().topology(topology).build().unwrap();
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    queue.spawn(|| ACTS_AT_THE_END.set(Some(Acts(fork)))).unwrap().join().unwrap();
    assert!(executor.shutdown(PATIENCE).unwrap().is_complete());
}

/// spec: E2.10 (the main thread's signal mask): a worker gets the mask that the main thread has when the worker is
/// made. If the main thread has ended, the worker gets the mask that this thread had when the executor was built.
fn the_main_thread_ends_first() {
    let only = |signal: libc::c_int| 1_u64 << (signal - 1);
    block_only(libc::SIGUSR1);
    let topology = TopologySource::Synthetic("core:3 pu:1".into());
    let executor = Executor::builder().topology(topology).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    if executor.dump().portable {
        skip_scenario("this build's workers have the masks of the threads that make them");
        say("same changed kept ");
        std::process::exit(9);
    }
    // Each item is for another CPU, so a new worker runs it.
    let mask_on = move |cpu| queue.item(|| own_status("SigBlk")).on_cpu(cpu).spawn().unwrap().join().unwrap();
    let mask_on = move |cpu| u64::from_str_radix(&mask_on(cpu), 16).unwrap();
    assert_eq!(mask_on(0), only(libc::SIGUSR1));
    say("same ");
    block_only(libc::SIGUSR2);
    assert_eq!(mask_on(1), only(libc::SIGUSR2));
    say("changed ");
    std::thread::spawn(move || {
        while !main_status("State").starts_with('Z') {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(mask_on(2), only(libc::SIGUSR1));
        say("kept ");
        std::process::exit(9);
    });
    // SAFETY: the call ends this thread and nothing else, so its stack stays valid.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// spec: E2.10 (the main thread's signal mask): a worker gets the right mask, even if it begins just when the main
/// thread has blocked its signals. The main thread does so while it makes other threads of the crate.
fn the_main_thread_makes_threads_meanwhile() {
    block_only(libc::SIGUSR1);
    let build = || {
        let topology = TopologySource::Synthetic("core:1 pu:1".into());
        Executor::builder().topology(topology).build().unwrap()
    };
    if build().dump().portable {
        skip_scenario("this build's workers have the masks of the threads that make them");
        return say("same ");
    }
    let expected = format!("{:016x}", 1_u64 << (libc::SIGUSR1 - 1));
    for _ in 0..50 {
        let executor = build();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        // Each item blocks, so the next one runs on a new worker.
        let workers = [(); 4].map(|()| {
            let item = || {
                let own = own_status("SigBlk");
                cmwq::blocking(|| std::thread::sleep(Duration::from_millis(1)));
                own
            };
            queue.spawn(item).unwrap()
        });
        let others = [(); 4].map(|()| build());
        workers.into_iter().for_each(|worker| assert_eq!(worker.join().unwrap(), expected));
        drop(others);
    }
    say("same ");
}
