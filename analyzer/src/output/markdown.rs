//! For a pull request: GitHub's tables.

use std::io::{self, Write};

use super::{Cell, Document, MOST_TEXT, Part, Style, Table, readable};

pub(super) fn print(document: &Document, style: &Style, out: &mut impl Write) -> io::Result<()> {
    for (at, part) in document.parts.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        match part {
            Part::Table(table) => print_table(table, style, out)?,
            Part::Text { title, lines, .. } => {
                if !title.is_empty() {
                    writeln!(out, "### {title}\n")?;
                }
                for line in lines {
                    writeln!(out, "{}  ", line.trim())?;
                }
            }
        }
    }
    Ok(())
}

fn print_table(table: &Table, style: &Style, out: &mut impl Write) -> io::Result<()> {
    if !table.title.is_empty() {
        writeln!(out, "### {}\n", table.title)?;
    }
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    writeln!(out, "| {} |", titles.join(" | "))?;
    let is_text = |at: usize| table.rows.iter().any(|row| matches!(row[at], Cell::Text(_)));
    let rules: Vec<&str> =
        (0..titles.len()).map(|at| if is_text(at) { "---" } else { "---:" }).collect();
    writeln!(out, "|{}|", rules.join("|"))?;
    for row in table.rows.iter().chain(&table.footer) {
        let cells: Vec<String> = row.iter().map(|cell| escaped(cell, style)).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    if !table.note.is_empty() {
        writeln!(out, "\n{}", table.note)?;
    }
    Ok(())
}

fn escaped(cell: &Cell, style: &Style) -> String {
    let text = readable::cell(cell, style.time_unit);
    let text = readable::shorten_middle(text.trim(), MOST_TEXT);
    match cell {
        Cell::Text(_) if !text.is_empty() => {
            format!("`{}`", text.replace('|', "\\|").replace('`', "'"))
        }
        _ => text.into_owned(),
    }
}
