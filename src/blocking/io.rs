//! Reading and writing under a guard: [`Blocking`] wraps a file, a pipe or a socket.

use std::io::{self, BufRead, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

use super::guard::blocking;

/// Wraps a reader or writer `T`, so that each read, write, flush and seek enters a [guard](crate::BlockingGuard). To
/// make any other call of `T` under a guard, use [`with`](Self::with).
///
/// Wrap the file itself, and put buffers and codecs around the wrapper. In `BufReader<Blocking<File>>`, only the calls
/// that reach the file enter a guard. A guard costs 10 to 30 ns, far less than the system call. In
/// `Blocking<BufReader<File>>`, each line that is read would enter a guard. If a decoder were inside a wrapper, the
/// worker would count as blocked while the decoder computes.
///
/// `T` may be a reference to a type that can be read and written through a shared reference. An example is
/// `Blocking::new(&stream)` with a `TcpStream`. `T` may also be a locked stream, as in
/// `Blocking::new(io::stdin().lock())`. Reading or writing a whole file needs no wrapper:
/// `cmwq::blocking(|| fs::read(path))`.
///
/// `writeln!` may write a line in several parts. A `Blocking<Stdout>` locks the stream separately for each part, so
/// other threads may write between the parts. To keep the line together, wrap the locked stream, or format the line
/// first.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::io::Blocking;
/// use std::fs::File;
/// use std::io::{BufRead, BufReader};
///
/// let queue = cmwq::WorkQueue::new("lines");
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
    /// Wraps `inner`, so that its methods are called under a guard.
    #[must_use]
    pub const fn new(inner: T) -> Self {
        Self(inner)
    }

    /// Calls `f` with the wrapped value under a guard, and returns the result of `f`.
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

    /// Does the same as [`with`](Self::with), but passes a mutable reference to `f`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use cmwq::blocking::io::Blocking;
    /// use std::io::{Cursor, Read, Seek, SeekFrom};
    ///
    /// let mut file = Blocking::new(Cursor::new(b"head body".to_vec()));
    /// file.with_mut(|file| file.seek(SeekFrom::Start(5)))?;
    /// let mut body = String::new();
    /// file.read_to_string(&mut body)?;
    /// assert_eq!(body, "body");
    /// file.get_mut().set_position(0); // needs no guard, because it does not block
    /// assert_eq!(file.into_inner().position(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        blocking(|| f(&mut self.0))
    }

    /// Returns a reference to the wrapped value. Calls through this reference have no guard.
    #[must_use]
    pub const fn get_ref(&self) -> &T {
        &self.0
    }

    /// Returns a mutable reference to the wrapped value. Calls through this reference have no guard.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// Returns the wrapped value, without this wrapper.
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

    // A file knows its size, so the file's own versions of the functions below are better than the trait's defaults.

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

/// The wrapped value already has a buffer. Each call except `consume` enters a guard, because the trait does not tell
/// whether the buffer is empty.
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

// `write_fmt` is the trait's default, so the worker counts as running while it formats the text. Each write of the
// formatted text enters a guard.
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
