//! The four timelines of the kernel's documentation, and their measurement on real threads. The program of this package
//! compares the measured timelines with the documented ones. The bench `timelines` measures their makespans.

pub mod measure;
pub mod scenario;
