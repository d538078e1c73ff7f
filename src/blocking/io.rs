//! Reading and writing, while another item may start: [`Blocking`] around a file, a pipe or a socket.

use std::io::{self, BufRead, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

use super::guard::blocking;

/// Calls `T` under a [guard](crate::BlockingGuard): each read, write, flush and seek, and [whatever else](Self::with).
///
/// Put it next to what blocks, and buffers and codecs around it: in `BufReader<Blocking<File>>`, only what goes to the
/// file has a guard, which costs about 20 ns, far less than the system call. In `Blocking<BufReader<File>>` each line
/// that is read would have one, and a decoder inside would compute as if it blocked.
///
/// `T` may be a reference, where those can read and write: `Blocking::new(&stream)` of a `TcpStream` that is shared,
/// `Blocking::new(io::stdin().lock())`. What reads or writes a whole file is a line without this:
/// `cmwq::blocking(|| fs::read(path))`.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::io::Blocking;
/// use std::fs::File;
/// use std::io::{BufRead, BufReader};
///
/// let queue = cmwq::WorkQueue::new("lines").build()?;
/// let lines = queue.spawn(|| {
///     let file = cmwq::blocking(|| File::open("Cargo.toml"))?;
///     BufReader::new(Blocking::new(file)).lines().try_fold(0, |lines, line| line.map(|_| lines + 1))
/// })?;
/// assert!(lines.join()?? > 10);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "io_schedule")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocking<T>(T);

impl<T> Blocking<T> {
    /// Calls of `inner` are under a guard from now on.
    #[must_use]
    pub const fn new(inner: T) -> Self {
        Self(inner)
    }

    /// Calls `f` with what is inside, under a guard.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use cmwq::blocking::io::Blocking;
    /// use std::net::TcpListener;
    ///
    /// let listener = Blocking::new(TcpListener::bind("127.0.0.1:0")?);
    /// let client = std::net::TcpStream::connect(listener.get_ref().local_addr()?)?;
    /// let (connection, _) = listener.with(|listener| listener.accept())?;
    /// assert_eq!(connection.peer_addr()?, client.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        blocking(|| f(&self.0))
    }

    /// As [`with`](Self::with), for what changes `T`.
    #[inline]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        blocking(|| f(&mut self.0))
    }

    /// What is inside. Its own calls have no guard.
    #[must_use]
    pub const fn get_ref(&self) -> &T {
        &self.0
    }

    /// What is inside. Its own calls have no guard.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// What is inside, without this wrapper.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: Read> Read for Blocking<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.with_mut(|inner| inner.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.with_mut(|inner| inner.read_vectored(buffers))
    }

    // Files know better than the trait how much there is.

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.with_mut(|inner| inner.read_to_end(buffer))
    }

    fn read_to_string(&mut self, buffer: &mut String) -> io::Result<usize> {
        self.with_mut(|inner| inner.read_to_string(buffer))
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.with_mut(|inner| inner.read_exact(buffer))
    }
}

/// What is inside has a buffer already: only filling it has a guard, which is entered each time because nobody can
/// tell from outside whether it is empty.
impl<T: BufRead> BufRead for Blocking<T> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let inner = &mut self.0;
        blocking(move || inner.fill_buf())
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }

    fn read_until(&mut self, byte: u8, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.with_mut(|inner| inner.read_until(byte, buffer))
    }

    fn read_line(&mut self, buffer: &mut String) -> io::Result<usize> {
        self.with_mut(|inner| inner.read_line(buffer))
    }
}

// `write_fmt` is the trait's own, so that what is formatted counts, and only what is written has a guard.
impl<T: Write> Write for Blocking<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.with_mut(|inner| inner.write(buffer))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.with_mut(|inner| inner.write_vectored(buffers))
    }

    fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        self.with_mut(|inner| inner.write_all(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with_mut(T::flush)
    }
}

impl<T: Seek> Seek for Blocking<T> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.with_mut(|inner| inner.seek(position))
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.with_mut(T::rewind)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        self.with_mut(T::stream_position)
    }

    fn seek_relative(&mut self, offset: i64) -> io::Result<()> {
        self.with_mut(|inner| inner.seek_relative(offset))
    }
}
