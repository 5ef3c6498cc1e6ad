//! Siblings that differ only in a number, such as `block_0` to `block_31`, as one.
//!
//! Names are alike if they are equal but for one of the numbers in them. Where
//! several numbers vary, as in `layer_0.head_1`, the one that leaves the fewest
//! rows is given up; names in which two numbers differ at once, as in
//! `matmul_128x64` and `matmul_64x256`, stay apart.

use std::collections::BTreeMap;

/// Texts between numbers, and the numbers.
struct Template<'a> {
    texts: Vec<&'a str>,
    numbers: Vec<&'a str>,
}

impl<'a> Template<'a> {
    fn of(name: &'a str) -> Self {
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        let mut rest = name;
        loop {
            let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let (text, behind) = rest.split_at(digits);
            texts.push(text);
            if behind.is_empty() {
                return Self { texts, numbers };
            }
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            let (number, behind) = behind.split_at(end);
            numbers.push(number);
            rest = behind;
        }
    }

    /// The name with `label` in place of one number.
    fn with(&self, varies: usize, label: &str) -> String {
        let mut name = String::new();
        for (at, text) in self.texts.iter().enumerate() {
            name.push_str(text);
            if let Some(number) = self.numbers.get(at) {
                name.push_str(if at == varies { label } else { number });
            }
        }
        name
    }
}

/// Names that make one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alike {
    /// The name, or one for them all: `block_{0..31}`.
    pub(crate) label: String,
    /// Which of the names they are.
    pub(crate) members: Vec<usize>,
}

/// Puts names together that are alike. Each name is in one of the results.
pub(crate) fn alike(names: &[&str]) -> Vec<Alike> {
    let templates: Vec<Template<'_>> = names.iter().map(|name| Template::of(name)).collect();
    let mut by_texts: BTreeMap<&[&str], Vec<usize>> = BTreeMap::new();
    for (at, template) in templates.iter().enumerate() {
        by_texts.entry(&template.texts).or_default().push(at);
    }
    let mut result = Vec::new();
    for members in by_texts.into_values() {
        let numbers = templates[members[0]].numbers.len();
        let split = |varies: usize| {
            let mut parts: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
            for &member in &members {
                let mut fixed = templates[member].numbers.clone();
                fixed[varies] = "";
                parts.entry(fixed).or_default().push(member);
            }
            (varies, parts)
        };
        match (0..numbers).map(split).min_by_key(|(_, parts)| parts.len()) {
            Some((varies, parts)) => {
                let row = |members: Vec<usize>| {
                    let label = label(&templates, &members, varies);
                    Alike { label, members }
                };
                result.extend(parts.into_values().map(row));
            }
            None => result.extend(
                members.iter().map(|&at| Alike { label: names[at].to_owned(), members: vec![at] }),
            ),
        }
    }
    result
}

/// One name for all members, in which one number varies.
fn label(templates: &[Template<'_>], members: &[usize], varies: usize) -> String {
    let template = &templates[members[0]];
    let mut numbers: Vec<&str> = members.iter().map(|&at| templates[at].numbers[varies]).collect();
    // By size: without leading zeros, the longer number is the larger one.
    let size = |number: &&str| {
        let digits = number.trim_start_matches('0');
        (digits.len(), digits.to_owned())
    };
    numbers.sort_by_key(size);
    let number = match numbers[..] {
        [one] => one.to_owned(),
        [first, .., last] => {
            let gaps = match (first.parse::<u64>(), last.parse::<u64>()) {
                (Ok(first), Ok(last)) => last - first != numbers.len() as u64 - 1,
                _ => true,
            };
            match numbers.len() {
                2..=4 if gaps => format!("{{{}}}", numbers.join(",")),
                n if gaps => format!("{{{n} of {first}..{last}}}"),
                _ => format!("{{{first}..{last}}}"),
            }
        }
        [] => String::new(),
    };
    template.with(varies, &number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &[&str]) -> Vec<String> {
        let mut rows = alike(names);
        let mut all: Vec<usize> = rows.iter().flat_map(|row| row.members.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..names.len()).collect::<Vec<_>>());
        rows.sort_by_key(|row| row.members[0]);
        rows.into_iter().map(|row| row.label).collect()
    }

    #[test]
    fn siblings_that_differ_in_one_number_make_one_row() {
        assert_eq!(labels(&["block_2", "load", "block_10", "block_0"]), ["block_{0,2,10}", "load"]);
        assert_eq!(labels(&["l.1.attn", "l.0.attn", "l.0.mlp"]), ["l.{0..1}.attn", "l.0.mlp"]);
        let many: Vec<String> = (0..32).map(|n| format!("block_{n:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(labels(&many), ["block_{00..31}"]);
        assert_eq!(labels(&many[1..6]), ["block_{01..05}"]);
        assert_eq!(labels(&["b1", "b2", "b3", "b4", "b9"]), ["b{5 of 1..9}"]);
    }

    #[test]
    fn names_in_which_two_numbers_differ_stay_apart() {
        let apart = ["matmul_128x64", "matmul_64x256"];
        assert_eq!(labels(&apart), apart);
        let heads = ["l0.h0", "l0.h1", "l0.h2", "l1.h0", "l1.h1", "l1.h2"];
        assert_eq!(labels(&heads), ["l0.h{0..2}", "l1.h{0..2}"]);
    }

    #[test]
    fn numbers_of_any_length_are_in_order() {
        let long = ["n99999999999999999999999", "n100000000000000000000000", "n7"];
        assert_eq!(labels(&long), ["n{7,99999999999999999999999,100000000000000000000000}"]);
        assert_eq!(labels(&["7", "größe"]), ["7", "größe"]);
    }
}
