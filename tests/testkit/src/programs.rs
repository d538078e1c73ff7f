//! Running programs: the present program again, the built examples, and programs of the system.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// This is longer than any program of a test runs, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Returns the command and the arguments of the emulator that runs this program, if there is one. `tests/cross/run`
/// sets the variable.
pub fn emulator() -> Option<String> {
    std::env::var("CMWQ_EMULATOR").ok()
}

/// Returns a command that starts this program once more, in the emulator if there is one.
pub fn itself() -> Command {
    let own = std::env::current_exe().expect("a program has a path");
    let Some(emulator) = emulator() else { return Command::new(own) };
    let mut words = emulator.split(' ');
    let mut command = Command::new(words.next().expect("there is one word at least"));
    command.args(words).arg(own);
    command
}

/// Returns a command that starts this test program once more, to run only the test of this name. The caller adds an
/// environment variable that tells the test in which process it runs.
pub fn again(test: &str) -> Command {
    let mut command = itself();
    command.args([test, "--exact", "--nocapture"]);
    command
}

/// Asserts that a program has run a single test, which has passed.
#[track_caller]
pub fn assert_passed(output: &Output) {
    let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complained}");
}

/// Returns the path of a built example. `cargo test` builds the examples, but `cargo test --test NAME` does not.
#[track_caller]
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a program has a path");
    let built = test.ancestors().nth(2).expect("a test lies two levels deep");
    let program = built.join("examples").join(name);
    assert!(program.exists(), "{} is missing: cargo build --example {name}", program.display());
    program
}

/// Runs a program to its end and returns its output. A program that hangs is killed.
///
/// # Errors
///
/// If the program cannot be started, or its output cannot be read.
pub fn output(command: &mut Command) -> io::Result<Output> {
    output_within(PATIENCE, command)
}

/// Runs a program to its end and returns its output. Kills the program after `patience`.
///
/// # Errors
///
/// If the program cannot be started, or its output cannot be read.
pub fn output_within(patience: Duration, command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child, patience)?;
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().expect("a reader does not panic"));
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes)).map(|_| bytes)
    })
}

/// Waits for the end of a program, and kills it after `patience`.
///
/// # Errors
///
/// If the system cannot wait for the program or kill it.
pub fn wait(child: &mut Child, patience: Duration) -> io::Result<ExitStatus> {
    let end = Instant::now() + patience;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if Instant::now() > end => {
                child.kill()?;
                return child.wait();
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}
