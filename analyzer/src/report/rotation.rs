//! Several files of one recording, read side by side: what that leaves out is said on standard error.

use std::collections::BTreeMap;

use ringscope_format::Mode;

use crate::{
    load::{Loaded, Traces},
    output::{count, shown},
};

/// The files of each recording of which there are several.
fn parts(traces: &Traces) -> impl Iterator<Item = Vec<&Loaded>> {
    let mut recordings: BTreeMap<[u8; 16], Vec<&Loaded>> = BTreeMap::new();
    for loaded in &traces.list {
        let header = loaded.trace.header();
        if header.mode == Mode::Full {
            recordings.entry(header.recording).or_default().push(loaded);
        }
    }
    recordings.into_values().filter(|files| files.len() > 1)
}

/// Whether spans may enclose others that are in another of these files.
pub(super) fn are_parts(traces: &Traces) -> bool {
    parts(traces).next().is_some()
}

/// Says what figures of a rotation's files are not, and which of them are missing.
pub(super) fn warn(traces: &Traces) {
    for mut files in parts(traces) {
        files.sort_by_key(|loaded| loaded.trace.header().file_number);
        let first = shown(&files[0].path.display().to_string()).into_owned();
        let more = count(files.len() as u64 - 1);
        eprintln!(
            "analyze: {first} and {more} more are parts of one recording: the self time of a span, and its \
             tree, are without what it encloses in another part"
        );
        let numbers = files.iter().map(|loaded| loaded.trace.header().file_number);
        if let Some(missing) = missing(numbers) {
            eprintln!(
                "analyze: {first}: of that recording, {missing}: their events are in no figure"
            );
        }
    }
}

/// `files 0 to 3 and 5 are not among these`, by the numbers of those that are, in order. There may be
/// more behind the last.
fn missing(numbers: impl Iterator<Item = u32>) -> Option<String> {
    let (mut gaps, mut next) = (Vec::new(), 0);
    for number in numbers {
        match number.checked_sub(next) {
            None | Some(0) => {}
            Some(1) => gaps.push(next.to_string()),
            Some(_) => gaps.push(format!("{next} to {}", number - 1)),
        }
        next = number.saturating_add(1);
    }
    let (last, others) = gaps.split_last()?;
    Some(match others {
        [] if !last.contains(' ') => format!("file {last} is not among these"),
        [] => format!("files {last} are not among these"),
        others => format!("files {} and {last} are not among these", others.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_there_are_named_by_their_numbers() {
        let missing = |numbers: &[u32]| missing(numbers.iter().copied());
        assert_eq!(missing(&[0, 1, 2]), None);
        assert_eq!(missing(&[0, 0, 1]), None);
        let one = |numbers| missing(numbers).unwrap();
        assert_eq!(one(&[0, 2]), "file 1 is not among these");
        assert_eq!(one(&[3, 4]), "files 0 to 2 are not among these");
        assert_eq!(one(&[1, 3, 7]), "files 0, 2 and 4 to 6 are not among these");
        assert_eq!(one(&[u32::MAX, u32::MAX]), "files 0 to 4294967294 are not among these");
    }
}
