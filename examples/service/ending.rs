//! The signals that end the service.

use std::io;
use std::sync::Arc;

use cmwq::CancelToken;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tiny_http::Server;

/// The steps of the end, in their order.
pub(crate) struct Ending {
    /// Is cancelled by the first signal: the service accepts no more.
    pub(crate) begun: CancelToken,
    /// Is cancelled by the second signal. All jobs and tasks have tokens below this one.
    pub(crate) hurry: CancelToken,
}

impl Ending {
    /// Starts a thread that waits for the signals, and wakes the accepting thread.
    pub(crate) fn on_signals(server: &Arc<Server>) -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let server = Arc::downgrade(server);
        let ending = Self { begun: CancelToken::new(), hurry: CancelToken::new() };
        let steps = [ending.begun.clone(), ending.hurry.clone()];
        std::thread::spawn(move || {
            for (step, _) in steps.iter().zip(signals.forever()) {
                step.cancel();
                if let Some(server) = server.upgrade() {
                    server.unblock();
                }
            }
        });
        Ok(ending)
    }
}
