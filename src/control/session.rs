//! The state of one connection, apart from its socket: its input, its output, and its deadlines.
//!
//! The session takes a request from its input only after it has sent the answer to the previous request. Until then,
//! the session reads no further input. So a connection needs space for only one request and one answer, whatever the
//! client does.

use std::time::Duration;

use crate::policy::time::Time;
use crate::sys::socket::Interest;

use super::protocol::{Answer, ErrorKind, MAX_REQUEST, RequestError, line_of};

/// A connection is closed if the client sends no request for this time. Bytes that do not complete a request do not
/// count as a request.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// A connection is closed if the client reads nothing of its answer for this time.
pub(super) const STANDSTILL: Duration = Duration::from_secs(5);
/// A connection is closed if the client has not read the whole answer within this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The state of one connection, apart from its socket.
#[derive(Debug)]
pub(super) struct Session {
    /// The received bytes whose requests are not answered yet.
    input: Vec<u8>,
    /// The number of bytes at the start of `input` that were searched and contain no newline.
    searched: usize,
    /// An answer, of which the first `sent` bytes have been sent.
    output: Vec<u8>,
    sent: usize,
    /// Whether the session takes no more input.
    ended: bool,
    /// The time at which the connection is closed, unless a request arrives or an answer makes progress first.
    deadline: Time,
    /// The time at which the connection is closed if the whole answer has not been sent by then.
    latest: Time,
}

impl Session {
    pub(super) fn new(now: Time) -> Self {
        Self {
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            sent: 0,
            ended: false,
            deadline: now + SILENCE,
            latest: Time::NEVER,
        }
    }

    /// Returns the line with an error that a client gets before the connection is closed.
    pub(super) fn farewell(error: RequestError) -> Vec<u8> {
        line_of(&Answer::<()>::Error(error))
    }

    /// Returns the event that the session waits for, or `None` if it can answer a request without waiting.
    pub(super) fn interest(&self) -> Option<Interest> {
        match (self.unsent().is_empty(), self.has_line()) {
            (false, _) => Some(Interest::Write),
            (true, false) => Some(Interest::Read),
            (true, true) => None,
        }
    }

    /// Returns the number of bytes that may be read into the input now.
    pub(super) fn room(&self) -> usize {
        (MAX_REQUEST + 1).saturating_sub(self.input.len())
    }

    /// Appends newly received bytes to the input.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.search();
    }

    /// Notes that the client sends nothing more. The requests that it has already sent are still answered.
    pub(super) fn half_closed(&mut self) {
        self.ended = true;
    }

    /// Answers the next request, if there is a request and the previous answer has been sent.
    pub(super) fn advance(&mut self, now: Time, answer: impl FnOnce(&[u8]) -> Vec<u8>) {
        if !self.unsent().is_empty() {
            return;
        }
        if self.has_line() {
            let line: Vec<u8> = self.input.drain(..=self.searched).collect();
            (self.searched, self.output) = (0, answer(line.trim_ascii()));
            self.search();
        } else if self.input.len() > MAX_REQUEST {
            let message = format!("the request is longer than {MAX_REQUEST} bytes, the most that is read");
            self.output = Self::farewell(RequestError::new(ErrorKind::TooLong, message));
            (self.input, self.searched, self.ended) = (Vec::new(), 0, true);
        } else {
            return;
        }
        self.deadline = now + STANDSTILL;
        self.latest = now + PATIENCE;
    }

    /// Returns the bytes that are still to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Notes that this many more bytes of the answer were sent.
    pub(super) fn sent(&mut self, bytes: usize, now: Time) {
        self.sent += bytes;
        self.deadline = now + STANDSTILL;
        if self.unsent().is_empty() {
            // A dump is large, so its buffer is not kept for the next answer.
            (self.output, self.sent) = (Vec::new(), 0);
            (self.deadline, self.latest) = (now + SILENCE, Time::NEVER);
        }
    }

    /// Returns the time at which the connection is closed, unless the client makes progress first.
    pub(super) fn deadline(&self) -> Time {
        self.deadline.min(self.latest)
    }

    /// Returns whether the connection must be closed.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.is_done() || now >= self.deadline()
    }

    /// Returns whether the client sends nothing more and has all its answers.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.unsent().is_empty() && !self.has_line()
    }

    /// Returns whether the input contains a whole request.
    fn has_line(&self) -> bool {
        self.searched < self.input.len()
    }

    /// Searches for the end of the first line. Sets `searched` to the position of the newline, or to the end of the
    /// input if there is no newline. Searches each byte only once.
    fn search(&mut self) {
        if !self.has_line() || self.input[self.searched] != b'\n' {
            let rest = &self.input[self.searched..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            self.searched += end.unwrap_or(rest.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    /// Answers by repeating the line.
    fn echo(line: &[u8]) -> Vec<u8> {
        [line, b"\n"].concat()
    }

    /// Sends all unsent bytes, and returns these bytes.
    fn take(session: &mut Session, now: Time) -> Vec<u8> {
        let unsent = session.unsent().to_vec();
        if !unsent.is_empty() {
            session.sent(unsent.len(), now);
        }
        unsent
    }

    /// spec: O5.7 (a client sends two requests, and then closes its sending side: the session answers one request at a
    /// time, and then ends)
    #[test]
    fn requests_are_answered_one_by_one_also_after_the_end() {
        let mut session = Session::new(at(0));
        session.received(b"a\nb\r\nc");
        session.half_closed();
        assert_eq!(session.interest(), None, "there is something to do");
        for line in [b"a\n", b"b\n"] {
            session.advance(at(0), echo);
            assert_eq!(session.interest(), Some(Interest::Write));
            session.advance(at(0), |_| unreachable!("the previous answer is not sent yet"));
            assert!(!session.is_over(at(0)));
            assert_eq!(take(&mut session, at(0)), line);
        }
        session.advance(at(0), |_| unreachable!("there is no whole request"));
        assert!(session.is_over(at(0)));
    }

    /// spec: O5.7 (a client that completes no request in time, or reads its answer too slowly, is disconnected)
    #[test]
    fn silent_and_slow_clients_are_disconnected() {
        let mut session = Session::new(at(0));
        session.received(b"slow");
        assert!(!session.is_over(at(29)));
        session.received(b"l");
        assert!(session.is_over(at(30)), "bytes alone are not a request");

        let mut session = Session::new(at(0));
        session.received(b"x\n");
        session.advance(at(20), |_| vec![0; 1000]);
        assert!(session.is_over(at(25)) && !session.is_over(at(24)));
        for second in 21..=79 {
            session.sent(1, at(second));
            assert!(!session.is_over(at(second)));
        }
        session.sent(1, at(79));
        assert!(session.is_over(at(80)), "a byte a second is too slow");
    }

    /// spec: O5 (a request that is too long gets an error, and ends the connection; the longest permitted request is
    /// answered)
    #[test]
    fn a_request_that_is_too_long_is_refused_and_the_connection_ends() {
        let mut session = Session::new(at(0));
        while session.room() > 0 {
            session.advance(at(0), echo);
            assert!(session.unsent().is_empty());
            session.received(&vec![b'x'; session.room().min(1000)]);
        }
        session.advance(at(0), echo);
        let answer = take(&mut session, at(0));
        assert!(answer.starts_with(br#"{"error":{"kind":"too_long""#), "{}", answer.escape_ascii());
        assert!(session.is_over(at(0)));

        let mut session = Session::new(at(0));
        session.received(&[vec![b'x'; MAX_REQUEST], vec![b'\n']].concat());
        session.advance(at(0), echo);
        assert_eq!(take(&mut session, at(0)).len(), MAX_REQUEST + 1, "the longest request that is read");
        assert!(!session.is_over(at(0)));
    }

    proptest! {
        /// The answers come out whole and in order, whatever the sizes of the pieces in which lines are received and
        /// answers are sent.
        #[test]
        fn lines_come_out_whole(
            lines in proptest::collection::vec("[a-z]{0,40}", 0..20),
            pieces in proptest::collection::vec((1_usize..50, 1_usize..50), 1..400),
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let (mut session, mut rest, mut told) = (Session::new(at(0)), text.as_bytes(), Vec::new());
            for (read, sent) in pieces.into_iter().cycle() {
                if session.interest() == Some(Interest::Read) {
                    if rest.is_empty() {
                        break;
                    }
                    let (piece, later) = rest.split_at(read.min(rest.len()).min(session.room()));
                    session.received(piece);
                    rest = later;
                }
                session.advance(at(0), echo);
                let gone = session.unsent().len().min(sent);
                if gone > 0 {
                    told.extend_from_slice(&session.unsent()[..gone]);
                    session.sent(gone, at(0));
                }
            }
            prop_assert_eq!(String::from_utf8(told).unwrap(), text);
        }
    }
}
