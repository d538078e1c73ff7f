//! Programs and threads that items start: their signal mask and their scheduling. Also signal handlers that run on
//! workers.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "signals, and how a process is scheduled, are libc's")]

use std::io;
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cmwq::blocking::process::reset_scheduling;
use cmwq::blocking::{self, channel, sync};
use cmwq::{Executor, WorkQueue, is_rescuer};
use libc::c_int;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use testkit::{again, assert_passed};

use crate::support::{
    SOON, Spawns, block_only, builder, bump, cpus, eventually, holds_within, is_portable, main_status, nap,
    one_cpu, own_nice, own_status, statuses_of, stress, thread_id, time_limit,
};

/// Returns the command of a program that runs for longer than any test.
fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600");
    command
}

/// A running program. Dropping this value kills the program and waits for its end.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn terminate(&self) {
        // SAFETY: the process with this number is a child that was not waited for, so no other process has the number.
        assert_eq!(unsafe { libc::kill(self.0.id() as libc::pid_t, libc::SIGTERM) }, 0);
    }

    /// Returns whether SIGTERM has ended the program.
    fn is_terminated(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some_and(|status| status.signal() == Some(libc::SIGTERM))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _waited_for_already = self.0.wait();
    }
}

/// Makes an executor with one CPU that can make no worker, so its rescuers run all items.
fn without_workers() -> Executor {
    builder("core:1 pu:1").0.before_spawn(Spawns::failing(..).hook()).build().unwrap()
}

/// spec: E2.10 (programs that an item starts get the main thread's signal mask)
#[test]
fn programs_that_items_start_are_ended_by_sigterm() {
    let _limit = time_limit();
    let executor = cpus(2);
    let programs = stress(200);
    let queues =
        [WorkQueue::builder("n"), WorkQueue::per_cpu("p"), WorkQueue::per_cpu("h").high_priority(true)];
    let queues = queues.map(|queue| queue.build_on(&executor).unwrap());
    let mut started: Vec<_> = (0..programs)
        .map(|n| {
            let item = || Program::start(&mut sleeper());
            queues[n % queues.len()].spawn(item).unwrap()
        })
        .map(|item| item.join().unwrap())
        .collect();
    started.iter().for_each(Program::terminate);
    holds_within(SOON, || started.iter_mut().all(Program::is_terminated));
    let survivors = started.iter_mut().filter_map(|program| (!program.is_terminated()).then_some(()));
    assert_eq!(survivors.count(), 0, "of {programs} programs");

    let executor = without_workers();
    let queue = WorkQueue::per_cpu("r").rescuer(true).build_on(&executor).unwrap();
    let item = || (is_rescuer(), Program::start(&mut sleeper()));
    let (rescued, mut program) = queue.spawn(item).unwrap().join().unwrap();
    program.terminate();
    assert!(rescued && holds_within(SOON, || program.is_terminated()));
}

/// spec: E2.10 (programs and threads that an item starts get the main thread's signal mask): these programs and threads
/// block the signal that the main thread blocks. They do not block the signal that the thread blocks which makes the
/// executor.
#[test]
fn programs_and_threads_of_items_have_the_signal_mask_of_the_main_thread() {
    const CHILD: &str = "CMWQ_TEST_MASK";
    let _limit = time_limit();
    if std::env::var_os(CHILD).is_none() {
        let test = "programs::programs_and_threads_of_items_have_the_signal_mask_of_the_main_thread";
        let mut child = again(test);
        child.env(CHILD, "1");
        let block = || {
            block_only(libc::SIGUSR1);
            Ok(())
        };
        // SAFETY: in the forked child, the closure only makes system calls.
        let output = unsafe { child.pre_exec(block) }.output().unwrap();
        return assert_passed(&output);
    }
    let usr1 = format!("{:016x}", 1 << (libc::SIGUSR1 - 1));
    eventually("the main thread has made this one", || main_status("SigBlk") == usr1);
    block_only(libc::SIGUSR2);
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    if is_portable(&executor) {
        return;
    }
    let masks = || {
        let thread = std::thread::spawn(|| own_status("SigBlk")).join().unwrap();
        let program = Command::new("cat").arg("/proc/self/status").output().unwrap();
        let program = String::from_utf8(program.stdout).unwrap();
        let program = program.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
        [own_status("SigBlk"), thread, program.to_owned()]
    };
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    assert_eq!(queue.spawn(masks).unwrap().join().unwrap(), [usr1.as_str(); 3]);
    // A thread sets its name before its mask.
    eventually("only the manager's thread blocks SIGTERM", || {
        statuses_of(&prefix, "SigBlk").into_iter().all(|(_, name, mask)| {
            let blocked = u64::from_str_radix(&mask, 16).unwrap();
            (blocked & 1 << (libc::SIGTERM - 1) != 0) == name.ends_with("/manager")
        })
    });
    let executor = without_workers();
    let queue = WorkQueue::per_cpu("r").rescuer(true).build_on(&executor).unwrap();
    assert_eq!(queue.spawn(masks).unwrap().join().unwrap(), [usr1.as_str(); 3]);
}

/// The scheduling of a thread, or of the main thread of a process: its CPUs, its nice level and its time slice.
#[derive(PartialEq, Eq, Debug)]
struct Scheduling {
    cpus: String,
    nice: i32,
    slice: u64,
}

impl Scheduling {
    fn of(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        // SAFETY: all fields are plain numbers, for which zero is valid.
        let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
        // SAFETY: the pointer leads to `size` bytes, as the first call is told. The second call takes plain numbers.
        let nice = unsafe {
            let size = size_of::<libc::sched_attr>();
            assert_eq!(libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attributes, size, 0), 0);
            libc::getpriority(libc::PRIO_PROCESS, pid)
        };
        Self { cpus: cpus.trim().to_owned(), nice, slice: attributes.sched_runtime }
    }
}

/// spec: E2.10 (nice, CPUs and time slice of their worker are inherited, as documented): a program inherits the
/// scheduling of its worker, and can be reset to that of the main thread.
#[test]
fn a_program_is_scheduled_like_its_worker_or_like_the_main_thread() {
    let _limit = time_limit();
    let executor = one_cpu();
    if is_portable(&executor) {
        return;
    }
    let queue = WorkQueue::per_cpu("q").high_priority(true).build_on(&executor).unwrap();
    let item = || {
        let own = Scheduling::of(thread_id());
        let inherits = Program::start(&mut sleeper());
        let reset = Program::start(reset_scheduling(&mut sleeper()));
        (own, [inherits, reset].map(|program| Scheduling::of(program.0.id())))
    };
    let (own, [inherits, reset]) = queue.spawn(item).unwrap().join().unwrap();
    assert_eq!(inherits, own);
    assert_eq!(reset, Scheduling::of(std::process::id()));
    assert_eq!(own.cpus.parse::<cmwq::CpuSet>().unwrap().len(), 1);
    assert!(executor.dump().nice_denied || own.nice == -20);
}

/// Calls `act` on a thread without the privilege to lower nice levels. Threads that this thread makes do not have it
/// either.
fn without_the_privilege<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::SYS_NICE);
        set_capabilities(None, sets).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// Returns whether the resource limit of the process permits this nice level to threads without the privilege.
fn may_be_lowered_to(nice: i32) -> bool {
    let limit = getrlimit(Resource::Nice).current.unwrap_or(u64::MAX);
    i64::try_from(limit).unwrap_or(i64::MAX) >= i64::from(20 - nice)
}

/// spec: E2.10: without the privilege, a program's nice level cannot be reset to the main thread's lower one, but the
/// program runs.
#[test]
fn scheduling_that_cannot_be_reset_stays_as_the_worker_has_it() {
    let _limit = time_limit();
    let executor = without_the_privilege(one_cpu);
    let nicer = cmwq::Attrs::new().nice(19);
    let queue = WorkQueue::unbound("q").attrs(nicer).build_on(&executor).unwrap();
    let item = || {
        let program = Program::start(reset_scheduling(&mut sleeper()));
        (own_nice(), Scheduling::of(program.0.id()).nice)
    };
    let (own, program) = queue.spawn(item).unwrap().join().unwrap();
    let main = Scheduling::of(std::process::id()).nice;
    // Even without the privilege, a resource limit may permit the lower level.
    let stays = if may_be_lowered_to(main) { main } else { own };
    assert_eq!(program, stays, "the worker has {own}, the main thread {main}");
}

// Handlers. -------------------------------------------------------------------------------------------------------

static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// The address of the handler's stack frame in the last call.
static HANDLED_AT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(_signal: c_int) {
    let here = 0_u8;
    HANDLED_AT.store(ptr::from_ref(&here).addr(), Ordering::SeqCst);
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Installs a handler after which the system does not restart interrupted system calls.
fn install_handler() {
    // SAFETY: an action of zeros has no flags and an empty mask. The handler only stores to atomics. With the null
    // pointer, the call returns no old action.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, ptr::null_mut()), 0);
    }
}

fn send_to(thread: i32) -> io::Result<()> {
    // SAFETY: the call takes plain numbers. If the thread has ended, the call returns an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR2) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// spec: E2.10 (a handler may run on a worker): a handler runs on the worker's stack, inside of the item. Because of
/// it, no wait ends early, and none hangs. This holds for idle workers, guarded waits, and waits for items.
#[test]
fn signal_handlers_on_workers_disturb_no_wait() {
    const STACK: usize = 512 << 10;
    const NAP: Duration = Duration::from_millis(5);
    let _limit = time_limit();
    install_handler();
    let (builder, prefix) = builder("core:2 pu:1");
    let executor = builder.stack_size(STACK).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let item = || {
        let here = 0_u8;
        let before = HANDLED.load(Ordering::SeqCst);
        send_to(thread_id() as i32).unwrap();
        assert!(HANDLED.load(Ordering::SeqCst) > before, "the handler runs at once");
        HANDLED_AT.load(Ordering::SeqCst).abs_diff(ptr::from_ref(&here).addr())
    };
    assert!(queue.spawn(item).unwrap().join().unwrap() < STACK);

    let (sent, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                for (thread, name, _) in statuses_of(&prefix, "State") {
                    if !name.ends_with("/manager") && send_to(thread).is_ok() {
                        bump(&sent);
                    }
                }
                nap(Duration::from_micros(100));
            }
        });
        let _ends_the_storm = Ends(&over);
        let mut rounds = 0;
        while rounds < stress(10) || sent.load(Ordering::SeqCst) < 100 {
            in_a_storm(&queue, NAP);
            rounds += 1;
        }
    });
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// Sets the flag when it is dropped, even if the drop is due to a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs items that wait in every way, and checks that no wait ends early.
fn in_a_storm(queue: &WorkQueue, nap: Duration) {
    let takes_its_time = |wait: fn(Duration)| {
        move || {
            let begin = Instant::now();
            wait(nap);
            assert!(begin.elapsed() >= nap, "the wait ended early");
        }
    };
    let waits: [fn(Duration); 3] = [
        blocking::thread::sleep,
        |nap| {
            let (lock, never) = (sync::Mutex::new(()), sync::Condvar::new());
            assert!(never.wait_for(&mut lock.lock(), nap).timed_out());
        },
        |nap| {
            let (_open, receive) = channel::bounded::<()>(1);
            assert!(receive.recv_timeout(nap).is_err());
        },
    ];
    let (inner, (open, opened)) = (queue.clone(), mpsc::channel());
    let joins = queue.spawn(move || {
        let nested = inner.spawn(move || cmwq::blocking(|| opened.recv_timeout(SOON))).unwrap();
        let nested = nested.join_timeout(Duration::from_micros(100)).unwrap_err();
        open.send(7).unwrap();
        let Ok(nested) = nested.join_timeout(SOON) else { panic!("the wait ended early") };
        let scoped = inner.try_scope(|s| s.spawn(|| 8).unwrap().join().unwrap());
        let program = blocking::process::status(&mut Command::new("true")).unwrap();
        (nested.unwrap(), scoped, program.success())
    });
    let waits: Vec<_> =
        waits.map(takes_its_time).into_iter().map(|item| queue.spawn(item).unwrap()).collect();
    waits.into_iter().for_each(|wait| wait.join().unwrap());
    assert_eq!(joins.unwrap().join().unwrap(), (Ok(7), Ok(8), true));
    queue.flush().unwrap();
}
