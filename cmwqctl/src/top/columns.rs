//! The columns of a table: their contents, the sorting by a column, and the choice of the columns that fit.

use std::cmp::Ordering;

/// The value by which a column sorts the rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Key {
    Text(String),
    Number(f64),
}

impl Key {
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
        }
    }
}

/// A column of rows `R`.
pub(crate) struct Column<R: 'static> {
    pub(crate) title: &'static str,
    /// The width of the column, or its minimum width if it is the first column.
    pub(crate) width: u16,
    /// If there is not enough width, columns of the highest rank are left out first. Columns of rank 0 are never left
    /// out.
    pub(crate) rank: u8,
    pub(crate) cell: fn(&R) -> String,
    /// A text behind the cell, which is shown in full even if the cell is cut.
    pub(crate) mark: fn(&R) -> &'static str,
    pub(crate) key: fn(&R) -> Key,
    /// Whether the cells are numbers, which are right-aligned and by default sorted with the largest first.
    pub(crate) numeric: bool,
}

/// The column by which rows are sorted, and the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

impl Sort {
    pub(crate) fn by<R>(columns: &[Column<R>], column: usize) -> Self {
        Self { column, descending: columns[column].numeric }
    }

    /// Sorts the rows. Equal rows keep their order.
    pub(crate) fn apply<R>(self, columns: &[Column<R>], rows: &mut [R]) {
        let key = columns[self.column].key;
        rows.sort_by(|one, other| {
            let order = key(one).order(&key(other));
            if self.descending { order.reverse() } else { order }
        });
    }
}

/// Returns the indexes of the columns that fit, and the width of the first column. Adjacent columns are separated by
/// one space.
pub(crate) fn fitting<R>(columns: &[Column<R>], width: u16) -> (Vec<usize>, u16) {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    loop {
        let needed: u16 = shown.iter().map(|column| columns[*column].width + 1).sum::<u16>() - 1;
        let highest = shown.iter().copied().max_by_key(|column| columns[*column].rank);
        match highest {
            Some(column) if needed > width && columns[column].rank > 0 => {
                shown.retain(|other| *other != column);
            }
            _ => return (shown, columns[0].width + width.saturating_sub(needed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column<(&str, u32)>] = &[
        Column {
            title: "NAME",
            width: 4,
            rank: 0,
            cell: |row| row.0.into(),
            mark: |_| "",
            key: |row| Key::Text(row.0.into()),
            numeric: false,
        },
        Column {
            title: "COUNT",
            width: 5,
            rank: 1,
            cell: |row| row.1.to_string(),
            mark: |_| "",
            key: |row| Key::Number(row.1.into()),
            numeric: true,
        },
        Column {
            title: "LAST",
            width: 4,
            rank: 0,
            cell: |_| String::new(),
            mark: |_| "",
            key: |_| Key::Number(0.0),
            numeric: true,
        },
    ];

    #[test]
    fn the_least_important_columns_are_left_out_first_and_the_first_column_fills_the_rest() {
        assert_eq!(fitting(COLUMNS, 20), (vec![0, 1, 2], 9));
        assert_eq!(fitting(COLUMNS, 15), (vec![0, 1, 2], 4));
        assert_eq!(fitting(COLUMNS, 14), (vec![0, 2], 9));
        assert_eq!(fitting(COLUMNS, 3), (vec![0, 2], 4));
    }

    #[test]
    fn numbers_come_largest_first_and_names_from_a_to_z() {
        let mut rows = [("b", 1), ("a", 3), ("c", 2)];
        Sort::by(COLUMNS, 0).apply(COLUMNS, &mut rows);
        assert_eq!(rows, [("a", 3), ("b", 1), ("c", 2)]);
        Sort::by(COLUMNS, 1).apply(COLUMNS, &mut rows);
        assert_eq!(rows, [("a", 3), ("c", 2), ("b", 1)]);
        Sort { column: 1, descending: false }.apply(COLUMNS, &mut rows);
        assert_eq!(rows, [("b", 1), ("c", 2), ("a", 3)]);
    }
}
