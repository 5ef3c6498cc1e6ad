//! A pull reader of JSON text: it hands out numbers as they are written, says at
//! which byte something is wrong, and keeps what came before a cut.
//!
//! It is no validator. What nobody asks for is skipped by its brackets and quotes
//! alone, in constant memory whatever its depth; `NaN` and `Infinity`, which
//! profilers do write, are words.

use std::borrow::Cow;

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text ends in the middle of something.
    CutOff,
    /// This byte does not belong there.
    Unexpected(usize),
}

pub(super) type Read<T> = Result<T, Fault>;

/// A value; what is nested is its text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    String(Cow<'a, str>),
    /// As it is written; also `NaN`.
    Number(&'a str),
    Bool(bool),
    Null,
    /// An array or an object.
    Nested(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// Text, or a number as it is written.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Scalar::String(text) => Some(text),
            Scalar::Number(text) => Some(text),
            _ => None,
        }
    }
}

/// Where in a text the reader is.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    text: &'a [u8],
    /// The same, if all of it was found to be sound: one look at a file is quicker than one
    /// at each of its strings.
    sound: Option<&'a str>,
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let at = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        Self { text, sound: None, at }
    }

    /// For a whole file: looks once whether all of it is UTF-8.
    pub(super) fn of_file(text: &'a [u8]) -> Self {
        Self { sound: std::str::from_utf8(text).ok(), ..Self::new(text) }
    }

    /// The next byte that is not space; the reader stays before it.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Steps over `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Steps over `byte`, which has to be next.
    pub(super) fn expect(&mut self, byte: u8) -> Read<()> {
        match self.peek() {
            Some(next) if next == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Fault::Unexpected(self.at)),
            None => Err(Fault::CutOff),
        }
    }

    /// An object: `each` gets every key and has to take the value.
    pub(super) fn object(
        &mut self,
        mut each: impl FnMut(Cow<'a, str>, &mut Self) -> Read<()>,
    ) -> Read<()> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            each(key, self)?;
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
            // Some writers leave a comma behind the last.
            if self.take(b'}') {
                return Ok(());
            }
        }
    }

    /// A string.
    pub(super) fn string(&mut self) -> Read<Cow<'a, str>> {
        self.expect(b'"')?;
        let begin = self.at;
        let has_escapes = self.skip_string()?;
        let raw = &self.text[begin..self.at - 1];
        if has_escapes {
            return Ok(Cow::Owned(unescaped(raw)));
        }
        if let Some(sound) = self.sound {
            return Ok(Cow::Borrowed(&sound[begin..self.at - 1]));
        }
        // Nearly all texts are sound, and this check is the quicker one.
        Ok(std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed))
    }

    /// A value, copied only where it has escapes.
    pub(super) fn scalar(&mut self) -> Read<Scalar<'a>> {
        match self.peek() {
            None => Err(Fault::CutOff),
            Some(b'"') => self.string().map(Scalar::String),
            Some(b'{' | b'[') => self.nested().map(Scalar::Nested),
            Some(_) => {
                let begin = self.at;
                let word = self.word()?;
                Ok(match word {
                    "true" => Scalar::Bool(true),
                    "false" => Scalar::Bool(false),
                    "null" => Scalar::Null,
                    "NaN" | "Infinity" | "-Infinity" | "nan" | "inf" | "-inf" => {
                        Scalar::Number(word)
                    }
                    _ if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                        Scalar::Number(word)
                    }
                    _ => return Err(Fault::Unexpected(begin)),
                })
            }
        }
    }

    /// Steps over a value and returns its text.
    pub(super) fn nested(&mut self) -> Read<&'a [u8]> {
        self.peek();
        let begin = self.at;
        self.skip()?;
        Ok(&self.text[begin..self.at])
    }

    /// Steps over a value.
    pub(super) fn skip(&mut self) -> Read<()> {
        match self.peek() {
            None => return Err(Fault::CutOff),
            Some(b'"') => {
                self.at += 1;
                return self.skip_string().map(|_| ());
            }
            Some(b'{' | b'[') => {}
            Some(_) => return self.word().map(|_| ()),
        }
        let mut depth = 0_usize;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => {
                    self.skip_string()?;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Err(Fault::CutOff)
    }

    /// Goes behind the closing quote; whether there were escapes.
    fn skip_string(&mut self) -> Read<bool> {
        let mut has_escapes = false;
        loop {
            self.at += plain(&self.text[self.at.min(self.text.len())..]);
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(_) => {
                    has_escapes = true;
                    self.at += 2;
                }
                None => {
                    self.at = self.text.len();
                    return Err(Fault::CutOff);
                }
            }
        }
    }

    fn word(&mut self) -> Read<&'a str> {
        let rest = &self.text[self.at..];
        let belongs =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.iter().position(|byte| !belongs(byte)).ok_or(Fault::CutOff)?;
        if length == 0 {
            return Err(Fault::Unexpected(self.at));
        }
        let begin = self.at;
        self.at += length;
        match self.sound {
            Some(sound) => Ok(&sound[begin..self.at]),
            None => std::str::from_utf8(&rest[..length]).map_err(|_| Fault::Unexpected(begin)),
        }
    }
}

/// Bytes before the first quote or backslash, looked at eight at a time.
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The lowest byte that is marked is right; a borrow can only mark bytes above it.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found =
            zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let tail = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    words.len() * 8 + tail.unwrap_or(rest.len())
}

/// Text without its escapes; what is no escape stands for itself.
fn unescaped(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => out.push(unicode(&mut rest)),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// The character of `uXXXX`, or of two of them.
fn unicode(rest: &mut std::str::Chars<'_>) -> char {
    let four = |text: &str| text.get(..4).and_then(|text| u32::from_str_radix(text, 16).ok());
    let Some(high) = four(rest.as_str()) else { return char::REPLACEMENT_CHARACTER };
    *rest = rest.as_str()[4..].chars();
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    let low = rest.as_str().strip_prefix("\\u").and_then(four);
    match low {
        Some(low @ 0xDC00..0xE000) => {
            *rest = rest.as_str()[6..].chars();
            char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                .unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_come_as_they_are_written() {
        let mut reader =
            Reader::new(br#" 1.50e3 "a\u00e9\ud83d\ude00\"b" true null {"x":["}"]} NaN "#);
        assert_eq!(reader.scalar(), Ok(Scalar::Number("1.50e3")));
        assert_eq!(reader.scalar(), Ok(Scalar::String("a\u{e9}\u{1f600}\"b".into())));
        assert_eq!(reader.scalar(), Ok(Scalar::Bool(true)));
        assert_eq!(reader.scalar(), Ok(Scalar::Null));
        assert_eq!(reader.scalar(), Ok(Scalar::Nested(br#"{"x":["}"]}"#)));
        assert_eq!(reader.scalar(), Ok(Scalar::Number("NaN")));
        assert_eq!(reader.scalar(), Err(Fault::CutOff));
    }

    #[test]
    fn the_end_of_a_string_is_found_wherever_it_is() {
        for length in 0..40 {
            for end in ["\"", "\\"] {
                let text = "\u{e9}x!\u{a3}#[".repeat(8);
                let mut text = text.as_bytes()[..length].to_vec();
                assert_eq!(plain(&text), length);
                text.extend_from_slice(end.as_bytes());
                text.extend_from_slice(b"\"\\ and more");
                assert_eq!(plain(&text), length);
            }
        }
    }

    #[test]
    fn depth_takes_no_memory_and_a_cut_is_a_cut() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(Reader::new(deep.as_bytes()).skip(), Err(Fault::CutOff));
        let closed = deep.clone() + &"]".repeat(1_000_000);
        assert_eq!(Reader::new(closed.as_bytes()).skip(), Ok(()));
        for cut in ["\"a", "\"a\\", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,"] {
            let mut reader = Reader::new(cut.as_bytes());
            let read = match cut.as_bytes()[0] {
                b'"' => reader.string().map(|_| ()),
                _ => reader.object(|_, reader| reader.skip()),
            };
            assert_eq!(read, Err(Fault::CutOff), "{cut}");
        }
        assert_eq!(Reader::new(b"{1:2}").object(|_, it| it.skip()), Err(Fault::Unexpected(1)));
    }
}
