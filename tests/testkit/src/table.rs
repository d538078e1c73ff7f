//! Tables in Markdown.

/// Formats lines as a table. The first line is the head. From the column `right_from` on, text is right-aligned.
/// Columns are padded, so that the source of the table is readable as well.
pub fn aligned(lines: &[Vec<String>], right_from: usize) -> String {
    let count = lines.first().map_or(0, Vec::len);
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut table = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, (text, width)) in line.iter().zip(&widths).enumerate() {
            let text =
                if column < right_from { format!("| {text:width$} ") } else { format!("| {text:>width$} ") };
            table.push_str(&text);
        }
        table.push_str("|\n");
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                let (dashes, end) = ("-".repeat(*width + 1), if column < right_from { "-" } else { ":" });
                table.push_str(&format!("|{dashes}{end}"));
            }
            table.push_str("|\n");
        }
    }
    table
}
