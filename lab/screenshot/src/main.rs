//! `screenshot TOOL FOLDER` draws screens of `cmwqctl top`, which watches this program under load. `FOLDER/top.svg`
//! shows the list of queues, and `FOLDER/detail.svg` shows one queue. The tool runs in a pseudo-terminal, and the cells
//! of its screen become an SVG.

mod load;
mod svg;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, process, thread};

use portable_pty::CommandBuilder;
use testkit::terminal::Terminal;

use self::load::Load;

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;
/// The time after which rates and histograms look like those of a service that has run for a while.
const WARM_UP: Duration = Duration::from_secs(6);

fn main() {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [tool, folder] = arguments.as_slice() else {
        eprintln!("usage: screenshot TOOL FOLDER");
        process::exit(2);
    };
    let sockets = env::temp_dir().join(format!("cmwqctl-screenshot-{}", process::id()));
    fs::create_dir_all(&sockets).expect("a directory for the socket");
    let socket = sockets.join("socket");
    let load = Load::start(&socket);
    draw(tool, folder, &socket);
    drop(load);
    fs::remove_dir_all(&sockets).expect("the socket's directory goes");
}

fn draw(tool: &Path, folder: &Path, socket: &Path) {
    let mut command = CommandBuilder::new(tool);
    command.args([Path::new("--color"), Path::new("always"), Path::new("-s"), socket, Path::new("top")]);
    command.env("TERM", "xterm-256color");
    let mut terminal = Terminal::start(command, COLUMNS, ROWS);
    terminal.wait_for("thumbnails");
    thread::sleep(WARM_UP);
    write(&terminal, &folder.join("top.svg"));
    // These keys show the details of the queue `thumbnails`, with the times of its items.
    terminal.press("/thumb\r\rh");
    terminal.wait_for("queued to start");
    thread::sleep(WARM_UP);
    write(&terminal, &folder.join("detail.svg"));
    terminal.press("q");
    let (code, screen) = terminal.end();
    assert!(code == 0, "{screen}");
}

fn write(terminal: &Terminal, path: &Path) {
    let text = terminal.wait_until("a screen", |screen| Some(svg::of(screen)));
    fs::write(path, text).expect("the picture is written");
    println!("{}", path.display());
}
