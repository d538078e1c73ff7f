//! A picture of a timeline. It has a lane for each item, with the documented times above the measured times.

use timelines::measure::Measured;
use timelines::scenario::{ITEMS, Timeline, Times};

use testkit::picture::{Picture, WIDTH};

const LEFT: f64 = 132.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 76.0;
const LANE: f64 = 62.0;
const DOCUMENTED_HEIGHT: f64 = 12.0;
const MEASURED_HEIGHT: f64 = 24.0;
/// The usual end of the axis, in milliseconds. It is the same in every picture, so that pictures can be compared. An
/// axis is longer only if necessary.
const AXIS: f64 = 55.0;
const STEP: f64 = 5.0;

/// Returns the whole picture.
pub(crate) fn picture(timeline: &Timeline, measured: &Measured, runs: usize) -> String {
    let bottom = TOP + LANE * ITEMS.len() as f64;
    let title = format!("({}) {}", timeline.key, timeline.title);
    let summary = format!("makespan {:.1} ms, documented {} ms", measured.makespan, timeline.makespan());
    let medians = if runs == 1 { "one run".into() } else { format!("medians of {runs} runs") };
    let mut picture = Picture::begin(&title, bottom + 52.0);
    picture.label("small", (16.0, 50.0), "start", &format!("{summary}; {medians}"));
    picture.legend(40.0, &[("orange", "burns CPU", WIDTH - 190.0), ("blue", "sleeps", WIDTH - 90.0)]);
    let axis = Axis { last: ((measured.makespan / STEP).ceil() * STEP).max(AXIS) };
    axis.draw(&mut picture, bottom);
    for (item, name) in ITEMS.iter().enumerate() {
        let y = TOP + LANE * item as f64;
        picture.label("name", (16.0, y + 34.0), "start", name);
        picture.label("small", (LEFT - 10.0, y + 18.0), "end", "documented");
        picture.label("small", (LEFT - 10.0, y + 40.0), "end", "measured");
        axis.lane(&mut picture, &timeline.documented[item], (y + 8.0, DOCUMENTED_HEIGHT), " pale");
        axis.lane(&mut picture, &measured.items[item], (y + 24.0, MEASURED_HEIGHT), "");
    }
    picture.end()
}

struct Axis {
    /// The last time on the axis.
    last: f64,
}

impl Axis {
    /// Returns the position of a time.
    fn x(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * time / self.last
    }

    fn draw(&self, picture: &mut Picture, bottom: f64) {
        for step in 0..=(self.last / STEP) as u32 {
            let time = f64::from(step) * STEP;
            let x = self.x(time);
            picture.line("grid", (x, TOP), (x, bottom + 6.0));
            picture.label("small", (x, bottom + 22.0), "middle", &format!("{time}"));
        }
        let middle = self.x(self.last / 2.0);
        picture.label("small", (middle, bottom + 42.0), "middle", "milliseconds since w0 was queued");
    }

    /// Draws the phases of an item: the wait, the burn, the sleep, and the last burn. `shade` is appended to the names
    /// of the classes.
    fn lane(&self, picture: &mut Picture, times: &Times, (y, height): (f64, f64), shade: &str) {
        let class = |class: &str| format!("{class}{shade}");
        let middle = y + height / 2.0;
        if times.start > 0.5 {
            picture.line(&class("dotted"), (self.x(0.0), middle), (self.x(times.start), middle));
        }
        let segments = [
            ("orange", times.start, times.sleep),
            ("blue", times.sleep, times.wake),
            ("orange", times.wake, times.finish),
        ];
        for (colour, from, to) in segments {
            picture.bar(&class(colour), (self.x(from), y), (self.x(to) - self.x(from), height));
        }
        let finish = self.x(times.finish);
        picture.line(&class("mark"), (finish, y), (finish, y + height));
    }
}
