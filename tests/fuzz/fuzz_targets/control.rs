//! The control socket gets arbitrary bytes. It answers each line with a line of JSON, and nothing else happens.
//! `src/control/fuzz.rs` says how the bytes are used. The unit tests pass the corpus of the fuzzer to the same code.
#![no_main]

use std::sync::OnceLock;

use cmwq::control::FuzzTarget;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<FuzzTarget> = OnceLock::new();
    TARGET.get_or_init(FuzzTarget::new).feed(bytes);
});
