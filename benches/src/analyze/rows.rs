//! Whether two programs gave the same answer.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::{generate, polars};

/// Sums of floating-point numbers depend on their order, and Polars sums so.
const TOLERANCE: f64 = 1e-9;
/// Differences that are worth printing.
const SHOWN: usize = 5;

type Rows = BTreeMap<String, Map<String, Value>>;

/// What differs between the output of `analyze` and that of the peer.
pub(crate) fn differences(ours: &str, theirs: &str) -> Result<Vec<String>> {
    let document: Value = serde_json::from_str(ours).context("output of analyze")?;
    let ours = rows(&document["rows"], |name| name.as_str().map(str::to_owned))?;
    let theirs =
        rows(&polars::answer(theirs)?.rows, |id| Some(generate::name(id.as_f64()? as usize - 1)))?;
    let mut differences = Vec::new();
    if !ours.keys().eq(theirs.keys()) {
        differences.push(format!("{} names here, {} there", ours.len(), theirs.len()));
    }
    for (name, their) in &theirs {
        let Some(our) = ours.get(name) else { continue };
        for (key, their) in their.iter().filter(|(key, _)| *key != "name") {
            let number = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or(f64::NAN);
            let (our, their) = (number(our.get(key)), number(Some(their)));
            let is_same = (our - their).abs() <= TOLERANCE * their.abs();
            if !is_same && differences.len() < SHOWN {
                differences.push(format!("{name}: {key} is {our} here, {their} there"));
            }
        }
    }
    Ok(differences)
}

fn rows(array: &Value, name: impl Fn(&Value) -> Option<String>) -> Result<Rows> {
    let mut rows = Rows::new();
    for row in array.as_array().context("no rows")? {
        let row = row.as_object().context("a row that is none")?;
        let name = row.get("name").and_then(&name).context("a row without a name")?;
        rows.insert(name, row.clone());
    }
    Ok(rows)
}
