//! The interface of the service, for servers and clients.
//!
//! `digest.rs` was generated from `digest.proto` once, so the build needs neither `protoc` nor a build script. After a
//! change of the interface, this call generates `digest.rs` again:
//! `tonic_prost_build::configure().out_dir("src").compile_protos(&["digest.proto"], &["."])`.

#[rustfmt::skip]
#[allow(clippy::all, clippy::use_self, clippy::semicolon_if_nothing_returned, reason = "this is generated")]
pub mod digest;
