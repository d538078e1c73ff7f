//! A connection of the load generator. It sends one request after the other.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The time limit of a request. A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, buffer: vec![0; 4096] }
    }

    /// Sends a request, which is given as bytes, and returns the status of its answer. After an error, the next call
    /// connects again.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<u16> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address)?,
        };
        stream.write_all(request)?;
        let mut length = 0;
        loop {
            let more = stream.read(&mut self.buffer[length..])?;
            length += more;
            if more == 0 || length == self.buffer.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(status) = complete(&self.buffer[..length])? {
                self.stream = Some(stream);
                return Ok(status);
            }
        }
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Returns the request for a path.
pub(crate) fn request(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: lab\r\n\r\n").into_bytes()
}

/// Returns the status if the answer is complete. The head of the answer must state its length.
fn complete(answer: &[u8]) -> io::Result<Option<u16>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| invalid())?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if answer.len() < end + 4 + length.ok_or_else(invalid)? {
        return Ok(None);
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.map(Some).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::complete;

    #[test]
    fn an_answer_is_complete_when_its_length_is_there() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nbusy\n";
        assert_eq!(complete(answer).unwrap(), Some(503));
        for length in 0..answer.len() {
            assert_eq!(complete(&answer[..length]).unwrap(), None, "{length}");
        }
        assert!(complete(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
