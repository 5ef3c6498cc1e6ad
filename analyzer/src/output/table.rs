//! For people at a terminal: the table crate lives here alone.

use std::io::{self, Write};

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Drawing, Width, presets,
};

use super::{Cell, Document, MOST_TEXT, Part, Style, Table, heading, readable};

/// Texts are not cut below this, however narrow the terminal.
const LEAST_TEXT: usize = 12;

pub(super) fn print(document: &Document, style: &Style, out: &mut impl Write) -> io::Result<()> {
    for (at, part) in document.parts.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        match part {
            Part::Table(table) => print_table(table, style, out)?,
            Part::Text { title, lines, .. } => {
                if !title.is_empty() {
                    heading(out, title, style.color)?;
                }
                for line in lines {
                    writeln!(out, "{line}")?;
                }
            }
        }
    }
    Ok(())
}

/// Columns of the terminal, if there is one.
pub fn terminal_width() -> Option<usize> {
    Drawing::new().width().map(usize::from)
}

fn print_table(table: &Table, style: &Style, out: &mut impl Write) -> io::Result<()> {
    if !table.title.is_empty() {
        heading(out, &table.title, style.color)?;
    }
    if !table.rows.is_empty() {
        draw(table, style, out)?;
    }
    if !table.note.is_empty() {
        writeln!(out, "{}", table.note)?;
    }
    Ok(())
}

fn draw(table: &Table, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let all_rows = || table.rows.iter().chain(&table.footer);
    // Off a terminal too: widths of the table crate are 16 bits wide, and a text may be longer.
    let at_most = |text: &str| readable::shorten_middle(text, MOST_TEXT).into_owned();
    let written = |cell: &Cell| at_most(&readable::cell(cell, style.time_unit));
    let mut texts: Vec<Vec<String>> =
        all_rows().map(|row| row.iter().map(written).collect()).collect();
    let is_text = |at: usize| all_rows().any(|row| matches!(row[at], Cell::Text(_)));
    if let Some(width) = style.width {
        shorten(table, &mut texts, width, is_text);
    }
    let mut drawing = Drawing::new();
    drawing.load_style(presets::NOTHING);
    drawing.set_content_arrangement(ContentArrangement::Disabled);
    drawing.set_header(table.columns.iter().map(|column| at_most(&column.title)));
    drawing.add_rows(texts);
    for (at, column) in drawing.column_iter_mut().enumerate() {
        let alignment = if is_text(at) { CellAlignment::Left } else { CellAlignment::Right };
        column.set_cell_alignment(alignment);
        column.set_padding(if at == 0 { (2, 1) } else { (1, 1) });
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(1)));
    }
    for line in drawing.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Cuts texts in the middle until the table fits.
fn shorten(
    table: &Table,
    texts: &mut [Vec<String>],
    width: usize,
    is_text: impl Fn(usize) -> bool,
) {
    let length = |text: &str| text.chars().count().min(MOST_TEXT);
    let widest = |texts: &[Vec<String>], at: usize| {
        let cells = texts.iter().map(|row| length(&row[at]));
        cells.chain([length(&table.columns[at].title)]).max().unwrap_or(0)
    };
    let total: usize = (0..table.columns.len()).map(|at| widest(texts, at) + 2).sum::<usize>() + 1;
    let mut excess = total.saturating_sub(width);
    while excess > 0 {
        let longest =
            (0..table.columns.len()).filter(|&at| is_text(at)).max_by_key(|&at| widest(texts, at));
        let Some(at) = longest else { return };
        let now = widest(texts, at);
        let least = LEAST_TEXT.max(length(&table.columns[at].title));
        if now <= least {
            return;
        }
        let target = now.saturating_sub(excess).max(least);
        for row in &mut *texts {
            row[at] = readable::shorten_middle(&row[at], target).into_owned();
        }
        excess -= now - target;
    }
}
