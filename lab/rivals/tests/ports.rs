//! The programs that the guide ports to cmwq, as they are before. `tests/tidy` compares them with the pages.

use std::env;
use std::path::Path;

/// Runs a program as the examples of the documentation run: in the folder of the library.
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
