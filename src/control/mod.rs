//! A running process, seen and changed from outside through a Unix socket.

mod attribute;
mod client;
mod desk;
mod error;
mod path;
mod protocol;
mod server;
mod session;
mod values;

pub use self::attribute::{Attribute, ParseAttributeError};
pub use self::client::Client;
pub use self::error::{ClientError, ServeError};
pub use self::path::{Process, processes};
pub use self::protocol::{
    ErrorKind, Hello, MAX_REQUEST, PROTOCOL, RequestError, StalledPool, WatchdogReport,
};
pub use self::server::{MAX_CONNECTIONS, Server};
