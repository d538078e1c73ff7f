//! Any bytes that come to the control socket: each line is answered by a line of JSON, and nothing else happens.
//! `src/control/fuzz.rs` says how the bytes are used. The unit tests feed the corpus to the same code.
#![no_main]

use std::sync::OnceLock;

use cmwq::control::FuzzTarget;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<FuzzTarget> = OnceLock::new();
    TARGET.get_or_init(FuzzTarget::new).feed(bytes);
});
