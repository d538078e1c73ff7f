//! The programs that the guide ports from other libraries to cmwq.

use super::promises::read;

/// The largest number of lines that a port changes.
const LINES: usize = 10;
const NUMBERS: [&str; LINES] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// A program before and after its port, and the number of changed lines. A replaced line counts once.
#[derive(Default)]
struct Port {
    before: String,
    after: String,
    changed: usize,
}

impl Port {
    fn of(diff: &str) -> Self {
        let (mut port, mut removed, mut added) = (Self::default(), 0, 0);
        for line in diff.lines() {
            let (is_removed, is_added) = (line.starts_with('-'), line.starts_with('+'));
            let code = line.get(1..).unwrap_or_default().to_owned() + "\n";
            if !is_added {
                port.before += &code;
            }
            if !is_removed {
                port.after += &code;
            }
            if is_removed || is_added {
                removed += usize::from(is_removed);
                added += usize::from(is_added);
            } else {
                port.changed += removed.max(added);
                (removed, added) = (0, 0);
            }
        }
        port.changed += removed.max(added);
        port
    }
}

/// The ported programs run as examples of the documentation. `make check-benches` runs the programs before their ports.
#[test]
fn ports_change_few_lines() {
    for name in ["from_threadpool", "from_tokio", "from_rayon"] {
        let page = read(&format!("src/guide/{name}.rs"));
        let page: String = page
            .lines()
            .filter_map(|line| line.strip_prefix("//!"))
            .fold(String::new(), |page, line| page + line.strip_prefix(' ').unwrap_or(line) + "\n");
        let (text, rest) = page.split_once("```diff\n").expect("the page shows the changes");
        let (diff, rest) = rest.split_once("```\n").unwrap();
        let port = Port::of(diff);
        let program = rest.split("```\n").nth(1).expect("the page shows the program after the changes");
        assert_eq!(port.after, program, "{name}");
        assert_eq!(port.before, read(&format!("lab/rivals/tests/ports/{name}.rs")), "{name}");
        assert!((1..=LINES).contains(&port.changed), "{name}: {}", port.changed);
        let sentence = format!("{} lines change:", NUMBERS[port.changed - 1]);
        assert!(text.to_lowercase().contains(&sentence), "{name}: {sentence}");
    }
}

#[test]
fn replaced_lines_count_once() {
    let port = Port::of(" a\n-b\n+c\n+d\n\n-e\n-f\n+g\n-h\n i\n+j\n");
    assert_eq!((port.before.as_str(), port.after.as_str()), ("a\nb\n\ne\nf\nh\ni\n", "a\nc\nd\n\ng\ni\nj\n"));
    assert_eq!(port.changed, 2 + 3 + 1);
}
