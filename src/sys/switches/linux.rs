//! Records of context switches through `perf_event_open`. Each event belongs to one thread, follows this thread to any
//! CPU, and measures nothing. The kernel writes the event's records into a ring of one page, and this code reads the
//! ring.
//!
//! This code calls the interface through libc, because the code needs only about a dozen constants of a stable
//! interface. The crates for this interface offer much more, but only on four to seven architectures. The events
//! measure nothing in the kernel (`exclude_kernel`), so the system permits them if `perf_event_paranoid` is at most 2.

#![allow(
    unsafe_code,
    reason = "system calls that libc has no functions for, and memory shared with the kernel"
)]

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

use libc::{c_int, c_ulong};

use super::Switch;
use super::parity::{Next, Parity, RECORD};
use crate::sys::affinity::ThreadId;
use crate::sys::sync::{AtomicU64, Ordering};

/// The first version of `struct perf_event_attr`, which every kernel knows.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    config1: u64,
}

const TYPE_SOFTWARE: u32 = 1;
const SOFTWARE_DUMMY: u64 = 9;

// The positions of bits in `flags`, counted in the order in which C declares the bits.
const EXCLUDE_KERNEL: u32 = 5;
const EXCLUDE_HYPERVISOR: u32 = 6;
const WATERMARK_IS_BYTES: u32 = 14;
const SAMPLE_ID_ALL: u32 = 18;
const CONTEXT_SWITCH: u32 = 26;

/// The fields that the kernel writes at the end of each record, one word each: thread, time, id, stream, CPU and
/// identifier. Of these fields, this code reads only the CPU. The other fields only make the records as
/// [long](super::parity) as the ring needs.
const TRAILER: u64 = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 9 | 1 << 7 | 1 << 16;

/// The offset of the CPU's number in a record, in bytes. The number has four bytes, and follows the header and four
/// words.
const CPU: u64 = 40;

const OPEN_CLOEXEC: c_ulong = 1 << 3;

// Offsets in the first page of a mapping, in bytes.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The beginning of each record.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    kind: u32,
    misc: u16,
    size: u16,
}

const _: () = assert!(RECORD == (size_of::<Header>() + 8 * TRAILER.count_ones() as usize) as u64);

const KIND_SWITCH: u32 = 14;
const MISC_OUT: u16 = 1 << 13;
const MISC_OUT_PREEMPTED: u16 = 1 << 14;

/// The records of one thread. `pages` is declared first, so that it is dropped before `event`.
#[derive(Debug)]
pub(crate) struct Ring {
    pages: Pages,
    event: OwnedFd,
    /// The position up to which this code has read the records.
    read: u64,
    thread: ThreadId,
    parity: Parity,
    /// A second event, which wakes a listener at the first record, and its pages. The second event exists only if the
    /// first record is expected to be an *out* (the thread gives its CPU away), because the ring's own event does not
    /// wake a listener at this out. `None` after the first record. The pages come first, so that they are dropped
    /// before their event.
    first: Option<(Pages, OwnedFd)>,
    /// The last record that was read, with its CPU. `None` if no record was read so far, or if the kernel may have
    /// dropped a later record.
    last: Option<(Switch, usize)>,
    /// Whether the last `drain` has replaced the ring. A sleep that began during the replacement left no record.
    is_new: bool,
    /// Whether a listener has seen that the thread has ended.
    over: Cell<bool>,
}

impl Ring {
    pub(crate) fn attach(thread: ThreadId, runs: bool) -> io::Result<Self> {
        Self::new(thread, if runs { Next::Out } else { Next::In })
    }

    fn new(thread: ThreadId, next: Next) -> io::Result<Self> {
        let event = open(thread, next.watermark() as u32)?;
        let pages = Pages::map(&event)?;
        let first = match next {
            Next::In => None,
            Next::Out => {
                let event = open(thread, 1)?;
                Some((Pages::map(&event)?, event))
            }
        };
        let (parity, over) = (Parity::new(next), Cell::new(false));
        Ok(Self { pages, event, read: 0, thread, parity, first, last: None, is_new: false, over })
    }

    pub(crate) fn is_primed(&self) -> bool {
        !self.is_new && self.parity.is_primed()
    }

    /// Returns whether a listener has seen that the thread has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Returns the descriptor for listeners. Returns `None` if the thread has ended, because the descriptor would then
    /// wake a listener again and again.
    pub(in crate::sys) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let event = self.first.as_ref().map_or(&self.event, |(_, event)| event);
        (!self.is_over()).then(|| event.as_fd())
    }

    pub(in crate::sys) fn ended(&self) {
        self.over.set(true);
    }

    pub(crate) fn drain(&mut self, mut tell: impl FnMut(Switch)) -> io::Result<()> {
        let head = self.pages.head().load(Ordering::Acquire); // pairs with the kernel's release of the head
        self.is_new = false;
        if self.read == head {
            return Ok(());
        }
        self.first = None;
        // The kernel drops records for which the ring has no room.
        let is_full = head - self.read + RECORD > self.pages.page as u64;
        let mut last = None;
        while self.read < head {
            let header = self.pages.header(self.read);
            if header.size == 0 || usize::from(header.size) % size_of::<Header>() != 0 {
                let message = format!("a record of kind {} with {} bytes", header.kind, header.size);
                return Err(io::Error::new(ErrorKind::InvalidData, message));
            }
            match (header.kind, header.misc) {
                (KIND_SWITCH, misc) => {
                    let switch = match () {
                        () if misc & MISC_OUT == 0 => Switch::Resumed,
                        () if misc & MISC_OUT_PREEMPTED != 0 => Switch::Preempted,
                        () => Switch::Slept,
                    };
                    self.parity.wrote(if switch == Switch::Resumed { Next::Out } else { Next::In });
                    tell(switch);
                    last = Some((switch, self.pages.number(self.read + CPU) as usize));
                }
                // No other kind of record was requested, so this record says that records were lost.
                _ => self.parity.note(header.size.into()),
            }
            self.read += u64::from(header.size);
        }
        // The store is a release, because the kernel may overwrite the records only after this code has read them.
        self.pages.tail().store(self.read, Ordering::Release);
        self.last = last.filter(|_| !is_full);
        self.parity.remedy().map_or(Ok(()), |next| self.renew(next))
    }

    pub(crate) fn is_awake_on(&self) -> Option<usize> {
        self.last.filter(|(switch, _)| *switch != Switch::Slept).map(|(_, cpu)| cpu)
    }

    /// Replaces the ring with an empty ring of new events. Mapping the same event again would take milliseconds,
    /// because this thread would wait for the kernel.
    fn renew(&mut self, next: Next) -> io::Result<()> {
        match Self::new(self.thread, next) {
            Ok(ring) => *self = Self { is_new: true, ..ring },
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => self.ended(),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn open(thread: ThreadId, wakeup_watermark: u32) -> io::Result<OwnedFd> {
    if thread.made_up().is_some() {
        return Err(ErrorKind::Unsupported.into());
    }
    let flags = [EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR, WATERMARK_IS_BYTES, SAMPLE_ID_ALL, CONTEXT_SWITCH];
    // On big-endian machines, C makes the first bit the highest bit.
    let bit = |bit: u32| if cfg!(target_endian = "big") { 1 << (63 - bit) } else { 1 << bit };
    let attributes = Attributes {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: SOFTWARE_DUMMY,
        sample_type: TRAILER,
        flags: flags.into_iter().map(bit).sum(),
        wakeup_watermark,
        ..Attributes::default()
    };
    let (any_cpu, no_group): (c_int, c_int) = (-1, -1);
    // SAFETY: the pointer refers to attributes, which the call only reads, and whose length is in their `size`. The
    // other arguments are numbers.
    let event = unsafe {
        let (attributes, thread) = (&raw const attributes, thread.number());
        libc::syscall(libc::SYS_perf_event_open, attributes, thread, any_cpu, no_group, OPEN_CLOEXEC)
    };
    match RawFd::try_from(event) {
        // SAFETY: the descriptor is new, so it has no other owner.
        Ok(event) if event >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(event) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An event without a ring. The kernel records nothing for this event's thread.
#[derive(Debug)]
pub(crate) struct Readiness(#[allow(dead_code, reason = "it is kept open, and not used")] OwnedFd);

pub(crate) fn permitted() -> io::Result<Readiness> {
    Ring::attach(ThreadId::current(), true).map(|ring| Readiness(ring.event))
}

/// Two pages that are shared with the kernel. The first page holds the positions up to which the kernel has written and
/// this code has read, and the second page holds the records. A forked process does not inherit the mapping.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    page: usize,
}

impl Pages {
    fn map(event: &OwnedFd) -> io::Result<Self> {
        // SAFETY: the call takes a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(|_| io::Error::last_os_error())?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the call makes a new mapping at an address that the system chooses, so it replaces no other mapping.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), 2 * page, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(Self { start: start.cast(), page }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the position up to which the kernel has written.
    fn head(&self) -> &AtomicU64 {
        self.word(HEAD)
    }

    /// Returns the position up to which this code has read the records.
    fn tail(&self) -> &AtomicU64 {
        self.word(TAIL)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + size_of::<AtomicU64>() <= self.page && offset % size_of::<AtomicU64>() == 0);
        // SAFETY: as long as `self` lives, the first page is mapped, readable and writable. The page is zeroed at
        // first, and is aligned to its own size. The offset is less than the page's size, so the word is within the
        // page. The kernel and this code write whole words into this page.
        unsafe { self.start.byte_add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Returns the header of the record that begins `position` bytes after the start of the first record.
    fn header(&self, position: u64) -> Header {
        let offset = (position % self.page as u64) as usize;
        debug_assert_eq!(offset % size_of::<Header>(), 0, "the lengths of records are multiples of that");
        // The kernel may write meanwhile, so the compiler must not read twice. For this reason, the read is volatile.
        // SAFETY: the second page is mapped, readable, and aligned to its size. The page's size and the lengths of
        // records are multiples of the header's size, so the whole header is in the page, and aligned. Every value is a
        // valid header.
        unsafe { self.start.byte_add(self.page + offset).cast::<Header>().read_volatile() }
    }

    /// Returns the number in the four bytes that begin `position` bytes after the start of the first record.
    fn number(&self, position: u64) -> u32 {
        let offset = (position % self.page as u64) as usize;
        debug_assert_eq!(offset % size_of::<u32>(), 0, "a record and its fields begin at multiples of that");
        // SAFETY: as in `header`. The four bytes lie in the second page, at a multiple of four.
        unsafe { self.start.byte_add(self.page + offset).cast::<u32>().read_volatile() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages were mapped by `map`, and no reference to them is left, because every such reference
        // borrows `self`.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), 2 * self.page) };
        debug_assert_eq!(result, 0, "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests;
