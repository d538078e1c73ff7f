//! Tests of the scheduler's records, on systems that permit such records. On other systems, no ring can be attached to
//! a thread, and the tests end without a check.

#![allow(clippy::disallowed_methods, reason = "the tests watch threads that sleep, and run for some time")]

use super::*;
use crate::sys::affinity::{current_cpu, pin_to_cpu, process_cpus};
use crate::sys::clock;
use crate::sys::pause::Pause;
use crate::sys::thread::spawn;
use std::hint::spin_loop;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::skip;

/// The interval at which a listener checks a ring that is not primed (may not wake the listener).
const LOOK: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

/// A thread that repeats one action.
struct Other {
    id: ThreadId,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Other {
    fn new(begin: impl FnOnce() + Send + 'static, again: impl Fn() + Send + 'static) -> Self {
        let (tell, told) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = spawn("switches".to_owned(), None, move || {
            begin();
            tell.send(ThreadId::current()).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                again();
            }
        });
        Self { id: told.recv().unwrap(), stop, thread: thread.unwrap() }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Attaches a ring to a thread that runs. Returns `None` if the system does not permit records.
fn attach(thread: ThreadId) -> Option<Ring> {
    match Ring::attach(thread, true) {
        Ok(ring) => Some(ring),
        Err(error) => {
            let known = [libc::EACCES, libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::ENOENT];
            assert!(known.contains(&error.raw_os_error().unwrap()), "{error}");
            assert_eq!(permitted().unwrap_err().raw_os_error(), error.raw_os_error());
            skip("no-perf", error);
            None
        }
    }
}

fn drain(ring: &mut Ring) -> Vec<Switch> {
    let mut switches = Vec::new();
    ring.drain(|switch| switches.push(switch)).unwrap();
    switches
}

fn busy(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

/// spec: S1
#[test]
fn a_listener_is_woken_when_a_thread_sleeps() {
    let other = Other::new(
        || (),
        || {
            busy(Duration::from_micros(300));
            std::thread::sleep(Duration::from_millis(2));
        },
    );
    if let Some(mut ring) = attach(other.id) {
        let pause = Pause::listening().unwrap();
        let mut found = 0;
        while found < 20 {
            let until = Some(clock::now() + if ring.is_primed() { LONG } else { LOOK });
            let woken = pause.sleep(|| true, until, &[&ring]);
            assert!(woken || !ring.is_primed());
            found += usize::from(drain(&mut ring).ends_with(&[Switch::Slept]) && woken);
        }
    }
    other.end();
}

/// Two threads take one CPU from each other.
///
/// spec: S1
#[test]
fn a_preempted_thread_is_not_reported_asleep() {
    let cpu = process_cpus().unwrap().first().unwrap();
    let others = [0, 1].map(|_| Other::new(move || assert!(pin_to_cpu(cpu)), spin_loop));
    if let Some(mut ring) = attach(others[0].id) {
        let mut switches = Vec::new();
        while switches.len() < 10 {
            std::thread::sleep(Duration::from_millis(1));
            switches.extend(drain(&mut ring));
        }
        assert!(!switches.contains(&Switch::Slept), "{switches:?}");
        let alternate = |pair: &[Switch]| (pair[0] == Switch::Resumed) != (pair[1] == Switch::Resumed);
        // A ring that was replaced misses a few records.
        assert!(switches.windows(2).filter(|pair| !alternate(pair)).count() <= 3, "{switches:?}");
    }
    others.into_iter().for_each(Other::end);
}

/// The listener wakes up on the CPU of a thread that never sleeps, and takes this CPU from the thread each time.
///
/// spec: S1
#[test]
fn listening_to_a_thread_on_the_same_cpu_ends() {
    let cpu = process_cpus().unwrap().first().unwrap();
    let other = Other::new(move || assert!(pin_to_cpu(cpu)), spin_loop);
    let thread = other.id;
    if attach(thread).is_none() {
        return other.end();
    }
    let listener = spawn("listener".to_owned(), None, move || {
        assert!(pin_to_cpu(cpu));
        // The right value of `runs` is `false`, because the thread waits for this CPU. But the ring must work with the
        // wrong value, too.
        for runs in [false, true] {
            let mut ring = Ring::attach(thread, runs).unwrap();
            let pause = Pause::listening().unwrap();
            let mut wakeups = |time| {
                let mut woken = 0;
                let start = Instant::now();
                while start.elapsed() < time {
                    let longest = if ring.is_primed() { Duration::from_millis(100) } else { LOOK };
                    woken += u32::from(pause.sleep(|| true, Some(clock::now() + longest), &[&ring]));
                    drain(&mut ring);
                }
                woken
            };
            // If the ring were not replaced, wake-ups would follow each other for ever, some twenty per millisecond.
            // Threads of other tests take this CPU several times per millisecond, too, but not for ever.
            let end = Instant::now() + LONG;
            while wakeups(Duration::from_millis(200)) >= 1000 {
                assert!(Instant::now() < end, "the listener takes the CPU again and again");
            }
        }
        assert_eq!(current_cpu(), Some(cpu));
    });
    listener.unwrap().join().unwrap();
    other.end();
}

/// spec: S1: the ring tells on which CPU a thread is, until the thread sleeps.
#[test]
fn the_last_record_tells_where_a_thread_is() {
    let cpu = process_cpus().unwrap().first().unwrap();
    let sleep = Arc::new(AtomicBool::new(false));
    let its_sleep = sleep.clone();
    let other = Other::new(
        move || assert!(pin_to_cpu(cpu)),
        move || match its_sleep.load(Ordering::Relaxed) {
            true => std::thread::park_timeout(Duration::from_secs(60)),
            // The thread gives its CPU away now and then.
            false => std::thread::yield_now(),
        },
    );
    if let Some(mut ring) = attach(other.id) {
        assert_eq!(ring.is_awake_on(), None, "no record so far");
        // In the meantime, this thread and threads of other programs take the CPU.
        assert!(pin_to_cpu(cpu));
        let end = Instant::now() + Duration::from_secs(20);
        let mut tells = |awake_on| {
            while ring.is_awake_on() != awake_on {
                assert!(Instant::now() < end, "{:?}", ring.is_awake_on());
                std::thread::sleep(Duration::from_millis(1));
                drain(&mut ring);
            }
        };
        tells(Some(cpu));
        sleep.store(true, Ordering::Relaxed);
        tells(None);
    }
    other.stop.store(true, Ordering::Relaxed);
    other.thread.thread().unpark();
    other.end();
}

/// An ended thread must not wake the listener for ever.
#[test]
fn a_thread_that_has_ended_wakes_once() {
    let other = Other::new(|| (), || std::thread::sleep(Duration::from_micros(100)));
    let thread = other.id;
    let Some(mut ring) = attach(thread) else { return other.end() };
    other.end();
    let pause = Pause::listening().unwrap();
    while !ring.is_over() {
        assert!(pause.sleep(|| true, Some(clock::now() + LONG), &[&ring]));
    }
    while pause.sleep(|| true, Some(clock::now() + LOOK), &[&ring]) {}
    drain(&mut ring);
    assert_eq!(Ring::attach(thread, true).unwrap_err().raw_os_error(), Some(libc::ESRCH));
}

/// A thread leaves more records than its ring holds. Whichever records are missing, the ring computes the kernel's
/// state correctly, and so becomes primed again (ready to wake a listener).
#[test]
fn a_ring_that_has_lost_records_becomes_primed_again() {
    let other = Other::new(|| (), || std::thread::sleep(Duration::from_micros(1)));
    if let Some(mut ring) = attach(other.id) {
        std::thread::sleep(Duration::from_millis(150));
        let kept = drain(&mut ring).len();
        assert!(kept <= ring.pages.page / size_of::<Header>(), "{kept}");
        while !ring.is_primed() {
            std::thread::sleep(Duration::from_millis(1));
            drain(&mut ring);
        }
    }
    other.end();
}
