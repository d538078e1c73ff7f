//! What the counted program asks of callgrind: to count from here to there, and to write down what it has counted.
//!
//! A client request is a sequence of instructions that changes nothing, and that no compiler would write. Valgrind knows
//! it, and the real processor passes over it. The crates that wrap valgrind's header need libclang to read that.
#![allow(unsafe_code, reason = "a client request is a sequence of instructions")]

/// Whether there is somebody to ask.
pub(crate) const IS_POSSIBLE: bool =
    cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
pub(crate) const ELSEWHERE: &str = "instructions are counted on Linux only, on x86-64 and AArch64";

/// The numbers of callgrind's requests begin here.
const CALLGRIND: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16;
const DUMP_STATS: usize = CALLGRIND;
const ZERO_STATS: usize = CALLGRIND + 1;
const TOGGLE_COLLECT: usize = CALLGRIND + 2;

/// Begins to count on the calling thread, and on no other one; or ends it.
#[inline]
pub(crate) fn toggle() {
    ask(TOGGLE_COLLECT);
}

/// Forgets what was counted.
pub(crate) fn forget() {
    ask(ZERO_STATS);
}

/// Writes a file of what was counted, and forgets it.
pub(crate) fn write_down() {
    ask(DUMP_STATS);
}

/// None of the requests used here has an argument.
#[inline]
#[cfg(target_arch = "x86_64")]
fn ask(request: usize) {
    let arguments = [request, 0, 0, 0, 0, 0];
    // SAFETY: rdi is rotated by 128 bits in all, which leaves it as it was, and rbx is exchanged with itself. Valgrind
    // reads the arguments, which are in place, and writes its answer to rdx.
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
    // SAFETY: x12 is rotated by 128 bits in all, which leaves it as it was, and x10 becomes itself. Valgrind reads the
    // arguments, which are in place, and writes its answer to x3.
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

/// It is compiled wherever the workspace is, and says that it cannot count.
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
