//! Which tables and columns a query mentions.
//!
//! Tables are found by Polars' own parser. Columns are found by their names
//! among the words of the query, which may find too many and never too few.

use polars::sql::extract_table_identifiers;

use super::sql_error;
use crate::{
    Result,
    tables::{TableSpec, Wanted},
};

/// The tables that the queries read, with the columns that they mention.
pub(super) fn wanted(queries: &[&str]) -> Result<Vec<Wanted>> {
    let mut all: Vec<Wanted> = Vec::new();
    for query in queries {
        let words = Words::of(query);
        for table in extract_table_identifiers(query, false, true).map_err(sql_error)? {
            // Others are names that the query gives to a part of itself.
            let Some(table) = TableSpec::named(&table) else { continue };
            let more = columns(table, &words);
            match all.iter_mut().find(|wanted| wanted.table.table == table.table) {
                Some(wanted) => {
                    let has = |column: &&str| wanted.has(column) || more.has(column);
                    let names = table.columns.iter().map(|column| column.name);
                    wanted.columns = names.filter(has).collect();
                }
                None => all.push(more),
            }
        }
    }
    Ok(all)
}

fn columns(table: &'static TableSpec, words: &Words) -> Wanted {
    if words.everything {
        return Wanted::all(table);
    }
    let mut wanted = Wanted::all(table);
    wanted.columns.retain(|column| words.names.iter().any(|word| word == column));
    if wanted.columns.is_empty() {
        // To count rows, there have to be some; these are the narrowest.
        let narrowest = table.columns.iter().min_by_key(|column| column.data.width());
        wanted.columns.extend(narrowest.map(|column| column.name));
    }
    wanted
}

/// The words of a query.
struct Words {
    names: Vec<String>,
    /// Whether something stands for all columns.
    everything: bool,
}

impl Words {
    fn of(query: &str) -> Self {
        let mut words = Self { names: Vec::new(), everything: false };
        // What stands before a `*` tells a product from "all columns".
        let (mut before, mut before_that) = (String::new(), String::new());
        let mut rest = query;
        while let Some(first) = rest.chars().next() {
            let length = token(rest, first);
            let (token, after) = rest.split_at(length);
            rest = after;
            if first.is_whitespace() || token.starts_with("--") || token.starts_with("/*") {
                continue;
            }
            let token = match first {
                '"' | '`' => token.trim_matches(first).to_owned(),
                '\'' => "'".to_owned(),
                _ => token.to_lowercase(),
            };
            if token == "*" {
                let counts = before == "(" && before_that == "count";
                let is_operand = before == ")"
                    || before == "'"
                    || before.chars().all(|c| c.is_alphanumeric() || c == '_')
                        && !matches!(before.as_str(), "" | "select" | "distinct" | "all");
                words.everything |= !(counts || is_operand);
            }
            words.everything |= matches!(token.as_str(), "columns" | "natural" | "table");
            // What follows `DISTINCT ON (...)` is no product.
            words.everything |= before == "distinct" && token == "on";
            before_that = std::mem::replace(&mut before, token.clone());
            if first.is_alphabetic() || matches!(first, '_' | '"' | '`') {
                words.names.push(token);
            }
        }
        words
    }
}

/// Length of what begins here: a word, a quoted text, a comment, or one character.
fn token(rest: &str, first: char) -> usize {
    let until = |end: &str, from: usize| {
        rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len())
    };
    match first {
        '\'' | '"' | '`' => until(&first.to_string(), 1),
        '-' if rest.starts_with("--") => until("\n", 2),
        '/' if rest.starts_with("/*") => until("*/", 2),
        _ if first.is_alphanumeric() || first == '_' => {
            rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
        }
        _ => first.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(query: &str) -> Vec<(&'static str, Vec<&'static str>)> {
        let wanted = wanted(&[query]).unwrap();
        wanted.into_iter().map(|it| (it.table.name, it.columns)).collect()
    }

    #[test]
    fn only_columns_that_are_mentioned_are_loaded() {
        let query = "SELECT s.\"name\", sum(dur_ns) * 2 FROM spans s -- start_ns\n GROUP BY name";
        assert_eq!(needs(query), [("spans", vec!["name", "dur_ns"])]);
        assert_eq!(needs("SELECT count(*) FROM records"), [("records", vec!["depth"])]);
        assert_eq!(needs("SELECT 2 * id FROM tracks WHERE name = 'kind'").len(), 1);
    }

    #[test]
    fn a_star_and_whatever_is_like_it_loads_all_columns() {
        for query in [
            "SELECT * FROM tracks",
            "SELECT t.* FROM tracks t",
            "SELECT DISTINCT * FROM tracks",
            "SELECT DISTINCT ON (name) * FROM tracks",
        ] {
            assert_eq!(needs(query), [("tracks", vec!["trace", "id", "kind", "name", "os_id"])]);
        }
    }

    #[test]
    fn tables_inside_a_query_are_found_and_its_own_names_are_not_tables() {
        let query = "WITH worst AS (SELECT record FROM spans) SELECT f.key FROM fields f \
                     JOIN worst ON worst.record = f.record";
        let mut found = needs(query);
        found.sort();
        assert_eq!(found, [("fields", vec!["record", "key"]), ("spans", vec!["record"])]);
    }
}
