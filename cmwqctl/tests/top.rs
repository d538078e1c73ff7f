//! The live view in a terminal, watching an executor of this process.

mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use portable_pty::CommandBuilder;
use testkit::terminal::Terminal;
use vt100::Color;

use self::support::Service;

/// Queues items on two queues until it is dropped.
struct Load {
    ended: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Load {
    fn on(service: &Service) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (until, queues) = (Arc::clone(&ended), [service.thumbnails.clone(), service.events.clone()]);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                for queue in &queues {
                    let item = queue.spawn(|| thread::sleep(Duration::from_millis(1))).unwrap();
                    item.join().unwrap();
                }
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Starts `cmwqctl top` from a shell, which prints its exit code and the state of the terminal afterwards. Then the
/// shell waits for a line, as [`Terminal::end`] advises.
fn top(service: &Service, options: &str) -> Terminal {
    let mut command = CommandBuilder::new("sh");
    let tool = support::TOOL;
    command.arg("-c");
    let script = "echo ended $?; stty -a; read -r line";
    // With a trap, the shell survives a signal that is meant for the view.
    command.arg(format!("trap : TERM; \"{tool}\" -s \"$SOCKET\" {options} top -i 0.1; {script}"));
    command.env("SOCKET", service.socket());
    command.env("TERM", "xterm-256color");
    command.env_remove("NO_COLOR");
    Terminal::start(command, 80, 24)
}

/// Checks that the view is gone and the shell has its terminal back as it was.
#[track_caller]
fn assert_restored(mut terminal: Terminal) {
    terminal.wait_until("the terminal as it was", |screen| {
        let contents = screen.contents();
        let restored =
            contents.contains("ended 0") && contents.contains(" icanon") && contents.contains(" echo ");
        (restored && !screen.alternate_screen() && !screen.hide_cursor()).then_some(())
    });
    terminal.press("\r");
    assert_eq!(terminal.end().0, 0);
}

/// The order in which the queues are shown.
fn order(screen: &str) -> Vec<&str> {
    let names = ["thumbnails", "mail", "events"];
    let first_words = screen.lines().filter_map(|line| line.split_whitespace().next());
    first_words.filter(|word| names.contains(word)).collect()
}

/// spec: O5.11 (cmwqctl top: queues are shown live, sorted and filtered)
#[test]
fn queues_are_shown_sorted_and_filtered() {
    let service = Service::new();
    let load = Load::on(&service);
    let mut terminal = top(&service, "");
    let screen = terminal.wait_for("thumbnails *");
    assert!(screen.contains(&format!("pid {}", std::process::id())), "{screen}");
    assert!(screen.contains("3 queues"), "{screen}");
    // The idle queue comes last.
    terminal.wait_until("the busy ones first", |screen| {
        (order(&screen.contents()).last() == Some(&"mail")).then_some(())
    });
    terminal.press("SS");
    terminal.wait_until("names from a to z", |screen| {
        (order(&screen.contents()) == ["events", "mail", "thumbnails"]).then_some(())
    });
    terminal.press("/thumb");
    terminal.wait_for("/thumb");
    terminal.wait_for_no("events");
    terminal.press("\x1b");
    terminal.wait_for("events");
    terminal.press("2");
    terminal.wait_for("RUN/TGT");
    terminal.press("3");
    terminal.wait_for("ITEM TYPE");
    terminal.press("?");
    terminal.wait_for("Keys");
    terminal.press("x1");
    terminal.wait_for("RATE/s");
    drop(load);
    terminal.press("q");
    assert_restored(terminal);
}

/// spec: O5.11 (attributes are changed in place, a bad value is reported and changes nothing)
#[test]
fn attributes_are_changed_in_place() {
    let service = Service::new();
    let mut terminal = top(&service, "");
    terminal.wait_for("thumbnails *");
    terminal.press("/thumb\r\r");
    let screen = terminal.wait_for("max_active 16");
    assert!(screen.contains("scope") && screen.contains("completed"), "{screen}");
    // The fifth attribute: `16` becomes `4`.
    terminal.press("ejjjj\r");
    terminal.wait_for("max_active = 16");
    terminal.press("\x7f\x7f4\r");
    terminal.wait_for("thumbnails: max_active is 4 now");
    terminal.wait_for("max_active 4 ");
    assert_eq!(service.thumbnails.max_active(), Some(4));
    terminal.press("ejjjj\rx\r");
    terminal.wait_for("4x");
    terminal.press("ejjjj\r");
    terminal.wait_for("max_active = 4");
    terminal.press("\x7f9999\r");
    terminal.wait_for("9999");
    terminal.wait_for("512");
    assert_eq!(service.thumbnails.max_active(), Some(4));
    // Ctrl-C ends it as well.
    terminal.press("\x03");
    assert_restored(terminal);
}

/// spec: O1 (histograms are switched on in a running process, and drawn), O5.11
#[test]
fn the_times_of_items_are_recorded_and_drawn() {
    let service = Service::new();
    let _load = Load::on(&service);
    let mut terminal = top(&service, "");
    terminal.wait_for("thumbnails *");
    terminal.press("/thumb\r\r");
    terminal.wait_for("press h to record them");
    terminal.press("h");
    let screen = terminal.wait_for("queued to start");
    assert!(screen.contains("run time") && screen.contains("p99.9"), "{screen}");
    terminal.wait_for("█");
    terminal.press("h");
    terminal.wait_for("press h to record them");
    terminal.press("q");
    assert_restored(terminal);
}

/// spec: O5.11
#[test]
fn a_signal_ends_the_view_and_restores_the_terminal() {
    let service = Service::new();
    let terminal = top(&service, "");
    terminal.wait_for("thumbnails *");
    // The process group has the shell and the view.
    let kill = format!("kill -TERM -{}", terminal.process_id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_restored(terminal);
}

/// spec: O5.11
#[test]
fn a_lost_connection_is_shown_and_restored() {
    let mut service = Service::new();
    let mut terminal = top(&service, "");
    terminal.wait_for("thumbnails *");
    service.stop();
    let screen = terminal.wait_for("CONNECTION LOST, trying again");
    assert!(screen.contains("thumbnails *"), "the last sample stays: {screen}");
    service.start();
    terminal.wait_for_no("CONNECTION LOST");
    terminal.press(" ");
    terminal.wait_for("PAUSED");
    terminal.press("q");
    assert_restored(terminal);
}

#[test]
fn the_view_follows_the_size_of_the_terminal() {
    let service = Service::new();
    let mut terminal = top(&service, "");
    assert!(!terminal.wait_for("thumbnails *").contains("RUN/TGT"));
    terminal.resize(120, 40);
    let screen = terminal.wait_for("RUN/TGT");
    assert!(screen.contains("thumbnails *"), "queues and pools: {screen}");
    terminal.resize(40, 10);
    terminal.wait_for("too small");
    terminal.resize(80, 24);
    terminal.wait_for("thumbnails *");
    terminal.press("q");
    assert_restored(terminal);
}

#[test]
fn colours_can_be_switched_off() {
    let service = Service::new();
    for (options, coloured) in [("", true), ("--color never", false)] {
        let mut terminal = top(&service, options);
        terminal.wait_for("thumbnails *");
        let colours = terminal.wait_until("a screen", |screen| {
            let (rows, columns) = screen.size();
            let cells = (0..rows.get()).flat_map(|y| (0..columns.get()).map(move |x| (y, x)));
            let cells = cells.filter_map(|(y, x)| screen.cell(y, x));
            let coloured =
                cells.filter(|cell| (cell.fgcolor(), cell.bgcolor()) != (Color::Default, Color::Default));
            Some(coloured.count())
        });
        assert_eq!(colours > 0, coloured, "{options}");
        terminal.press("q");
        assert_restored(terminal);
    }
}
