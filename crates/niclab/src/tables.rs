//! Tables and paragraphs, as wide as the terminal.
//!
//! A table that is wider is cut into blocks of columns, each with the columns that tell its rows
//! apart; no cell is torn where a block can be made instead. A single row that is wider is a list.

use std::io::{self, Write};

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, Width, presets,
};

use crate::output::one_line;

/// Width where there is no terminal.
const WIDTH_DEFAULT: usize = 100;
/// Narrower than this nothing can be read.
const WIDTH_MIN: usize = 40;
/// The head of a column may make it this wide; a longer one takes several lines.
const HEAD_WIDTH_MAX: usize = 14;
/// Blanks around a cell, and the one between it and the next.
const PADDING: usize = 3;

/// How wide the output may be: the terminal, `COLUMNS`, or a width that fits everywhere.
pub fn width() -> usize {
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = Table::new().width().map(usize::from).or_else(columns);
    width.unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN)
}

/// A paragraph in lines of at most `width`, the second and all further indented. Line ends in it
/// are shown as their numbers.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in one_line(text).split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(format!("  {word}"));
        } else if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// Columns and rows, all rows as long as the columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// Says once what is the same in every row, and leaves these columns out.
    pub fn folded(self, width: usize, out: &mut impl Write) -> io::Result<Grid> {
        let Some((first, others)) = self.rows.split_first().filter(|(_, rest)| !rest.is_empty())
        else {
            return Ok(self);
        };
        let same = |at: &usize| others.iter().all(|row| row[*at] == first[*at]);
        let (same, differ): (Vec<usize>, Vec<usize>) = (0..self.columns.len()).partition(same);
        let words: Vec<String> = same
            .iter()
            .filter(|&&at| !first[at].is_empty())
            .map(|&at| format!("{} {}", self.columns[at], first[at]))
            .collect();
        if !words.is_empty() {
            let text = format!("in every row: {}", words.join("; "));
            writeln!(out, "{}", wrapped(&text, width))?;
        }
        Ok(self.only(&differ))
    }

    /// Writes the table, in as many blocks as it takes; a single row that takes several is a list
    /// of its cells, a line each.
    pub fn print(&self, width: usize, out: &mut impl Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return writeln!(out, "nothing was measured");
        }
        if self.columns.is_empty() {
            return Ok(());
        }
        match (self.blocks(width), &self.rows[..]) {
            (blocks, [row]) if blocks.len() > 1 => {
                let cells = self.columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
                for (column, cell) in cells {
                    writeln!(out, "{}", wrapped(&format!("{column}: {cell}"), width))?;
                }
            }
            (blocks, _) => {
                for block in blocks {
                    writeln!(out, "{}", self.only(&block).drawn(width))?;
                }
            }
        }
        Ok(())
    }

    /// The columns `chosen`, in that order.
    fn only(&self, chosen: &[usize]) -> Grid {
        let of = |cells: &Vec<String>| chosen.iter().map(|&at| one_line(&cells[at])).collect();
        Grid { columns: of(&self.columns), rows: self.rows.iter().map(of).collect() }
    }

    /// Which columns stand side by side: the keys in each block, the others in turn.
    fn blocks(&self, width: usize) -> Vec<Vec<usize>> {
        let wide = |at: &usize| self.column_width(*at);
        let all: Vec<usize> = (0..self.columns.len()).collect();
        if all.iter().map(wide).sum::<usize>() <= width {
            return vec![all];
        }
        let (keys, others) = all.split_at(self.keys());
        let room = width.saturating_sub(keys.iter().map(wide).sum());
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        let mut used = 0;
        for at in others {
            if blocks.is_empty() || used + wide(at) > room {
                blocks.push(keys.to_vec());
                used = 0;
            }
            used += wide(at);
            if let Some(block) = blocks.last_mut() {
                block.push(*at);
            }
        }
        blocks
    }

    /// How many leading columns it takes to tell all rows apart; 1 where that cannot be done.
    fn keys(&self) -> usize {
        let apart = |keys: &usize| {
            let mut heads: Vec<&[String]> = self.rows.iter().map(|row| &row[..*keys]).collect();
            heads.sort();
            heads.windows(2).all(|pair| pair[0] != pair[1])
        };
        (1..self.columns.len()).find(apart).unwrap_or(1)
    }

    /// How wide a column wants to be, blanks around it included.
    fn column_width(&self, at: usize) -> usize {
        let head = &self.columns[at];
        let word = head.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        let head = head.chars().count().min(word.max(HEAD_WIDTH_MAX));
        let cells = self.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        head.max(cells) + PADDING
    }

    fn drawn(&self, width: usize) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        table.set_header(self.columns.clone());
        table.add_rows(self.rows.iter().cloned());
        let wanted: usize = (0..self.columns.len()).map(|at| self.column_width(at)).sum();
        for (at, column) in table.column_iter_mut().enumerate() {
            if wanted <= width {
                let fixed = u16::try_from(self.column_width(at) - 1).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(fixed)));
            }
            if self.is_numeric(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }

    fn is_numeric(&self, at: usize) -> bool {
        let number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        self.rows.iter().all(|row| row[at].is_empty() || number(&row[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(columns: &[&str], rows: &[&[&str]]) -> Grid {
        let own = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>();
        Grid { columns: own(columns), rows: rows.iter().map(|row| own(row)).collect() }
    }

    fn text(grid: &Grid, width: usize) -> String {
        let mut out = Vec::new();
        grid.print(width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_wide_table_is_cut_into_blocks_that_keep_their_keys() {
        let rows: [&[&str]; 2] = [
            &["1", "64", "8.12 Mpps (8.00 to 8.30)", "12.1 us"],
            &["1", "1500", "3.12 Mpps (3.00 to 3.30)", "99.5 us"],
        ];
        let grid = grid(&["groups", "frame", "throughput (interval)", "p50"], &rows);
        assert_eq!(grid.blocks(80), [[0, 1, 2, 3]]);
        assert_eq!(grid.blocks(46), [[0, 1, 2], [0, 1, 3]]);
        let narrow = text(&grid, 46);
        assert_eq!(narrow.matches("1500").count(), 2, "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 46), "{narrow}");
        assert!(narrow.contains("3.12 Mpps (3.00 to 3.30)"), "a cell was torn:\n{narrow}");
    }

    #[test]
    fn a_wide_table_of_one_row_is_a_list() {
        let row: [&[&str]; 1] = [&["soft", "64", "8.12 Mpps (8.00 to 8.30)", "", "12.1 us"]];
        let grid = grid(&["device", "frame", "throughput (interval)", "marks", "p50"], &row);
        let list = "device: soft\nframe: 64\nthroughput (interval): 8.12 Mpps (8.00 to\n  8.30)\n\
                    p50: 12.1 us\n";
        assert_eq!(text(&grid, 42), list);
        let is_row = |line: &str| line.contains("soft") && line.contains("12.1 us");
        assert!(text(&grid, 100).lines().any(is_row), "where it fits it is a table");
    }

    #[test]
    fn a_table_whose_columns_were_all_printed_before_is_empty() {
        let same: [&[&str]; 2] = [&["soft"], &["soft"]];
        let folded = grid(&["device"], &same).folded(80, &mut Vec::new()).unwrap();
        assert_eq!(text(&folded, 80), "");
        assert_eq!(text(&grid(&["device"], &[]), 80), "nothing was measured\n");
    }

    #[test]
    fn constant_columns_are_printed_once() {
        let rows: [&[&str]; 2] = [&["soft", "0", "5.8"], &["soft", "16", "5.7"]];
        let mut message = Vec::new();
        let folded = grid(&["device", "rules", "Mpps"], &rows).folded(80, &mut message).unwrap();
        assert_eq!(String::from_utf8(message).unwrap(), "in every row: device soft\n");
        assert_eq!(folded, grid(&["rules", "Mpps"], &[&["0", "5.8"], &["16", "5.7"]]));
        let single = grid(&["device", "rules"], &[&["soft", "0"]]);
        assert_eq!(single.clone().folded(80, &mut Vec::new()).unwrap(), single);
    }

    #[test]
    fn paragraphs_break_between_words() {
        assert_eq!(wrapped("- one two three four", 11), "- one two\n  three\n  four");
        assert_eq!(wrapped("- one", 11), "- one");
        assert_eq!(wrapped("immeasurable", 5), "immeasurable");
    }
}
