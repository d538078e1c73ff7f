//! Tables of text, whose columns are as wide as their widest cells.

use std::io::{self, Write};

use anstyle::Style;

use crate::text;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under titles. The last column is never padded.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    titles: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(titles: [(&'static str, Align); N]) -> Self {
        Self { titles, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| text::word(&cell)));
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let widths: [usize; N] = std::array::from_fn(|n| {
            let cells = self.rows.iter().map(|row| row[n].chars().count());
            cells.chain([self.titles[n].0.chars().count()]).max().unwrap_or(0)
        });
        let bold = Style::new().bold();
        let titles = self.titles.map(|(title, _)| title);
        writeln!(out, "{bold}{}{bold:#}", self.line(&titles, &widths))?;
        for row in &self.rows {
            let cells: [&str; N] = std::array::from_fn(|n| row[n].as_str());
            writeln!(out, "{}", self.line(&cells, &widths))?;
        }
        Ok(())
    }

    fn line(&self, cells: &[&str; N], widths: &[usize; N]) -> String {
        let mut line = String::new();
        for (n, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let last = n + 1 == N;
            match self.titles[n].1 {
                Align::Left if last => line.push_str(cell),
                Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                Align::Right => line.push_str(&format!("{cell:>width$}{}", if last { "" } else { "  " })),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table =
            Table::new([("PID", Align::Right), ("PROGRAM", Align::Left), ("SOCKET", Align::Left)]);
        table.row(["7".into(), "a-long-program".into(), "s".into()]);
        table.row(["12345".into(), "b".into(), String::new()]);
        let mut text = Vec::new();
        table.write(&mut anstream::StripStream::new(&mut text)).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "  PID  PROGRAM         SOCKET\n    7  a-long-program  s\n12345  b\n"
        );
    }
}
