//! Reports as tables and as JSON.

use std::fmt::Write;

use crate::verdict::{Report, Row, Verdict};

/// Returns one object, indented.
pub(crate) fn json(report: &Report) -> String {
    let mut value = serde_json::json!(report);
    value["is_well"] = report.is_well().into();
    format!("{value:#}\n")
}

/// Returns a line for each operation, and a conclusion. Writing to a string cannot fail, so the results of the writes
/// are ignored.
pub(crate) fn table(report: &Report) -> String {
    let name = |row: &Row| row.operation.len();
    let width = report.operations.iter().map(name).max().unwrap_or(0);
    let mut text = format!(
        "Instructions of one operation, by {} and {}\n\n{:width$} {:>9} {:>9} {:>8}\n",
        report.toolchain.compiler, report.toolchain.valgrind, "operation", "recorded", "now", "change",
    );
    for row in &report.operations {
        let recorded = row.recorded.map_or("-".into(), |count| format!("{count:.1}"));
        let change = row.difference_percent.map_or("-".into(), |percent| format!("{percent:+.1} %"));
        let _ = writeln!(
            text,
            "{:width$} {recorded:>9} {:>9.1} {change:>8}  {}{}",
            row.operation,
            row.now,
            row.definition,
            remark(row.verdict)
        );
        for (function, own) in &row.functions {
            let _ = writeln!(text, "{own:>10.1}  {function}");
        }
    }
    text.push('\n');
    text.push_str(&conclusion(report));
    text
}

fn remark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "",
        Verdict::Less => " (less)",
        Verdict::TooMany => " (TOO MANY)",
        Verdict::New => " (not recorded)",
    }
}

fn conclusion(report: &Report) -> String {
    let mut text = String::new();
    if !report.differences.is_empty() {
        text.push_str("Only compared, because the record is of another toolchain:\n");
        for difference in &report.differences {
            let _ = writeln!(text, "    {difference}");
        }
    }
    let (many, less, new) =
        (report.with(Verdict::TooMany), report.with(Verdict::Less), report.with(Verdict::New));
    let verb = if report.is_well() { "take more" } else { "take more, which FAILS" };
    let _ = writeln!(text, "{many} {verb}, {less} take less, {new} were not recorded.");
    if many + less + new > 0 {
        text.push_str("To record intended changes: make bench-check UPDATE=1\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callgrind::Counts;
    use crate::record::Record;
    use crate::toolchain::{self, Toolchain};
    use crate::{case::CASES, verdict::Report};

    fn report(now: f64, toolchain: Toolchain) -> Report {
        let instructions = [(CASES[0].name(), 200.0)].into_iter().collect();
        let record = Record { toolchain: toolchain::example(), instructions };
        let functions = vec![("push".to_owned(), 30.0)];
        let first = (&CASES[0], Counts { rounds: vec![now], functions });
        let second = (&CASES[1], Counts { rounds: vec![7.0], functions: Vec::new() });
        Report::new(vec![first, second], Some(record), toolchain, None)
    }

    #[test]
    fn a_table_marks_the_changed_operations() {
        let text = table(&report(250.0, toolchain::example()));
        let line = text.lines().find(|line| line.starts_with("queue/per-CPU")).expect("it has a line");
        assert_eq!(
            line.split_whitespace().take(5).collect::<Vec<_>>(),
            ["queue/per-CPU", "200.0", "250.0", "+25.0", "%"]
        );
        assert!(line.ends_with("(TOO MANY)"), "{line}");
        assert!(text.contains("\n      30.0  push\n"), "{text}");
        assert!(text.contains("1 take more, which FAILS, 0 take less, 1 were not recorded."), "{text}");
        assert!(text.contains("UPDATE=1"));
    }

    #[test]
    fn another_toolchain_is_reported() {
        let other = Toolchain { valgrind: "valgrind-3.24.0".into(), ..toolchain::example() };
        let text = table(&report(250.0, other));
        assert!(text.contains("    valgrind: valgrind-3.24.0, recorded valgrind-3.19.0\n"), "{text}");
        assert!(text.contains("1 take more, 0"), "{text}");
    }

    #[test]
    fn json_contains_the_whole_report() {
        let value: serde_json::Value =
            serde_json::from_str(&json(&report(250.0, toolchain::example()))).unwrap();
        assert_eq!(value["is_well"], false);
        assert_eq!(value["operations"][0]["verdict"], "too_many");
        assert_eq!(value["operations"][0]["difference_percent"], 25.0);
        assert_eq!(value["operations"][1]["recorded"], serde_json::Value::Null);
        assert_eq!(value["operations"][1]["rounds"][0], 7.0);
        assert_eq!(value["operations"][0]["functions"][0][0], "push");
        assert!(value["operations"][1].get("functions").is_none());
    }
}
