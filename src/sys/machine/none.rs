//! The substitute for builds without machines: all threads have the system's CPUs and time. This module's functions
//! have the names of those in [`machine`](super::machine), and cost nothing.

use std::io;
use std::thread::ThreadId;
use std::time::Duration;

use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;
use crate::sys::thread_state::Seen;

/// A number that no thread has.
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
    bind(_thread: Tid, _cpus: &CpuSet) -> bool;
    bound(_thread: Tid) -> CpuSet;
    seen(_thread: Tid) -> Seen;
    cpu_time(_thread: Tid) -> Duration;
    sleeps_so_far(_thread: Tid) -> u64;
    sleep(_key: Key, _validate: &mut dyn FnMut() -> bool, _until: Option<Time>) -> bool;
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
