//! A program in a separate terminal, whose screen a test can read.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::{Parser, Screen};

/// This is longer than any operation takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running program, and the terminal that shows its output.
pub struct Terminal {
    shared: Arc<(Mutex<Parser>, Condvar)>,
    keys: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

impl Terminal {
    /// Starts a program in a terminal of this size.
    pub fn start(command: CommandBuilder, columns: u16, rows: u16) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        // This process must close its copy of the program's side of the terminal. Otherwise the program's output would
        // not end with the program.
        drop(pair.slave);
        let sides = [rows, columns].map(|side| NonZeroU16::new(side).unwrap());
        let shared = Arc::new((Mutex::new(Parser::new(sides[0], sides[1], 0)), Condvar::new()));
        let mut output = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let seen = Arc::clone(&shared);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when no process has the terminal open any more.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.0.lock().unwrap().process(&bytes[..count]);
                seen.1.notify_all();
            }
        });
        Self { shared, keys, master: pair.master, child }
    }

    /// Types these keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Gives the terminal another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        let sides = [rows, columns].map(|side| NonZeroU16::new(side).unwrap());
        self.shared.0.lock().unwrap().screen_mut().set_size(sides[0], sides[1]);
        self.master.resize(size(columns, rows)).unwrap();
    }

    /// Waits until `shows` returns a value for the screen, and returns this value.
    #[track_caller]
    pub fn wait_until<R>(&self, what: &str, mut shows: impl FnMut(&Screen) -> Option<R>) -> R {
        let deadline = Instant::now() + PATIENCE;
        let mut parser = self.shared.0.lock().unwrap();
        loop {
            if let Some(found) = shows(parser.screen()) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let contents = parser.screen().contents();
                // This releases the lock, so the thread that reads the terminal can continue.
                drop(parser);
                panic!("{what} is not shown:\n{contents}");
            }
            parser = self.shared.1.wait_timeout(parser, left).unwrap().0;
        }
    }

    /// Waits for a text on the screen. Returns the whole screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| {
            let contents = screen.contents();
            contents.contains(text).then_some(contents)
        })
    }

    /// Waits until a text is not on the screen any more. Returns the whole screen.
    #[track_caller]
    pub fn wait_for_no(&self, text: &str) -> String {
        self.wait_until(&format!("anything but {text:?}"), |screen| {
            let contents = screen.contents();
            (!contents.contains(text)).then_some(contents)
        })
    }

    /// Returns the process id of the program.
    pub fn process_id(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits for the end of the program. Returns its exit code and the screen.
    ///
    /// Linux sometimes loses the last output of a terminal when its last process ends right after writing it. If a test
    /// needs this output, the program must wait for a line before it ends. The test reads the screen, and then sends
    /// the line.
    pub fn end(mut self) -> (u32, String) {
        let code = self.child.wait().unwrap().exit_code();
        let contents = self.shared.0.lock().unwrap().screen().contents();
        (code, contents)
    }
}
