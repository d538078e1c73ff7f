//! Waiting for other programs, while another item may start.
//!
//! A program, or a thread, that an item starts has the signal mask of the process's main thread, as if `main` had started
//! it. On Linux it has the CPUs, the nice level and the time slice of the worker that runs the item: a program of a per-CPU
//! queue stays on one CPU, and one of a high-priority queue keeps its nice level. [`reset_scheduling`] gives a program those
//! of the main thread. All of this holds for [`std::process::Command`] by itself, too.
//!
//! # Examples
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking::process;
//! use std::process::Command;
//!
//! let queue = cmwq::WorkQueue::new("programs").build()?;
//! let version = queue.spawn(|| process::output(Command::new("cargo").arg("--version")))?.join()??;
//! assert!(version.status.success());
//! # Ok(())
//! # }
//! ```

use std::io;
use std::process::{self, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output};

use super::guard::blocking;
use super::io::Blocking;
use crate::sys::thread;

/// Starts the program, under a guard: it takes as long as the system needs to load it.
///
/// The program inherits the CPUs, the nice level and the time slice of the worker, unless
/// [`reset_scheduling`] was called for it.
///
/// # Errors
///
/// As [`Command::spawn`].
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use cmwq::blocking::process;
/// use std::io::{Read, Write};
/// use std::process::{Command, Stdio};
///
/// let mut child =
///     process::spawn(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()))?;
/// child.stdin.take().expect("it is piped").write_all(b"meow")?; // ends with the pipe
/// let mut said = String::new();
/// child.stdout.take().expect("it is piped").read_to_string(&mut said)?;
/// assert!(child.wait()?.success());
/// assert_eq!(said, "meow");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "call_usermodehelper")]
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    blocking(|| command.spawn()).map(Child::from)
}

/// Has a program begin with the CPUs, the nice level and the time slice of the process's main thread, and not with those of
/// the worker that starts it. Returns the command.
///
/// The main thread's values are those at the time of this call. What the system denies stays as the worker has it: without
/// the privilege, a nice level does not go down. Systems other than Linux have nothing to reset.
///
/// [`Command`] then starts the program by `fork`, which takes longer the more memory the process has.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::process::{reset_scheduling, status};
/// use std::process::Command;
///
/// let queue = cmwq::WorkQueue::per_cpu("builds").high_priority().build()?;
/// let build = queue.spawn(|| status(reset_scheduling(Command::new("true").arg("--jobs=8"))))?;
/// assert!(build.join()??.success());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "UMH")]
pub fn reset_scheduling(command: &mut Command) -> &mut Command {
    thread::reset_scheduling(command);
    command
}

/// Runs the program to its end, under a guard, as [`Command::status`].
///
/// # Errors
///
/// As [`Command::status`].
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let status = cmwq::blocking::process::status(std::process::Command::new("true").arg("really"))?;
/// assert!(status.success());
/// # Ok(())
/// # }
/// ```
pub fn status(command: &mut Command) -> io::Result<ExitStatus> {
    blocking(|| command.status())
}

/// Runs the program to its end, under a guard, and collects what it says, as [`Command::output`].
///
/// # Errors
///
/// As [`Command::output`].
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let output = cmwq::blocking::process::output(std::process::Command::new("echo").arg("hello"))?;
/// assert_eq!(output.stdout, b"hello\n");
/// # Ok(())
/// # }
/// ```
pub fn output(command: &mut Command) -> io::Result<Output> {
    blocking(|| command.output())
}

/// A program that was started. Its waits, and its pipes, let another item start.
///
/// As with [`std::process::Child`], dropping it neither ends nor awaits the program.
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use cmwq::blocking::process::Child;
/// use std::process::Command;
///
/// let mut child = Child::from(Command::new("sleep").arg("60").spawn()?);
/// assert!(child.try_wait()?.is_none());
/// child.kill()?;
/// assert!(!child.wait()?.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Child {
    /// Where the program reads from, if that is piped and was not taken.
    pub stdin: Option<Blocking<ChildStdin>>,
    /// What the program says, if that is piped and was not taken.
    pub stdout: Option<Blocking<ChildStdout>>,
    /// What the program complains about, if that is piped and was not taken.
    pub stderr: Option<Blocking<ChildStderr>>,
    /// Without its pipes.
    inner: process::Child,
}

impl Child {
    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Ends the program by force. It is to be waited for all the same.
    ///
    /// # Errors
    ///
    /// As [`std::process::Child::kill`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.inner.kill()
    }

    /// How the program ended, if it did.
    ///
    /// # Errors
    ///
    /// As [`std::process::Child::try_wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner.try_wait()
    }

    /// Closes the pipe that the program reads from, and waits for its end, under a guard.
    ///
    /// # Errors
    ///
    /// As [`std::process::Child::wait`].
    #[doc(alias = "waitpid")]
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        blocking(|| self.inner.wait())
    }

    /// Closes the pipe that the program reads from, and waits for its end, under a guard, collecting what it says.
    ///
    /// # Errors
    ///
    /// As [`std::process::Child::wait_with_output`].
    pub fn wait_with_output(self) -> io::Result<Output> {
        blocking(|| self.into_inner().wait_with_output())
    }

    /// The child of the standard library, without this wrapper.
    #[must_use]
    pub fn into_inner(self) -> process::Child {
        let mut inner = self.inner;
        inner.stdin = self.stdin.map(Blocking::into_inner);
        inner.stdout = self.stdout.map(Blocking::into_inner);
        inner.stderr = self.stderr.map(Blocking::into_inner);
        inner
    }
}

impl From<process::Child> for Child {
    fn from(mut inner: process::Child) -> Self {
        Self {
            stdin: inner.stdin.take().map(Blocking::new),
            stdout: inner.stdout.take().map(Blocking::new),
            stderr: inner.stderr.take().map(Blocking::new),
            inner,
        }
    }
}
