//! The ways to observe the service from outside, if the program was built with their features.

use std::error::Error;
use std::sync::Arc;

use crate::jobs::Account;
#[cfg(feature = "metrics")]
use crate::numbers::Numbers;

pub(crate) struct Observed {
    #[cfg(feature = "metrics")]
    numbers: Arc<Numbers>,
    /// The control server, which serves until it is dropped.
    #[cfg(all(unix, feature = "control"))]
    _control: cmwq::control::Server,
}

impl Observed {
    /// Starts to serve, and prints the addresses.
    #[cfg_attr(
        not(feature = "metrics"),
        expect(unused_variables, reason = "only the metrics tell the account")
    )]
    pub(crate) fn start(server: &tiny_http::Server, account: &Arc<Account>) -> Result<Self, Box<dyn Error>> {
        if cfg!(feature = "metrics") {
            println!("metrics on http://{}/metrics", server.server_addr());
        }
        #[cfg(all(unix, feature = "control"))]
        let control = cmwq::control::Server::start(cmwq::Executor::global())?;
        #[cfg(all(unix, feature = "control"))]
        println!("control on {}", control.path().display());
        Ok(Self {
            #[cfg(feature = "metrics")]
            numbers: Arc::new(Numbers::new(account)?),
            #[cfg(all(unix, feature = "control"))]
            _control: control,
        })
    }

    /// Returns a function that makes the text for Prometheus.
    #[cfg(feature = "metrics")]
    pub(crate) fn metrics(&self) -> Option<impl FnOnce() -> String + Send + 'static> {
        let numbers = Arc::clone(&self.numbers);
        Some(move || numbers.text())
    }

    #[cfg(not(feature = "metrics"))]
    pub(crate) fn metrics(&self) -> Option<fn() -> String> {
        None
    }
}
