//! JSON by its text: where its parts are. None of them becomes a number or a map on the way,
//! which would change long numbers and the order of keys.
//!
//! Takes what Python's `json` writes and reads, so `NaN` and `Infinity` as well.

/// Deeper than arguments are; Python gives up somewhere past it too.
const DEEPEST: u32 = 128;

/// A value, with the texts of what it holds directly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json<'a> {
    Array(Vec<&'a str>),
    /// Keys with their quotes, in the order in which they stand.
    Object(Vec<(&'a str, &'a str)>),
    Single(&'a str),
}

/// Takes a text apart, or says what is wrong and where.
pub(super) fn parse(text: &str) -> Result<Json<'_>, String> {
    let mut scanner = Scanner { text, at: 0 };
    let parsed = scanner.value(0).and_then(|json| {
        scanner.space();
        (scanner.at == text.len()).then_some(json)
    });
    parsed.ok_or_else(|| match scanner.at >= text.len() {
        true => "it ends too early".to_owned(),
        false => format!("not understood at byte {:#x}", scanner.at),
    })
}

/// The text of a string, without its quotes and escapes; `None` if it is none that Unicode has.
pub(super) fn string(quoted: &str) -> Option<String> {
    serde_json::from_str(quoted).ok()
}

/// Stands at what it could not take if it fails.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32) -> Option<Json<'a>> {
        self.space();
        match self.peek()? {
            b'[' if depth < DEEPEST => {
                let mut list = Vec::new();
                self.parts(b']', |scanner| {
                    list.push(scanner.text_of(depth)?);
                    Some(())
                })?;
                Some(Json::Array(list))
            }
            b'{' if depth < DEEPEST => {
                let mut named = Vec::new();
                self.parts(b'}', |scanner| {
                    let key = scanner.string()?;
                    scanner.space();
                    scanner.takes(b':').then_some(())?;
                    named.push((key, scanner.text_of(depth)?));
                    Some(())
                })?;
                Some(Json::Object(named))
            }
            b'"' => self.string().map(Json::Single),
            _ => self.word().map(Json::Single),
        }
    }

    /// A value within another, as it is written.
    fn text_of(&mut self, depth: u32) -> Option<&'a str> {
        self.space();
        let from = self.at;
        self.value(depth + 1)?;
        Some(&self.text[from..self.at])
    }

    /// What is between brackets, with commas.
    fn parts(&mut self, closing: u8, mut part: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.space();
        if self.takes(closing) {
            return Some(());
        }
        loop {
            self.space();
            part(self)?;
            self.space();
            if self.takes(closing) {
                return Some(());
            }
            self.takes(b',').then_some(())?;
        }
    }

    fn string(&mut self) -> Option<&'a str> {
        let from = self.at;
        self.takes(b'"').then_some(())?;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(&self.text[from..self.at]);
                }
                b'\\' => {
                    self.at += 1;
                    match self.peek()? {
                        b'u' => {
                            self.at += 1;
                            for _ in 0..4 {
                                self.peek()?.is_ascii_hexdigit().then_some(())?;
                                self.at += 1;
                            }
                        }
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                        _ => return None,
                    }
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    /// A number or a constant.
    fn word(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        let word = &rest[..end.unwrap_or(rest.len())];
        let constants = ["true", "false", "null", "NaN", "Infinity", "-Infinity"];
        if constants.contains(&word) || is_number(word) {
            self.at += word.len();
            return Some(word);
        }
        // One that was cut ends too early.
        if end.is_none() && (is_number(&format!("{word}0")) || starts_one(&constants, word)) {
            self.at = self.text.len();
        }
        None
    }
}

fn starts_one(words: &[&str], beginning: &str) -> bool {
    words.iter().any(|word| word.starts_with(beginning))
}

fn is_number(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (word, None),
    };
    let (whole, part) = match mantissa.split_once('.') {
        Some((whole, part)) => (whole, Some(part)),
        None => (mantissa, None),
    };
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && part.is_none_or(digits)
        && exponent.is_none_or(|it| digits(it.strip_prefix(['+', '-']).unwrap_or(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_they_are_written() {
        let list = r#" [ 123456789012345678901234567890 , -0,1e400, NaN, -Infinity, {"b":1, "a" : [2]}, "]\"," ] "#;
        let expected = [
            "123456789012345678901234567890",
            "-0",
            "1e400",
            "NaN",
            "-Infinity",
            r#"{"b":1, "a" : [2]}"#,
            r#""]\",""#,
        ];
        assert_eq!(parse(list), Ok(Json::Array(expected.to_vec())));
        let object = r#"{"b": 1.50, "a": null, "b": "\ud800"}"#;
        let expected = vec![(r#""b""#, "1.50"), (r#""a""#, "null"), (r#""b""#, r#""\ud800""#)];
        assert_eq!(parse(object), Ok(Json::Object(expected)));
        assert_eq!(parse(" 7 "), Ok(Json::Single("7")));
        assert_eq!(
            (parse("[]"), parse("{ }")),
            (Ok(Json::Array(vec![])), Ok(Json::Object(vec![])))
        );
        assert_eq!((string(r#""a\u00e4""#).as_deref(), string(r#""\ud800""#)), (Some("aä"), None));
    }

    #[test]
    fn what_is_cut_ends_too_early_at_every_byte() {
        let whole = r#"{"args": [1.5e3, "a\u00e4\n", true, NaN, {}], "kwargs": {"k": [null]}}"#;
        assert!(parse(whole).is_ok());
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), Err("it ends too early".to_owned()), "{end}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused_where_it_stands() {
        for (text, at) in [
            ("[1 2]", 3),
            ("[01]", 1),
            ("[1,]", 3),
            ("{1: 2}", 1),
            ("{\"a\" 2}", 5),
            ("[\"\\x\"]", 3),
            ("[\"\\u12g4\"]", 6),
            ("[\"\n\"]", 2),
            ("[nan]", 1),
            ("[1.]", 1),
            ("[.5]", 1),
            ("[+1]", 1),
            ("['a']", 1),
            ("[ä]", 1),
            ("[] x", 3),
        ] {
            assert_eq!(parse(text), Err(format!("not understood at byte {at:#x}")), "{text}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(&deep(128)).is_ok());
        assert_eq!(parse(&deep(100_000)), Err("not understood at byte 0x80".to_owned()));
    }

    #[test]
    fn numbers_are_those_of_json() {
        for is in ["0", "-0", "10", "1.0", "1e5", "1.25E-7", "-1e+400"] {
            assert!(is_number(is), "{is}");
        }
        for not in ["", "-", "00", "1e", "e1", "1.e1", "--1", "1e1.5", "0x1"] {
            assert!(!is_number(not), "{not}");
        }
    }
}
