//! The signals that end the service.

use std::io;
use std::sync::Arc;

use cmwq::CancelToken;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tiny_http::Server;

/// The steps of the end, in their order.
pub(crate) struct Ending {
    /// The first signal cancels this token. From then on the service accepts no more requests.
    pub(crate) begun: CancelToken,
    /// The second signal cancels this token. The tokens of all jobs and tasks are its children.
    pub(crate) hurry: CancelToken,
}

impl Ending {
    /// Starts a thread that waits for the signals, and wakes the accepting thread at each signal.
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
