//! Names as they are compared: parts that change from build to build or from run to
//! run are folded, so that unstable ids do not read as names that come and go.

use std::borrow::Cow;

/// A part of a name that is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Fold {
    /// `0x7f3a…` and other long hexadecimal numbers become `0x#`
    Addresses,
    /// What follows `id`, `#` or `@`, as in `op_id 5123`, becomes `#`
    Ids,
    /// Every number becomes `#`: `block_17` and `block_18` are one
    Numbers,
    /// `gemm<float, 128>` becomes `gemm<…>`
    Templates,
}

/// What is folded unless told otherwise.
pub const USUAL: [Fold; 2] = [Fold::Addresses, Fold::Ids];

/// The name with all of `folds` applied.
pub fn folded<'a>(name: &'a str, folds: &[Fold]) -> Cow<'a, str> {
    let mut folds = folds.to_vec();
    // Template arguments go first: what is in them need not be folded.
    folds.sort_by_key(|fold| (*fold != Fold::Templates, *fold));
    folds.dedup();
    folds.into_iter().fold(Cow::Borrowed(name), |name, fold| {
        let new = match fold {
            Fold::Templates => templates(&name),
            Fold::Addresses => numbers(&name, |number| {
                (number.hexadecimal && number.text.len() >= 4).then_some("0x#")
            }),
            Fold::Ids => {
                numbers(&name, |number| (number.is_id && !number.hexadecimal).then_some("#"))
            }
            Fold::Numbers => numbers(&name, |number| (!number.hexadecimal).then_some("#")),
        };
        new.map_or(name, Cow::Owned)
    })
}

/// Outermost angle brackets are emptied, if they pair up.
fn templates(name: &str) -> Option<String> {
    // `operator<`, `->` and `=>` are no brackets.
    let is_operator =
        |at: usize| name[..at].ends_with("operator") || name[..at].ends_with("operator<");
    let is_arrow = |at: usize| name[..at].ends_with(['-', '=']);
    let mut out = String::with_capacity(name.len());
    let (mut depth, mut any) = (0_u32, false);
    for (at, c) in name.char_indices() {
        match c {
            '<' if !is_operator(at) => {
                if depth == 0 {
                    out.push_str("<…");
                    any = true;
                }
                depth += 1;
            }
            '>' if depth > 0 && !is_arrow(at) => {
                depth -= 1;
                if depth == 0 {
                    out.push('>');
                }
            }
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    (any && depth == 0 && out != name).then_some(out)
}

/// A number in a name.
struct Number<'a> {
    /// With what marks it as hexadecimal.
    text: &'a str,
    hexadecimal: bool,
    /// Whether what stands before says that it is an id.
    is_id: bool,
}

/// Replaces the numbers for which there is something else.
fn numbers(name: &str, fold: impl Fn(&Number<'_>) -> Option<&'static str>) -> Option<String> {
    let bytes = name.as_bytes();
    let mut out = String::with_capacity(name.len());
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let inside_a_word = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
        let is_prefixed = name[at..].starts_with("0x") || name[at..].starts_with("0X");
        let digits = |from: usize, is: fn(&u8) -> bool| {
            bytes[from..].iter().take_while(|byte| is(byte)).count()
        };
        let (end, hexadecimal) = if is_prefixed && !inside_a_word {
            (at + 2 + digits(at + 2, u8::is_ascii_hexdigit), true)
        } else if !inside_a_word && is_bare_hexadecimal(bytes, at) {
            (at + digits(at, u8::is_ascii_hexdigit), true)
        } else {
            (at + digits(at, u8::is_ascii_digit), false)
        };
        if end == at {
            // Past one character: all of its bytes.
            at += name[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        }
        let number = Number { text: &name[at..end], hexadecimal, is_id: says_id(&name[..at]) };
        if let Some(new) = fold(&number) {
            out.push_str(&name[copied..at]);
            out.push_str(new);
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&name[copied..]);
    Some(out)
}

/// Twelve hexadecimal digits and more, letters among them, are an address or a hash.
fn is_bare_hexadecimal(bytes: &[u8], at: usize) -> bool {
    let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let word = &bytes[at..at + digits];
    let ends = bytes.get(at + digits).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    digits >= 12 && ends && word.iter().any(u8::is_ascii_digit)
}

/// Whether a text ends in what announces an id.
fn says_id(before: &str) -> bool {
    let word = before.trim_end_matches([' ', '=', ':', '_', '-']);
    if word.ends_with(['#', '@']) {
        return true;
    }
    let lower = word.to_ascii_lowercase();
    lower.strip_suffix("id").is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ids_are_folded_and_other_numbers_stay() {
        let usual = |name: &'static str| folded(name, &USUAL).into_owned();
        assert_eq!(usual("call 0x7f3a12bc"), "call 0x#");
        assert_eq!(usual("sub_deadbeef0123abcd.cold"), "sub_0x#.cold");
        assert_eq!(usual("op_id 5123"), "op_id #");
        assert_eq!(usual("request #17 of user id=9"), "request ## of user id=#");
        assert_eq!(usual("block_17"), "block_17");
        assert_eq!(usual("grid128"), "grid128");
        assert_eq!(usual("größe_0x12ab"), "größe_0x#");
    }

    #[test]
    fn numbers_and_template_arguments_are_folded_on_request() {
        assert_eq!(folded("block_17.head_3", &[Fold::Numbers]), "block_#.head_#");
        assert_eq!(
            folded("void gemm<float, Tile<128, 64>>(int)", &[Fold::Templates]),
            "void gemm<…>(int)"
        );
        assert_eq!(folded("a<b>::c<d>", &[Fold::Templates]), "a<…>::c<…>");
        assert_eq!(folded("operator<", &[Fold::Templates]), "operator<");
        assert_eq!(folded("f(x)->y", &[Fold::Templates]), "f(x)->y");
        assert_eq!(folded("a < b", &[Fold::Templates]), "a < b");
        let both = [Fold::Numbers, Fold::Templates];
        assert_eq!(folded("k<3>_7", &both), "k<…>_#");
    }
}
