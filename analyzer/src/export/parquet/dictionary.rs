//! A column chunk of texts whose numbers are known: a dictionary page of those that
//! occur, and pages of bit-packed numbers of its entries.
//!
//! Runs of one text, such as the name of the trace, are one entry of the run-length
//! encoding; everything else is packed in the width that the largest number takes.

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding, ZstdLevel},
    column::{
        page::{CompressedPage, Page, PageWriter},
        writer::ColumnCloseResult,
    },
    data_type::ByteArray,
    errors::{ParquetError, Result},
    file::{
        metadata::{ColumnChunkMetaData, OffsetIndexBuilder},
        statistics::Statistics,
        writer::{SerializedPageWriter, TrackedWrite},
    },
    schema::types::ColumnDescPtr,
};

use super::group::{Encoded, LEVEL, ROWS_IN_A_PAGE};

/// Texts that are longer are no statistics: they would have to be cut to fit for bounds.
const LONGEST_BOUND: usize = 64;
/// Shorter runs are packed: eight numbers are packed at a time.
const SHORTEST_RUN: usize = 16;

/// Encodes numbers of `texts`.
pub(super) fn column<T: AsRef<str>>(
    descr: &ColumnDescPtr,
    numbers: &[u32],
    texts: &[T],
) -> Result<Encoded> {
    let (entries, indices) = entries(numbers, texts.len());
    let mut written = Pages { sink: TrackedWrite::new(Vec::new()), packed: 0, plain: 0 };

    let mut page = Vec::new();
    for &entry in &entries {
        let text = texts[entry as usize].as_ref();
        page.extend_from_slice(&(text.len() as u32).to_le_bytes());
        page.extend_from_slice(text.as_bytes());
    }
    written.write(page, |buf| Page::DictionaryPage {
        buf,
        num_values: entries.len() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    })?;

    let data_page_offset = written.packed;
    let width = u32::BITS - (entries.len().saturating_sub(1) as u32).leading_zeros();
    let mut places = OffsetIndexBuilder::new();
    for rows in indices.chunks(ROWS_IN_A_PAGE) {
        let mut page = vec![width as u8];
        hybrid(rows, width, &mut page);
        let (offset, size) = written.write(page, |buf| Page::DataPage {
            buf,
            num_values: rows.len() as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?;
        places.append_row_count(rows.len() as i64);
        places.append_offset_and_size(offset, size);
    }

    let used = || entries.iter().map(|&entry| texts[entry as usize].as_ref());
    let bound =
        |text: Option<&str>| text.filter(|text| text.len() <= LONGEST_BOUND).map(ByteArray::from);
    let (least, most) = (bound(used().min()), bound(used().max()));
    let metadata = ColumnChunkMetaData::builder(descr.clone())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_total_compressed_size(written.packed)
        .set_total_uncompressed_size(written.plain)
        .set_num_values(numbers.len() as i64)
        .set_data_page_offset(data_page_offset)
        .set_dictionary_page_offset(Some(0))
        .set_statistics(Statistics::byte_array(least, most, None, Some(0), false))
        .build()?;
    let close = ColumnCloseResult {
        bytes_written: written.packed as u64,
        rows_written: numbers.len() as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: Some(places.build()),
    };
    let bytes =
        written.sink.into_inner().map_err(|error| ParquetError::General(error.to_string()))?;
    Ok(Encoded { bytes: bytes.into(), close })
}

/// Pages of one column chunk.
struct Pages {
    sink: TrackedWrite<Vec<u8>>,
    packed: i64,
    plain: i64,
}

impl Pages {
    /// Packs a page and writes it: where it is, and how long.
    fn write(&mut self, content: Vec<u8>, page: impl FnOnce(Bytes) -> Page) -> Result<(i64, i32)> {
        let packed = ringscope_format::zstd_packed(&content, LEVEL)?;
        let page = CompressedPage::new(page(packed.into()), content.len());
        let spec = SerializedPageWriter::new(&mut self.sink).write_page(page)?;
        self.packed += spec.bytes_written as i64;
        self.plain += spec.uncompressed_size as i64;
        Ok((spec.offset as i64, spec.bytes_written as i32))
    }
}

/// Numbers of the texts that occur, in the order in which they do, and for each row
/// which of these it is.
fn entries(numbers: &[u32], texts: usize) -> (Vec<u32>, Vec<u32>) {
    const NONE: u32 = u32::MAX;
    let mut entry_of = vec![NONE; texts];
    let mut entries = Vec::new();
    let indices = numbers.iter().map(|&number| {
        let entry = &mut entry_of[number as usize];
        if *entry == NONE {
            *entry = entries.len() as u32;
            entries.push(number);
        }
        *entry
    });
    let indices = indices.collect();
    (entries, indices)
}

/// Appends numbers of `width` bits in the hybrid of runs and bit-packing.
fn hybrid(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut rest = values;
    while let [first, ..] = *rest {
        let run = rest.iter().take_while(|&&value| value == first).count();
        if run >= SHORTEST_RUN || run == rest.len() {
            varint((run as u64) << 1, out);
            out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
            rest = &rest[run..];
        } else {
            let length = until_a_run(rest);
            let (packed, after) = rest.split_at(length);
            varint((length.div_ceil(8) as u64) << 1 | 1, out);
            pack(packed, width, out);
            rest = after;
        }
    }
}

/// How many values come before the next run that is worth one: a multiple of eight,
/// unless it is all of them.
fn until_a_run(values: &[u32]) -> usize {
    let mut same = 1;
    for at in 1..values.len() {
        same = if values[at] == values[at - 1] { same + 1 } else { 1 };
        // A run that begins within a group of eight fills that group first.
        let begin = (at + 1 - same).next_multiple_of(8);
        if begin > 0 && at + 1 >= begin + SHORTEST_RUN && same >= SHORTEST_RUN {
            return begin;
        }
    }
    values.len()
}

/// Packs values from the lowest bit on, and zeros up to a multiple of eight of them.
fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut bits, mut filled) = (0_u64, 0);
    let padding = values.len().next_multiple_of(8) - values.len();
    out.reserve((values.len() + padding) * width as usize / 8 + 8);
    for &value in values.iter().chain(std::iter::repeat_n(&0, padding)) {
        bits |= u64::from(value) << filled;
        filled += width;
        if filled >= 32 {
            out.extend_from_slice(&(bits as u32).to_le_bytes());
            bits >>= 32;
            filled -= 32;
        }
    }
    // Eight values of any width are whole bytes.
    out.extend_from_slice(&bits.to_le_bytes()[..(filled / 8) as usize]);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(values: &[u32], width: u32) -> Vec<u8> {
        let mut out = Vec::new();
        hybrid(values, width, &mut out);
        out
    }

    /// Reads it back, as the format says.
    fn decoded(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < count {
            let (mut head, mut shift) = (0_u64, 0);
            loop {
                let (byte, rest) = bytes.split_first().unwrap();
                bytes = rest;
                head |= u64::from(byte & 0x7F) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            if head & 1 == 0 {
                let (value, rest) = bytes.split_at(width.div_ceil(8) as usize);
                bytes = rest;
                let value = value.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte));
                values.extend(std::iter::repeat_n(value, (head >> 1) as usize));
            } else {
                let eights = (head >> 1) as usize;
                let (packed, rest) = bytes.split_at(eights * width as usize);
                bytes = rest;
                let bit = |at: usize| u32::from(packed[at / 8] >> (at % 8) & 1);
                values.extend((0..8 * eights).map(|nth| {
                    let from = nth * width as usize;
                    (0..width as usize).fold(0, |all, at| all | bit(from + at) << at)
                }));
            }
        }
        assert!(bytes.is_empty());
        values.truncate(count);
        values
    }

    #[test]
    fn the_example_of_the_format_is_packed_as_it_shows() {
        assert_eq!(
            encoded(&[0, 1, 2, 3, 4, 5, 6, 7], 3),
            [3, 0b1000_1000, 0b1100_0110, 0b1111_1010]
        );
    }

    #[test]
    fn a_run_is_its_length_and_its_value() {
        assert_eq!(encoded(&[300; 1_000], 9), [0xD0, 0x0F, 0x2C, 0x01]);
        assert_eq!(encoded(&[0; 5], 0), [10]);
        assert!(encoded(&[], 0).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_packed_is_read_back(
            runs in proptest::collection::vec((0_u32..1 << 20, 1_usize..60), 0..60),
            width in 20_u32..=32,
        ) {
            let values: Vec<u32> =
                runs.iter().flat_map(|&(value, length)| std::iter::repeat_n(value, length)).collect();
            proptest::prop_assert_eq!(decoded(&encoded(&values, width), width, values.len()), values);
        }
    }
}
