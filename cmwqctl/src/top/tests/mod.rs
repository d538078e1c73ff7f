//! Tests of the view without a terminal: they feed in samples and keys, and check the frames.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cmwq::control::Attribute;
use cmwq::observe::Snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::Event;
use super::model::{Action, Model};
use super::rows::Sample;
use super::theme::Theme;
use super::view;

/// Two snapshots of a service with four queues, taken one second apart.
const SAMPLES: [&str; 2] = [include_str!("sample_1.json"), include_str!("sample_2.json")];

fn snapshot(n: usize) -> Snapshot {
    serde_json::from_str(SAMPLES[n]).unwrap()
}

fn model() -> Model {
    let hello = json!({ "protocol": 1, "pid": 4711, "program": "service", "prefix": "cmwq", "crate_version": "0.1.0" });
    let mut model = Model::new(serde_json::from_value(hello).unwrap(), Duration::from_secs(1));
    let begin = Instant::now();
    for (n, at) in [begin, begin + Duration::from_secs(1)].into_iter().enumerate() {
        model.sampled(Sample { at, snapshot: snapshot(n) });
    }
    model
}

fn press(model: &mut Model, keys: &str) -> Option<Action> {
    let mut last = None;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            key => KeyCode::Char(key),
        };
        last = model.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

fn frame(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| _ = view::draw(model, Theme { coloured: false }, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = (0..height).map(|y| {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Compares the frame with the file. `CMWQCTL_BLESS=1` writes the file instead.
fn assert_frame(name: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/top/tests/frames/{name}.txt"));
    if std::env::var_os("CMWQCTL_BLESS").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == actual, "{name} differs; it is now\n{actual}\nand should be\n{expected}");
}

fn names(model: &Model) -> Vec<String> {
    model.queues().into_iter().map(|row| format!("{}#{}", row.name, row.number)).collect()
}

/// spec: O5.11
#[test]
fn each_page_has_its_frame() {
    let mut model = model();
    assert_frame("queues", &frame(&model, 80, 24));
    assert_frame("queues_and_pools", &frame(&model, 110, 32));
    press(&mut model, "2");
    assert_frame("pools", &frame(&model, 80, 24));
    press(&mut model, "3");
    assert_frame("offenders", &frame(&model, 80, 24));
    press(&mut model, "?");
    assert_frame("help", &frame(&model, 80, 24));
}

/// spec: O5.11
#[test]
fn details_show_attributes_shards_and_histograms() {
    let mut model = model();
    press(&mut model, "\n");
    assert_frame("detail", &frame(&model, 80, 24));
    press(&mut model, "e");
    assert_frame("choose", &frame(&model, 80, 24));
    press(&mut model, "↓↓↓↓\n");
    assert_frame("type", &frame(&model, 80, 24));
    press(&mut model, "\x1b\x1b↓↓\n");
    assert_frame("detail_without_histograms", &frame(&model, 80, 24));
}

#[test]
fn rates_are_differences_over_the_time_between_samples() {
    let mut model = model();
    let row = model.queues().into_iter().find(|row| row.name == "thumbnails").unwrap();
    assert_eq!(row.rate, Some(2503.0));
    assert!((row.cpu.unwrap() - 140.0).abs() < 1e-6, "{row:?}");
    assert_eq!((row.in_flight, row.pending, row.inactive), (3, 70, 10));
    // The same snapshot arrives again half a second later, as if nothing had happened in between.
    let at = model.now.as_ref().unwrap().at + Duration::from_millis(500);
    model.sampled(Sample { at, snapshot: snapshot(1) });
    assert!(model.queues().iter().all(|row| row.rate == Some(0.0) && row.cpu == Some(0.0)));
    // If another process has queues with the same numbers, its counters may be lower.
    model.sampled(Sample { at: at + Duration::from_secs(1), snapshot: snapshot(0) });
    assert!(model.queues().iter().all(|row| row.rate == Some(0.0)));
}

#[test]
fn offenders_that_are_new_count_as_new() {
    let mut model = model();
    let news = |model: &Model| -> Vec<u64> { model.offenders().iter().map(|row| row.more).collect() };
    assert_eq!(news(&model), [3, 0]);
    let now = model.now.take().unwrap();
    model.before = None;
    model.sampled(now.clone());
    assert_eq!(news(&model), [0, 0], "without an earlier sample, nothing is new");
    let mut earlier = now.clone();
    earlier.snapshot.hogs.clear();
    model.before = Some(earlier);
    assert_eq!(news(&model), [0, 4]);
}

#[test]
fn rows_are_sorted_by_every_column_in_both_directions() {
    let mut model = model();
    assert_eq!(names(&model), ["thumbnails#4", "events#1", "mail#6", "mail#5"], "the busiest first");
    press(&mut model, "r");
    assert_eq!(names(&model), ["mail#5", "mail#6", "events#1", "thumbnails#4"]);
    press(&mut model, "SS");
    assert_eq!(names(&model), ["events#1", "mail#5", "mail#6", "thumbnails#4"], "by name, from a to z");
    for _ in 0..super::rows::QUEUES.len() {
        press(&mut model, "s");
        assert_eq!(names(&model).len(), 4);
        frame(&model, 80, 24);
    }
    assert_eq!(names(&model), ["events#1", "mail#5", "mail#6", "thumbnails#4"], "back to the first column");
}

#[test]
fn the_filter_is_typed_kept_and_restored() {
    let mut model = model();
    press(&mut model, "/mAi\x08\x08ai\n");
    assert_eq!(names(&model), ["mail#6", "mail#5"]);
    press(&mut model, "/xyz");
    assert_eq!(names(&model), [""; 0]);
    assert!(frame(&model, 80, 24).contains("no queue's name contains this"));
    press(&mut model, "\x1b");
    assert_eq!(names(&model), ["mail#6", "mail#5"], "the filter is as before");
    press(&mut model, "\x1b");
    assert_eq!(names(&model).len(), 4);
    press(&mut model, "/M");
    assert_eq!(names(&model), [""; 0], "case matters if the filter has capitals");
}

#[test]
fn an_attribute_is_chosen_typed_and_sent() {
    let mut model = model();
    press(&mut model, "e↓↓↓↓\n\x08");
    let action = press(&mut model, "4\n");
    let set = |queue: &str, attribute, value: &str| {
        Some(Action::Set { queue: queue.into(), attribute, value: value.into() })
    };
    assert_eq!(action, set("thumbnails", Attribute::MaxActive, "84"));
    model.answered("thumbnails", Attribute::MaxActive, Ok("84".into()));
    assert!(frame(&model, 80, 24).contains("thumbnails: max_active is 84 now"));
    model.answered("thumbnails", Attribute::MaxActive, Err("1 to 512 are possible".into()));
    assert!(frame(&model, 80, 24).contains("1 to 512 are possible"));
    let histograms = Attribute::Histograms;
    assert_eq!(press(&mut model, "h"), set("thumbnails", histograms, "0"));
    // If several queues have the same name, the request adds the number of the queue.
    assert_eq!(press(&mut model, "↓↓↓h"), set("mail#5", histograms, "1"));
}

/// The shown value may be a default. A set would make it a value of the queue's own.
#[test]
fn a_value_that_is_not_edited_is_not_sent() {
    let mut model = model();
    assert_eq!((press(&mut model, "e\n\n"), &model.dialog), (None, &None));
    assert_eq!(press(&mut model, "e\n\x08e\n"), None, "the text is as it was");
    assert!(press(&mut model, "e\n\x08\n").is_some());
}

#[test]
fn a_queue_without_control_is_not_changed() {
    let mut model = model();
    assert_eq!(press(&mut model, "↓e"), None);
    assert!(frame(&model, 80, 24).contains("\"events\" was not built with `control`"));
    assert_eq!(press(&mut model, "h"), None);
    assert_eq!(model.dialog, None);
    assert_eq!(press(&mut model, "2e"), None);
    assert!(frame(&model, 80, 24).contains("choose a queue first"));
}

/// The keys that follow apply to the chosen queue, even if the order has changed meanwhile.
#[test]
fn the_selection_stays_with_its_queue() {
    let mut model = model();
    let chosen = |model: &Model| model.queues()[model.selected()].number;
    let first = chosen(&model);
    press(&mut model, "↓");
    let moved_to = chosen(&model);
    assert_ne!(moved_to, first);
    let at = model.now.as_ref().unwrap().at;
    for second in 1..=2 {
        // At first the queues do nothing. Then they become active, so the rates and the order change.
        model.sampled(Sample { at: at + Duration::from_secs(second), snapshot: snapshot(1) });
        press(&mut model, "r");
        assert_eq!(chosen(&model), moved_to, "the selection follows at once");
        model.sampled(Sample { at: at + Duration::from_secs(second + 1), snapshot: snapshot(1) });
        assert_eq!(chosen(&model), moved_to);
    }
    press(&mut model, "g");
    model.sampled(Sample { at: at + Duration::from_secs(9), snapshot: snapshot(1) });
    assert_eq!(model.selected(), 0, "the selection stays at the top");

    press(&mut model, "↓↓");
    let moved_to = chosen(&model);
    press(&mut model, "/mail");
    assert_eq!((chosen(&model), names(&model).len()), (moved_to, 2), "it follows while the filter is typed");
    press(&mut model, "\x1b");
    assert_eq!(chosen(&model), moved_to);
    // The filter hides the chosen queue, so the selection moves to another one, and then stays there.
    press(&mut model, "SSrG");
    assert_eq!(chosen(&model), 1);
    press(&mut model, "/m");
    assert_eq!((model.selected(), chosen(&model)), (2, 6));
    press(&mut model, "\nr");
    assert_eq!(chosen(&model), 6);
}

#[test]
fn a_pause_keeps_the_shown_sample() {
    let mut model = model();
    press(&mut model, " ");
    let shown = frame(&model, 80, 24);
    assert!(shown.contains("PAUSED"));
    let at = model.now.as_ref().unwrap().at + Duration::from_secs(1);
    model.sampled(Sample { at, snapshot: snapshot(0) });
    assert_eq!(frame(&model, 80, 24), shown);
    press(&mut model, " ");
    model.sampled(Sample { at, snapshot: snapshot(0) });
    assert_ne!(frame(&model, 80, 24), shown);
}

/// During a pause, the view shows what the user has changed.
#[test]
fn a_change_is_shown_during_a_pause() {
    let mut model = model();
    let at = model.now.as_ref().unwrap().at;
    let set = |value: &str| {
        Some(Action::Set {
            queue: "thumbnails".into(),
            attribute: Attribute::Histograms,
            value: value.into(),
        })
    };
    assert_eq!(press(&mut model, " \nh"), set("0"));
    model.answered("thumbnails", Attribute::Histograms, Ok("0".into()));
    let mut changed = snapshot(1);
    changed.queues.iter_mut().for_each(|queue| queue.latency = None);
    model.sampled(Sample { at: at + Duration::from_secs(1), snapshot: changed });
    assert_eq!(press(&mut model, "h"), set("1"));
    model.answered("thumbnails", Attribute::Histograms, Err("the queue is gone".into()));
    model.sampled(Sample { at: at + Duration::from_secs(2), snapshot: snapshot(1) });
    assert_eq!(press(&mut model, "h"), set("1"), "only an accepted change is shown");
}

#[test]
fn another_process_is_shown_during_a_pause() {
    let mut model = model();
    press(&mut model, " ");
    let mut hello = model.hello.clone();
    hello.pid += 1;
    model.connected(hello);
    let first = snapshot(0);
    model.sampled(Sample { at: Instant::now(), snapshot: first.clone() });
    model.sampled(Sample { at: Instant::now(), snapshot: snapshot(1) });
    let shown = model.now.as_ref().map(|sample| sample.snapshot.time);
    assert_eq!(shown, Some(first.time), "the first sample of the process stays");
}

#[test]
fn a_long_or_odd_name_keeps_its_mark() {
    let mut model = model();
    let queues = &mut model.now.as_mut().unwrap().snapshot.queues;
    for queue in queues.iter_mut().filter(|queue| queue.control) {
        queue.name = "a_name_of_just_thirty_letters_".into();
    }
    assert!(frame(&model, 80, 24).contains("a_name_of_just_th… *"), "{}", frame(&model, 80, 24));
    let queues = &mut model.now.as_mut().unwrap().snapshot.queues;
    queues.iter_mut().for_each(|queue| queue.name = "two\nlines".into());
    assert!(frame(&model, 80, 24).contains("two\u{FFFD}lines *"), "{}", frame(&model, 80, 24));
}

/// Scrolling ends when the last line is visible, so the next key that scrolls back has an effect.
#[test]
fn details_scroll_back_from_their_end_at_once() {
    let mut model = model();
    let queues = &mut model.now.as_mut().unwrap().snapshot.queues;
    for queue in queues.iter_mut().filter(|queue| !queue.shards.is_empty()) {
        let shard = queue.shards[0].clone();
        queue.shards.resize(64, shard);
        queue.shards.iter_mut().zip(0..).for_each(|(shard, cpu)| shard.cpu = cpu);
    }
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut last = |model: &mut Model, keys: &str| {
        press(model, keys);
        super::draw(&mut terminal, model, Theme { coloured: false }).unwrap();
        let shown = frame(model, 80, 24);
        let line = shown.lines().rfind(|line| line.contains(" u4 ")).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    last(&mut model, "\n");
    assert_eq!(["G", "k", "j", "j"].map(|keys| last(&mut model, keys)), ["63", "62", "63", "63"]);
}

#[test]
fn a_panic_of_the_source_is_a_failure() {
    let mut model = model();
    let (changes, wanted) = std::sync::mpsc::channel();
    drop(wanted);
    // The key may come before the event that tells of the panic.
    let key = KeyEvent::new(KeyCode::Char('h'), KeyModifiers::NONE);
    let taken = super::take(Event::Key(key), &mut model, &changes);
    assert!(matches!(taken, ControlFlow::Continue(())));
    let taken = super::take(Event::Panicked, &mut model, &changes);
    let ControlFlow::Break(Err(failure)) = taken else { panic!("{taken:?}") };
    assert_eq!(failure.exit_code(), 101);
}

#[test]
fn a_lost_connection_is_shown_until_it_is_back() {
    let mut model = model();
    model.lost("the process has closed the connection".into());
    let shown = frame(&model, 110, 24);
    assert!(
        shown.contains("CONNECTION LOST, trying again: the process has closed the connection"),
        "{shown}"
    );
    assert!(shown.contains("thumbnails"), "the last sample stays");
    model.connected(model.hello.clone());
    assert!(!frame(&model, 110, 24).contains("LOST"));
    assert!(model.now.is_some(), "the sample of the same process stays");
    let other = serde_json::to_value(&model.hello).map(|mut hello| {
        hello["pid"] = 4712.into();
        hello
    });
    model.connected(serde_json::from_value(other.unwrap()).unwrap());
    assert!(model.now.is_none(), "the sample of another process is dropped");
}

#[test]
fn every_size_can_be_drawn() {
    let mut model = model();
    for keys in ["", "2", "3", "1\n", "e", "\n", "\x1b?"] {
        press(&mut model, keys);
        for width in (1..140).step_by(17) {
            for height in (1..50).step_by(7) {
                frame(&model, width, height);
            }
        }
    }
}

#[test]
fn keys_without_a_meaning_do_nothing() {
    let mut model = model();
    for key in "\n\x1b\t\x08xyzXYZ0↓↑{}é".chars().cycle().take(200) {
        assert_eq!(press(&mut model, &key.to_string()), None);
        frame(&model, 80, 24);
    }
    assert_eq!(press(&mut model, "1\x1bq"), Some(Action::Quit));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut model, "/");
    assert_eq!(model.key(interrupt), Some(Action::Quit), "Ctrl-C quits in any dialog");
}
