//! The substitute for the module [`machine`](super::machine) in builds without simulated machines. In such a build, all
//! threads have the system's CPUs and time. Each function has the name of a function in that module, and costs nothing.

use std::io;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;
use crate::sys::thread_state::Seen;

/// See [`machine`](super::machine).
pub(crate) const MAY_EXIST: bool = false;

/// The number of a thread of a machine. Without machines, no thread has such a number.
pub(crate) type Tid = usize;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Address(#[allow(dead_code, reason = "no thread sleeps on it")] usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Parked {}

impl Parked {
    #[inline(always)]
    pub(crate) fn current() -> Option<Self> {
        None
    }

    pub(crate) fn unpark(&self) {
        match *self {}
    }
}

macro_rules! none {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(#[inline(always)]
        #[allow(dead_code, reason = "only Linux needs all of these functions")]
        pub(crate) fn $name($($argument: $type),*) -> Option<$answer> {
            None
        })*
    };
}

none! {
    now() -> Time;
    park(_timeout: Option<Duration>) -> bool;
    wait_for_end(_thread: ThreadId, _until: Option<Time>) -> bool;
    current() -> Tid;
    current_cpu() -> usize;
    cpus() -> CpuSet;
    present_cpus() -> CpuSet;
    bind(_thread: Tid, _cpus: &CpuSet) -> bool;
    bound(_thread: Tid) -> CpuSet;
    seen(_thread: Tid) -> Seen;
    cpu_time(_thread: Tid) -> Duration;
    sleeps_so_far(_thread: Tid) -> u64;
    stays_awake(_time: Duration) -> bool;
    sleep(_key: Key, _validate: &mut dyn FnMut() -> bool, _until: Option<Time>) -> bool;
}

none! {
    has_ended(_thread: ThreadId) -> bool;
    until_locked(_lock: usize, _until: Option<Time>, _attempt: impl FnMut() -> bool) -> bool;
    until_ready(_key: usize, _until: Option<Time>, _what: &'static str, _attempt: impl FnMut() -> bool) -> bool;
    until_woken(_key: usize, _until: Option<Time>, _what: &'static str) -> bool;
}

#[inline(always)]
pub(crate) fn own<T>(_make: impl FnOnce() -> T) -> Option<Arc<T>> {
    None
}

macro_rules! nothing {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(#[inline(always)]
        pub(crate) fn $name($($argument: $type),*) {})*
    };
}

nothing! {
    step();
    fail_if(_wrong: bool, _text: impl FnOnce() -> String);
    note(_what: impl FnOnce() -> String);
    begins(_address: usize, _name: &'static str, _queue: &str);
    ends(_panicked: bool, _tells_no_one: bool);
    panic_is_told(_item: usize);
    own_panic_is_told();
    holds(_lock: usize);
    keeps_house(_only: bool);
    released(_lock: usize);
    panic_as_planned();
    perform_chores();
}

#[inline(always)]
pub(crate) fn quietly<R>(act: impl FnOnce() -> R) -> R {
    act()
}

#[inline(always)]
pub(crate) fn step_to<'a>(_place: impl FnOnce() -> (u64, &'a str)) {}

#[inline(always)]
pub(crate) fn number() -> u64 {
    0
}

/// The reason for a wait. Without machines, no code reads this reason.
pub(crate) struct Waiting;

#[inline(always)]
pub(crate) fn waits_for_item(_address: usize, _what: impl FnOnce() -> String) -> Waiting {
    Waiting
}

#[inline(always)]
pub(crate) fn waits_for_queue(_queue: &str, _what: impl FnOnce() -> String) -> Waiting {
    Waiting
}

#[inline(always)]
pub(crate) fn waits_for(_what: &'static str) -> Waiting {
    Waiting
}

#[inline(always)]
pub(crate) fn name_of_spawned() -> String {
    String::new()
}

#[inline(always)]
pub(crate) fn refuses_submission<'a>(_queue: impl FnOnce() -> &'a str) -> bool {
    false
}

/// A function that sleeping threads call at intervals.
pub(crate) type Chore = Arc<dyn Fn() -> bool + Send + Sync>;

#[inline(always)]
pub(crate) fn add_chore(_chore: impl FnOnce() -> Chore) -> bool {
    false
}

#[inline(always)]
pub(crate) fn has_chores() -> bool {
    false
}

#[inline(always)]
pub(crate) fn lateness() -> Duration {
    Duration::ZERO
}

#[inline(always)]
pub(crate) fn listens() -> bool {
    false
}

#[inline(always)]
pub(crate) fn nap(_time: Duration) -> bool {
    false
}

#[inline(always)]
pub(crate) fn park_a_while(_timeout: Option<Duration>) -> bool {
    false
}

#[inline(always)]
pub(crate) fn wake_object(_key: usize, _all: bool) -> usize {
    0
}

#[inline(always)]
pub(crate) fn yield_now() -> bool {
    false
}

#[inline(always)]
pub(crate) fn wake(_key: Key, _all: bool) {}

#[inline(always)]
pub(crate) fn adopt<F>(_name: &str, body: F) -> io::Result<(F, Option<Tid>)> {
    Ok((body, None))
}

#[inline(always)]
pub(crate) fn made(_tid: Option<Tid>, _name: ThreadId) {}
