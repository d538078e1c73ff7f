//! The programs that the guide ports to cmwq, in their state before the port. `tests/tidy` compares them with the
//! guide's pages.

use std::env;
use std::path::Path;

/// Runs a program in the folder of the library, in which the examples of the documentation run, too.
fn in_the_library<T>(program: fn() -> T) -> T {
    env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    program()
}

mod from_threadpool {
    include!("ports/from_threadpool.rs");

    #[test]
    fn runs() {
        super::in_the_library(main);
    }
}

mod from_tokio {
    include!("ports/from_tokio.rs");

    #[test]
    fn runs() {
        super::in_the_library(main).unwrap();
    }
}

mod from_rayon {
    include!("ports/from_rayon.rs");

    #[test]
    fn runs() {
        super::in_the_library(main);
    }
}
