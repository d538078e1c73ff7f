//! Starting programs, and waiting for them under a guard.
//!
//! A program or a thread that an item starts has the signal mask of the process's main thread, as if `main` had started
//! it. On Linux, the program or thread also has the CPUs, the nice level and the time slice of the worker that runs the
//! item. So a program that is started by an item of a per-CPU queue stays on one CPU. A program that is started by an
//! item of a high-priority queue keeps the queue's nice level. [`reset_scheduling`] gives a program the CPUs, the nice
//! level and the time slice of the main thread. All of this also holds for a program that an item starts with a
//! plain [`std::process::Command`].
//!
//! A worker reads the main thread's mask once, when the worker is made. At that time the main thread may be in a signal
//! handler, or in a call such as `ppoll` that replaces its mask for a while. The worker then reads the temporary mask.
//! Loggers, and the hooks `before_spawn` and `stall_handler`, may run on the manager's thread. The manager's thread
//! blocks all signals, and a program that it starts inherits this mask. To start a program from a logger or from one of
//! these hooks, queue an item that starts the program.
//!
//! # Examples
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking::process;
//! use std::process::Command;
//!
//! let queue = cmwq::WorkQueue::new("programs");
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

/// Starts the program under a guard, because the system takes some time to load it. Returns the child.
///
/// The program inherits the CPUs, the nice level and the time slice of the worker, unless [`reset_scheduling`] was
/// called for the command.
///
/// # Errors
///
/// Returns the errors of [`Command::spawn`].
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

/// Makes a program start with the CPUs, the nice level and the time slice of the process's main thread, instead of the
/// worker's. Returns the command.
///
/// The values are those of the main thread at the time of this call. If the system denies a value, the program keeps
/// the worker's value. For example, a nice level cannot be lowered without a privilege. On systems other than Linux,
/// this function does nothing.
///
/// After this call, [`Command`] starts the program with `fork`, which takes longer if the process has more memory.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::process::{reset_scheduling, status};
/// use std::process::Command;
///
/// let queue = cmwq::WorkQueue::per_cpu("builds").high_priority(true).build()?;
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

/// Runs the program to its end under a guard, like [`Command::status`]. Returns its exit status.
///
/// # Errors
///
/// Returns the errors of [`Command::status`].
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

/// Runs the program to its end under a guard, like [`Command::output`]. Returns its output.
///
/// # Errors
///
/// Returns the errors of [`Command::output`].
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

/// A program that was started. A guard surrounds each wait for the program's end and each call on its pipes.
///
/// As with [`std::process::Child`], dropping this value neither ends the program nor waits for it.
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use cmwq::blocking::process::Child;
/// use std::process::Command;
///
/// let mut child = Child::from(Command::new("sleep").arg("60").spawn()?);
/// assert!(child.id() > 0 && child.try_wait()?.is_none());
/// child.kill()?;
/// assert!(!child.wait()?.success());
/// child.into_inner().wait()?; // the standard library's child, which gives the same status again
///
/// let printf = Command::new("printf").arg("hello").stdout(std::process::Stdio::piped()).spawn()?;
/// assert_eq!(Child::from(printf).wait_with_output()?.stdout, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Child {
    /// The standard input of the program, if it is piped and was not taken.
    pub stdin: Option<Blocking<ChildStdin>>,
    /// The standard output of the program, if it is piped and was not taken.
    pub stdout: Option<Blocking<ChildStdout>>,
    /// The standard error of the program, if it is piped and was not taken.
    pub stderr: Option<Blocking<ChildStderr>>,
    /// The child of the standard library, without its pipes.
    inner: process::Child,
}

impl Child {
    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Kills the program. The caller must still [wait](Self::wait) for its end.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`std::process::Child::kill`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.inner.kill()
    }

    /// Returns the exit status of the program, or `None` if it still runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`std::process::Child::try_wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner.try_wait()
    }

    /// Closes the standard input of the program, and waits under a guard for its end. Returns its exit status.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`std::process::Child::wait`].
    #[doc(alias = "waitpid")]
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        blocking(|| self.inner.wait())
    }

    /// Closes the standard input of the program, collects its output, and waits for its end, all under a guard. Returns
    /// the output.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`std::process::Child::wait_with_output`].
    pub fn wait_with_output(self) -> io::Result<Output> {
        blocking(|| self.into_inner().wait_with_output())
    }

    /// Returns the child of the standard library, without this wrapper.
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
