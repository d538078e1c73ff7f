//! The checks of the fuzz target `tests/fuzz/fuzz_targets/control.rs`.

use crate::executor::Executor;
use crate::kernel;
use crate::policy::time::Time;
use crate::queue::WorkQueue;
use crate::sys::socket::Interest;
use crate::sys::topology::TopologySource;

use super::request_handler::RequestHandler;
use super::session::Session;

/// An executor with a few queues of all kinds. Clients may change all queues of this executor except the queue `kept`.
#[doc(hidden)]
#[derive(Debug)]
pub struct FuzzTarget {
    executor: Executor,
    kept: WorkQueue,
    _changeable: Vec<WorkQueue>,
}

impl FuzzTarget {
    /// Makes the executor and its queues.
    ///
    /// # Panics
    ///
    /// Panics if the system cannot make threads.
    #[doc(hidden)]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a target has threads")]
    pub fn new() -> Self {
        let topology = TopologySource::Synthetic("numa:2 l3:2 core:2 pu:1".into());
        let executor = Executor::builder().topology(topology).build().expect("it can be made");
        let builders = [
            WorkQueue::builder("n"),
            WorkQueue::builder("twin"),
            WorkQueue::unbound("twin"),
            WorkQueue::ordered("o"),
            WorkQueue::per_cpu("p"),
            kernel::bh("b"),
        ];
        let changeable =
            builders.map(|builder| builder.control(true).build_on(&executor).expect("it can be made"));
        let kept = WorkQueue::builder("kept").build_on(&executor).expect("it can be made");
        Self { executor, kept, _changeable: changeable.into() }
    }

    /// Feeds the input to a connection, and checks the answers. The first byte of the input, modulo 8, is the number of
    /// length bytes that follow it. The rest of the input arrives in pieces. The length bytes determine the lengths of
    /// these pieces.
    ///
    /// # Panics
    ///
    /// Panics if an answer is not a line of JSON, if there are more answers than requests, or if the queue that clients
    /// may not change has changed.
    #[doc(hidden)]
    pub fn feed(&self, input: &[u8]) {
        let settings = || (self.kept.attrs(), self.kept.max_active());
        let before = settings();
        let (first, rest) = input.split_first().unwrap_or((&0, &[]));
        let (lengths, bytes) = rest.split_at(usize::from(first % 8).min(rest.len()));
        self.converse(bytes, lengths);
        assert_eq!(settings(), before, "it was not to be changed");
    }

    fn converse(&self, bytes: &[u8], lengths: &[u8]) {
        let (request_handler, now) = (RequestHandler::new(&self.executor), Time::default());
        let (mut session, mut rest) = (Session::new(now), bytes);
        let mut lengths = lengths.iter().map(|length| usize::from(*length) * 7 + 1).cycle();
        let mut answered = 0;
        while !session.is_over(now) {
            if session.interest() == Some(Interest::Read) {
                let piece = lengths.next().unwrap_or(usize::MAX).min(rest.len()).min(session.room());
                let (now_read, later) = rest.split_at(piece);
                rest = later;
                if now_read.is_empty() { session.half_closed() } else { session.received(now_read) }
            }
            session.advance(now, |line| {
                answered += 1;
                request_handler.answer(line)
            });
            let unsent = session.unsent();
            if !unsent.is_empty() {
                assert_eq!(unsent.iter().position(|byte| *byte == b'\n'), Some(unsent.len() - 1));
                let answer: serde_json::Value = serde_json::from_slice(unsent).expect("an answer is JSON");
                assert!(answer.get("ok").is_some() || answer["error"]["message"].is_string());
                session.sent(unsent.len(), now);
            }
        }
        assert!(answered <= bytes.iter().filter(|byte| **byte == b'\n').count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// spec: O5.2, O5.4: each input that the fuzzer has kept, because it reached new code, is fed to a connection. The
    /// connection gives only valid answers.
    #[test]
    fn the_corpus_of_the_fuzz_target_is_answered() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/control");
        let target = FuzzTarget::new();
        let mut files = 0;
        for entry in fs::read_dir(corpus).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            target.feed(&fs::read(path).unwrap());
            files += 1;
        }
        assert!(files > 100, "{files} files");
    }
}
