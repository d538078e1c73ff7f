//! Reads the states of threads from `/proc`, and their CPU times from the CPU clocks of Linux.

#![allow(unsafe_code, reason = "libc reads a clock through a raw pointer")]

use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::{Seen, State};
use crate::sys::affinity::ThreadId;
use crate::sys::lossy;
use crate::sys::machine::{self, Tid};

/// The low bits of the id of a clock that shows one thread's CPU time, as the scheduler counts this time.
const THREAD_SCHED: libc::clockid_t = 6;

/// The position of the CPU's field in a line of `/proc/…/stat`, counted from the state's field.
const CPU_AFTER_STATE: usize = 36;

/// An open file from which one thread's state is read repeatedly, or a thread of a simulated [machine].
#[derive(Debug)]
pub(crate) enum Eye {
    Real(File),
    MadeUp(Tid),
}

impl Eye {
    pub(crate) fn open(thread: ThreadId) -> io::Result<Self> {
        match thread.made_up() {
            Some(thread) => Ok(Self::MadeUp(thread)),
            None => File::open(path(thread, "stat")).map(Self::Real),
        }
    }

    pub(crate) fn look(&self) -> io::Result<Seen> {
        let file = match self {
            Self::Real(file) => file,
            Self::MadeUp(thread) => return told(machine::seen(*thread)),
        };
        // The line of the file fits into this array, because the line contains about fifty numbers, most of which are
        // small.
        let mut line = [0; 1024];
        match file.read_at(&mut line, 0) {
            Ok(length) => parse(&line[..length]),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                Ok(Seen { state: State::Gone, cpu: None })
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the machine's answer, or an error if the machine has no answer. A machine knows only its own threads.
fn told<T>(answer: Option<T>) -> io::Result<T> {
    answer.ok_or_else(|| ErrorKind::NotFound.into())
}

/// Parses the line of a thread's file `stat`. The thread's name stands in parentheses, and may itself contain
/// parentheses and spaces. The fields after the name contain neither parentheses nor spaces.
fn parse(line: &[u8]) -> io::Result<Seen> {
    let end = line.iter().rposition(|byte| *byte == b')');
    match end.map(|end| &line[end..]) {
        Some([_, b' ', letter, rest @ ..]) if letter.is_ascii_alphabetic() => {
            let cpu = rest.split(|byte| *byte == b' ').nth(CPU_AFTER_STATE);
            let cpu = cpu.and_then(|cpu| std::str::from_utf8(cpu).ok()?.parse().ok());
            Ok(Seen { state: State::of_letter(char::from(*letter)), cpu })
        }
        _ => Err(no_such_line("(name) and a letter", &String::from_utf8_lossy(line))),
    }
}

pub(crate) fn cpu_time(thread: ThreadId) -> io::Result<Duration> {
    if let Some(thread) = thread.made_up() {
        return told(machine::cpu_time(thread));
    }
    // The C library computes the id of a thread's clock in the same way as this code. The kernel accepts only clocks of
    // this process's threads.
    read((!thread.number() << 3) | THREAD_SCHED)
}

pub(crate) fn own_cpu_time() -> Option<Duration> {
    if let Some(own) = machine::current() {
        return machine::cpu_time(own);
    }
    read(libc::CLOCK_THREAD_CPUTIME_ID).ok()
}

fn read(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer points to memory of the right size and type.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has written the time.
    let time = unsafe { time.assume_init() };
    Ok(Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0)))
}

pub(crate) fn voluntary_switches(thread: ThreadId) -> io::Result<u64> {
    if let Some(thread) = thread.made_up() {
        return told(machine::sleeps_so_far(thread));
    }
    let status = lossy::read(path(thread, "status"))?;
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = count.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| no_such_line("voluntary_ctxt_switches and a number", &status))
}

pub(crate) fn wait_channel(thread: ThreadId) -> Option<String> {
    if thread.made_up().is_some() {
        return None;
    }
    let name = lossy::read(path(thread, "wchan")).ok()?;
    let name = name.trim();
    (!matches!(name, "" | "0")).then(|| name.to_owned())
}

fn path(thread: ThreadId, file: &str) -> String {
    format!("/proc/self/task/{}/{file}", thread.number())
}

fn no_such_line(expected: &str, found: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("expected {expected}, found {found:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread::{spawn, yield_now};
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread::{JoinHandle, sleep};
    use testkit::eventually;

    /// A thread that sleeps until the test tells it to run or to end.
    struct Other {
        id: ThreadId,
        orders: mpsc::Sender<Arc<AtomicBool>>,
        thread: JoinHandle<()>,
    }

    impl Other {
        fn new(name: &str) -> Self {
            let (orders, order) = mpsc::channel::<Arc<AtomicBool>>();
            let (tell, told) = mpsc::channel();
            let thread = spawn(name.to_owned(), None, move || {
                tell.send(ThreadId::current()).unwrap();
                for stop in order {
                    while !stop.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                }
            });
            Self { id: told.recv().unwrap(), orders, thread: thread.unwrap() }
        }

        /// Calls `look` while the thread runs.
        fn while_it_runs<T>(&self, look: impl FnOnce() -> T) -> T {
            let stop = Arc::new(AtomicBool::new(false));
            self.orders.send(stop.clone()).unwrap();
            let seen = look();
            stop.store(true, Ordering::Relaxed);
            seen
        }

        fn end(self) -> ThreadId {
            drop(self.orders);
            self.thread.join().unwrap();
            self.id
        }
    }

    /// Checks the thread repeatedly until it is in `state`.
    fn see(eye: &Eye, state: State) {
        while eye.look().unwrap().state != state {
            yield_now();
        }
    }

    /// spec: S1
    #[test]
    fn a_thread_is_seen_asleep_and_running_and_gone() {
        let other = Other::new("a) S (b");
        let eye = Eye::open(other.id).unwrap();
        see(&eye, State::Sleeps);
        other.while_it_runs(|| see(&eye, State::Runs));
        see(&eye, State::Sleeps);
        let id = other.end();
        // The join returns shortly before the system removes the thread.
        see(&eye, State::Gone);
        eventually("the system removes the thread", || Eye::open(id).is_err());
        assert_eq!(Eye::open(id).unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// spec: S2
    #[test]
    fn the_clock_of_a_thread_goes_on_while_it_runs() {
        let other = Other::new("clock");
        let eye = Eye::open(other.id).unwrap();
        see(&eye, State::Sleeps);
        let time = || cpu_time(other.id).unwrap();
        eventually("the clock stands still", || time() == time());
        let before = time();
        other.while_it_runs(|| {
            while cpu_time(other.id).unwrap() < before + Duration::from_millis(2) {
                yield_now();
            }
        });
        let id = other.end();
        see(&eye, State::Gone);
        eventually("the system removes the thread", || cpu_time(id).is_err());
        assert_eq!(cpu_time(id).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test waits until the system has counted a sleep")]
    fn giving_the_cpu_away_is_counted() {
        let other = Other::new("switches");
        let eye = Eye::open(other.id).unwrap();
        see(&eye, State::Sleeps);
        // The system counts a sleep shortly after the thread's state says that the thread sleeps.
        let switches = || voluntary_switches(other.id).unwrap();
        eventually("the first sleep is counted", || {
            let before = switches();
            sleep(Duration::from_millis(1));
            switches() == before
        });
        let before = switches();
        other.while_it_runs(|| see(&eye, State::Runs));
        eventually("the second sleep is counted", || switches() == before + 1);
        let id = other.end();
        see(&eye, State::Gone);
        eventually("the system removes the thread", || voluntary_switches(id).is_err());
        assert_eq!(wait_channel(id), None);
    }

    #[test]
    fn the_status_of_a_thread_whose_name_is_cut_inside_a_letter_is_read() {
        let other = Other::new("обработка писем");
        assert!(voluntary_switches(other.id).is_ok());
        other.end();
    }

    /// spec: S4
    #[test]
    fn the_wait_channel_is_returned_if_the_kernel_tells_it() {
        assert_eq!(wait_channel(ThreadId::current()), None);
        let other = Other::new("channel");
        see(&Eye::open(other.id).unwrap(), State::Sleeps);
        if let Some(channel) = wait_channel(other.id) {
            assert!(channel.contains("futex"), "{channel}");
        }
        other.end();
    }

    #[test]
    fn lines_are_read_from_behind_the_name() {
        for (line, state) in [
            ("7 (a) R 1 7", State::Runs),
            ("7 (a) R 1) S 1 7", State::Sleeps),
            ("7 ()) (() D", State::Uninterruptible),
            ("4194304 (cmwq/0:1) t 1", State::Stopped),
            ("7 (a) Z 1", State::Gone),
            ("7 (a) P 1", State::Other('P')),
        ] {
            assert_eq!(parse(line.as_bytes()).unwrap(), Seen { state, cpu: None }, "{line}");
        }
        // The value of each field is the field's number in the manual.
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let line = format!("7 (a) R {}\n", fields.join(" "));
        assert_eq!(parse(line.as_bytes()).unwrap().cpu, Some(39));
        for line in ["", "7", "7 (a)", "7 (a) ", "7 (a) 1", "7 (a)  R"] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains(&format!("{line:?}")), "{error}");
        }
    }
}
