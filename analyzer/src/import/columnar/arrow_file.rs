//! Arrow IPC files.
//!
//! The library trusts the lengths of a file, so they are looked at before it does: where blocks
//! are, and what packed buffers say that they unpack to.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::{
    Block, Footer, MetadataVersion,
    convert::try_fb_to_schema,
    reader::{FileDecoder, read_footer_length},
    root_as_footer, root_as_message,
};
use arrow_schema::ArrowError;

use super::{
    cells::{cell, holds},
    table::{Cell, Described, Table, refuse_too_many, taken},
};
use crate::{budget::Budget, import::collector::Collector};

/// Length of the footer and the closing magic.
const TRAILER: usize = 10;
/// In front of every packed buffer: what it unpacks to.
const LENGTH: usize = 8;

/// Reads all rows: how many there were, and the wall time of the clock's zero.
pub(super) fn read(
    file: Vec<u8>,
    found: &mut Collector,
    prefix: &str,
) -> Result<Option<i64>, String> {
    let file = Buffer::from_vec(file);
    let footer = footer(&file)?;
    let schema = footer.schema().ok_or("is damaged: it has no schema")?;
    let schema = Arc::new(try_fb_to_schema(schema).map_err(damaged)?);
    let described: Vec<Described> = schema
        .fields()
        .iter()
        .map(|field| Described {
            name: field.name().clone(),
            holds: holds(field.data_type()),
            kind: field.data_type().to_string(),
        })
        .collect();
    let columns = taken(&described, found)?;
    let mut decoder =
        FileDecoder::new(Arc::clone(&schema), MetadataVersion::V5).with_projection(columns.clone());
    let budget = found.budget;
    let mut left = budget.limit() / 3;
    for block in footer.dictionaries().iter().flatten() {
        let data = checked(&file, block, budget, &mut left)?;
        decoder.read_dictionary(block, &data).map_err(damaged)?;
    }
    let headers = columns.iter().map(|&at| described[at].header()).collect();
    let mut table = Table::new(headers, found, prefix);
    for (nth, block) in footer.recordBatches().iter().flatten().enumerate() {
        // A batch is dropped before the next.
        let mut left = left;
        let read = checked(&file, block, budget, &mut left)
            .and_then(|data| decoder.read_record_batch(block, &data).map_err(damaged));
        match read {
            Ok(None) => {}
            Ok(Some(batch)) => rows(&batch, &mut table)?,
            Err(why) if nth == 0 => return Err(why),
            Err(why) => {
                table.cut(&why);
                break;
            }
        }
    }
    Ok(table.finish())
}

fn rows(batch: &RecordBatch, table: &mut Table<'_>) -> Result<(), String> {
    (0..batch.num_rows()).try_for_each(|row| {
        let cells: Vec<Cell<'_>> =
            batch.columns().iter().map(|column| cell(&**column, row)).collect();
        table.row(&cells)
    })
}

fn footer(file: &[u8]) -> Result<Footer<'_>, String> {
    let cut = || "is cut off: an Arrow file ends with its footer; fetch it again".to_owned();
    let at = file.len().checked_sub(TRAILER).ok_or_else(cut)?;
    let trailer = file[at..].try_into().map_err(|_| cut())?;
    let length = read_footer_length(trailer).map_err(|_| cut())?;
    let begin = at.checked_sub(length).ok_or_else(cut)?;
    root_as_footer(&file[begin..at]).map_err(|why| format!("is damaged: {why}"))
}

/// The bytes of a block, if they are there and unpack to no more than is `left`.
fn checked(file: &Buffer, block: &Block, budget: Budget, left: &mut u64) -> Result<Buffer, String> {
    let place = || -> Option<(usize, usize, usize)> {
        let offset = usize::try_from(block.offset()).ok()?;
        let head = usize::try_from(block.metaDataLength()).ok()?;
        let length = head.checked_add(usize::try_from(block.bodyLength()).ok()?)?;
        (offset.checked_add(length)? <= file.len() && head >= 4).then_some((offset, head, length))
    };
    let wrong = |what: &str| format!("is damaged: {what} at byte {:#x}", block.offset());
    let (offset, head, length) = place().ok_or_else(|| wrong("a block outside of the file"))?;
    let data = file.slice_with_length(offset, length);
    // A length of four bytes, behind a mark of as many in files of today.
    let mark = if data.starts_with(&[0xFF; 4]) { 8 } else { 4 };
    let message = data.get(mark..head).ok_or_else(|| wrong("a block without a message"))?;
    let message = root_as_message(message).map_err(|_| wrong("a message that is none"))?;
    let batch = match message.header_as_dictionary_batch() {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    };
    let batch = batch.ok_or_else(|| wrong("a message of another kind"))?;
    let rows = u64::try_from(batch.length()).map_err(|_| wrong("a negative length"))?;
    refuse_too_many(rows, budget)?;
    for node in batch.nodes().iter().flatten() {
        let counts = [node.length(), node.null_count()];
        if counts.iter().any(|&count| count < 0 || count > batch.length()) {
            return Err(wrong("a column of another length"));
        }
    }
    for buffer in batch.buffers().iter().flatten() {
        let place = || -> Option<&[u8]> {
            let begin = head.checked_add(usize::try_from(buffer.offset()).ok()?)?;
            data.get(begin..begin.checked_add(usize::try_from(buffer.length()).ok()?)?)
        };
        let bytes = place().ok_or_else(|| wrong("a buffer outside of its block"))?;
        if batch.compression().is_none() || bytes.is_empty() {
            continue;
        }
        let unpacked = bytes.first_chunk::<LENGTH>().ok_or_else(|| wrong("a buffer cut off"))?;
        // Minus one stands for bytes that are not packed.
        let unpacked = u64::try_from(i64::from_le_bytes(*unpacked)).unwrap_or(0);
        *left = left
            .checked_sub(unpacked)
            .ok_or_else(|| wrong("a buffer that unpacks to more than memory takes,"))?;
    }
    Ok(data)
}

fn damaged(error: ArrowError) -> String {
    format!("is damaged, or no Arrow file that is understood: {error}")
}
