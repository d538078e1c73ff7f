//! `Blocking`, which wraps values that read and write.

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use cmwq::blocking::io::Blocking;
use cmwq::{Executor, WorkQueue};

use super::waits_for_the_next;
use crate::support::{one_cpu_unseen, pool, time_limit};

/// A pair of streams: bytes written to the second can be read from the first.
pub(super) fn pipe() -> (OwnedFd, UnixStream) {
    let (read, write) = UnixStream::pair().unwrap();
    (read.into(), write)
}

/// spec: C7.5: an item that waits in a read lets the next item start.
#[test]
fn reading_lets_another_item_start() {
    let _limit = time_limit();
    type Reads = fn(Blocking<UnixStream>) -> String;
    let reads: [Reads; 6] = [
        |mut stream| {
            let mut buffer = [0; 10];
            let read = stream.read(&mut buffer).unwrap();
            String::from_utf8(buffer[..read].to_vec()).unwrap()
        },
        |mut stream| {
            let mut buffer = [0; 5];
            stream.read_exact(&mut buffer).unwrap();
            String::from_utf8(buffer.to_vec()).unwrap()
        },
        |mut stream| {
            let mut buffer = Vec::new();
            stream.read_to_end(&mut buffer).unwrap();
            String::from_utf8(buffer).unwrap()
        },
        |mut stream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        },
        |stream| BufReader::new(stream).lines().map(|line| line.unwrap() + "\n").collect(),
        |stream| {
            let mut text = String::new();
            Blocking::new(BufReader::new(stream.into_inner())).read_line(&mut text).unwrap();
            text
        },
    ];
    for read in reads {
        let (stream, mut says) = UnixStream::pair().unwrap();
        let text = waits_for_the_next(
            move || read(Blocking::new(stream)),
            move || says.write_all(b"meow\n").unwrap(),
        );
        assert_eq!(text, "meow\n");
    }
}

/// spec: C7.5: an item that waits in a write lets the next item start.
#[test]
fn writing_lets_another_item_start() {
    const MUCH: usize = 4 << 20; // more than a socket holds
    let _limit = time_limit();
    let (stream, mut listens) = UnixStream::pair().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    waits_for_the_next(
        move || Blocking::new(&stream).write_all(&vec![7; MUCH]).unwrap(),
        move || {
            let mut heard = vec![0; MUCH];
            listens.read_exact(&mut heard).unwrap();
            send.send(heard).unwrap();
        },
    );
    assert!(receive.recv().unwrap().iter().all(|byte| *byte == 7));
}

/// spec: C7.5: an item that waits in another operation of the inner value, such as `accept`, lets the next item start.
#[test]
fn accepting_a_connection_lets_another_item_start() {
    let _limit = time_limit();
    let listener = Blocking::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.get_ref().local_addr().unwrap();
    let client = waits_for_the_next(
        move || listener.with(|listener| listener.accept()).unwrap().1,
        move || drop(TcpStream::connect(address).unwrap()),
    );
    assert!(client.ip().is_loopback());
}

/// Records for each call whether it is made under a guard.
struct Probe {
    executor: Executor,
    calls: Vec<(&'static str, bool)>,
}

impl Probe {
    fn note(&mut self, call: &'static str) {
        let guarded = pool(&self.executor, "0").running == 0;
        self.calls.push((call, guarded));
    }

    fn noted<R>(&mut self, call: &'static str, result: R) -> io::Result<R> {
        self.note(call);
        Ok(result)
    }
}

impl Read for Probe {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.noted("read", 1)
    }
    fn read_vectored(&mut self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.noted("read_vectored", 2)
    }
    fn read_to_end(&mut self, _: &mut Vec<u8>) -> io::Result<usize> {
        self.noted("read_to_end", 3)
    }
    fn read_to_string(&mut self, _: &mut String) -> io::Result<usize> {
        self.noted("read_to_string", 4)
    }
    fn read_exact(&mut self, _: &mut [u8]) -> io::Result<()> {
        self.noted("read_exact", ())
    }
}

impl BufRead for Probe {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.noted("fill_buf", b"full".as_slice())
    }
    fn consume(&mut self, _: usize) {
        self.note("consume");
    }
    fn read_until(&mut self, _: u8, _: &mut Vec<u8>) -> io::Result<usize> {
        self.noted("read_until", 5)
    }
    fn read_line(&mut self, _: &mut String) -> io::Result<usize> {
        self.noted("read_line", 6)
    }
}

impl Write for Probe {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.noted("write", buffer.len())
    }
    fn write_vectored(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        self.noted("write_vectored", 7)
    }
    fn write_all(&mut self, _: &[u8]) -> io::Result<()> {
        self.noted("write_all", ())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.noted("flush", ())
    }
}

impl Seek for Probe {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        self.noted("seek", 8)
    }
    fn rewind(&mut self) -> io::Result<()> {
        self.noted("rewind", ())
    }
    fn stream_position(&mut self) -> io::Result<u64> {
        self.noted("stream_position", 9)
    }
    fn seek_relative(&mut self, _: i64) -> io::Result<()> {
        self.noted("seek_relative", ())
    }
}

/// spec: C7.5: the wrapper passes every call to the same call of the inner value. It enters a guard, except for calls
/// that only touch memory.
#[test]
fn each_call_goes_through_under_a_guard() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let mut probe = Blocking::new(Probe { executor, calls: Vec::new() });
    let calls = queue.spawn(move || {
        assert_eq!(probe.read(&mut []).unwrap(), 1);
        assert_eq!(probe.read_vectored(&mut []).unwrap(), 2);
        assert_eq!(probe.read_to_end(&mut Vec::new()).unwrap(), 3);
        assert_eq!(probe.read_to_string(&mut String::new()).unwrap(), 4);
        probe.read_exact(&mut []).unwrap();
        assert_eq!(probe.fill_buf().unwrap(), b"full");
        assert_eq!(probe.read_until(b' ', &mut Vec::new()).unwrap(), 5);
        assert_eq!(probe.read_line(&mut String::new()).unwrap(), 6);
        assert_eq!(probe.write(b"four").unwrap(), 4);
        assert_eq!(probe.write_vectored(&[]).unwrap(), 7);
        probe.write_all(b"all").unwrap();
        probe.flush().unwrap();
        assert_eq!(probe.seek(SeekFrom::Start(0)).unwrap(), 8);
        probe.rewind().unwrap();
        assert_eq!(probe.stream_position().unwrap(), 9);
        probe.seek_relative(1).unwrap();
        probe.with(|_| ());
        probe.with_mut(|probe| probe.note("with_mut"));
        let mut unguarded = vec!["consume", "get_mut"];
        probe.consume(1);
        probe.get_mut().note("get_mut");
        let calls = probe.into_inner().calls;
        unguarded.retain(|call| calls.contains(&(call, false)));
        assert_eq!(unguarded.len(), 2);
        calls
    });
    let calls = calls.unwrap().join().unwrap();
    let names: Vec<_> = calls.iter().filter(|(_, guarded)| *guarded).map(|(call, _)| *call).collect();
    let expected = "read read_vectored read_to_end read_to_string read_exact fill_buf read_until read_line write \
                    write_vectored write_all flush seek rewind stream_position seek_relative with_mut";
    assert_eq!(names.join(" "), expected);
}

/// spec: C7.5: the wrapper works outside of items, and passes errors on.
#[test]
fn reading_and_writing_anywhere() {
    let mut empty = Blocking::new(io::empty());
    assert_eq!(empty.read_exact(&mut [0]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let mut text = Blocking::new(io::Cursor::new(Vec::new()));
    writeln!(text, "{} {}", 1, 2).unwrap();
    text.rewind().unwrap();
    assert_eq!(io::read_to_string(&mut text).unwrap(), "1 2\n");
    assert_eq!(text.get_ref().position(), 4);
}
