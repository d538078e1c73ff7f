//! The counted program's requests to callgrind: to begin and end counting, and to write the counts.
//!
//! A client request is a sequence of instructions that has no effect and that no compiler generates. Valgrind
//! recognises the sequence, and a real processor just executes it. The crates that wrap valgrind's header need libclang
//! to read that header.
#![allow(unsafe_code, reason = "a client request is a sequence of instructions")]

/// Whether requests are possible on this target.
pub(crate) const IS_POSSIBLE: bool =
    cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
pub(crate) const ELSEWHERE: &str = "instructions are counted on Linux only, on x86-64 and AArch64";

/// The number of callgrind's first request.
const CALLGRIND: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16;
const DUMP_STATS: usize = CALLGRIND;
const ZERO_STATS: usize = CALLGRIND + 1;
const TOGGLE_COLLECT: usize = CALLGRIND + 2;

/// Begins or ends counting on the calling thread only.
#[inline]
pub(crate) fn toggle() {
    ask(TOGGLE_COLLECT);
}

/// Discards the counts.
pub(crate) fn forget() {
    ask(ZERO_STATS);
}

/// Writes the counts to a file, and discards them.
pub(crate) fn write_down() {
    ask(DUMP_STATS);
}

/// Sends a request. None of the requests used here has an argument.
#[inline]
#[cfg(target_arch = "x86_64")]
fn ask(request: usize) {
    let arguments = [request, 0, 0, 0, 0, 0];
    // SAFETY: the sequence rotates rdi by 128 bits in all, and exchanges rbx with itself, so neither register changes.
    // Valgrind reads the arguments, which are in place, and writes its answer to rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const arguments,
            inout("rdx") 0_usize => _,
            options(nostack),
        );
    }
}

#[inline]
#[cfg(target_arch = "aarch64")]
fn ask(request: usize) {
    let arguments = [request, 0, 0, 0, 0, 0];
    // SAFETY: the sequence rotates x12 by 128 bits in all, and copies x10 to itself, so neither register changes.
    // Valgrind reads the arguments, which are in place, and writes its answer to x3.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, 3",
            "ror x12, x12, 13",
            "ror x12, x12, 51",
            "ror x12, x12, 61",
            "orr x10, x10, x10",
            inout("x3") 0_usize => _,
            in("x4") &raw const arguments,
            options(nostack),
        );
    }
}

/// On other targets the program compiles, and reports that it cannot count.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ask(_request: usize) {}

#[cfg(test)]
mod tests {
    #[test]
    fn requests_without_valgrind_do_nothing() {
        super::toggle();
        super::forget();
        super::write_down();
    }
}
