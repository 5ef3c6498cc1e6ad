//! The weights of a model as a tree: parts of a path are separated by dots or
//! slashes. Siblings that are numbers, such as `blocks.0` to `blocks.31`, are
//! one row.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Asking, host::is_host, text};
use crate::{
    Result,
    output::{Cell, Column, Table},
    report::spans::percent,
};

pub(super) const WEIGHTS: &str = "\
SELECT r.trace, f.path, f.bytes, f.dtype, f.device
FROM records r
JOIN (SELECT record,
        MAX(CASE WHEN key = 'path' THEN text END) AS path,
        MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes,
        MAX(CASE WHEN key = 'dtype' THEN text END) AS dtype,
        MAX(CASE WHEN key = 'device' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS device
      FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name = 'memory.weights'
ORDER BY f.path";

/// Siblings with numbers for names are one row from so many on.
const MANY: usize = 3;

#[derive(Default)]
struct Node {
    bytes: f64,
    tensors: u64,
    dtypes: BTreeSet<String>,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, path: &[&str], bytes: f64, dtype: &str) {
        self.bytes += bytes;
        self.tensors += 1;
        if !dtype.is_empty() {
            self.dtypes.insert(dtype.to_owned());
        }
        if let Some((first, rest)) = path.split_first() {
            self.children.entry((*first).to_owned()).or_default().add(rest, bytes, dtype);
        }
    }

    fn merge(&mut self, other: Node) {
        self.bytes += other.bytes;
        self.tensors += other.tensors;
        self.dtypes.extend(other.dtypes);
        for (name, child) in other.children {
            self.children.entry(name).or_default().merge(child);
        }
    }

    /// Makes one node of children that are numbers.
    fn collapse(&mut self) {
        let numbers: Vec<u64> = self.children.keys().filter_map(|key| key.parse().ok()).collect();
        if numbers.len() >= MANY {
            let mut one = Node::default();
            let (least, most) = (numbers.iter().min(), numbers.iter().max());
            let name =
                format!("{}..{} ({})", least.unwrap_or(&0), most.unwrap_or(&0), numbers.len());
            let (numbered, rest) = std::mem::take(&mut self.children)
                .into_iter()
                .partition::<BTreeMap<_, _>, _>(|(key, _)| key.parse::<u64>().is_ok());
            numbered.into_values().for_each(|node| one.merge(node));
            self.children = rest;
            self.children.insert(name, one);
        }
        self.children.values_mut().for_each(Node::collapse);
    }

    fn rows(&self, name: &str, trace: &str, depth: usize, whole: f64, table: &mut Table) {
        let dtypes: Vec<&str> = self.dtypes.iter().map(String::as_str).collect();
        table.rows.push(vec![
            Cell::from(format!("{}{name}", "  ".repeat(depth))),
            Cell::from(trace),
            Cell::Count(depth as u64),
            Cell::Bytes(self.bytes),
            percent(self.bytes, whole),
            Cell::Count(self.tensors),
            text(Some(&dtypes.join(", "))),
        ]);
        let mut children: Vec<(&String, &Node)> = self.children.iter().collect();
        children.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes).then(a.0.cmp(b.0)));
        for (name, child) in children {
            child.rows(name, trace, depth + 1, whole, table);
        }
    }
}

/// The tree, and the bytes on the host by trace.
pub(super) fn table(asking: &Asking<'_>) -> Result<(Option<Table>, HashMap<String, f64>)> {
    let answer = asking.ask(WEIGHTS)?;
    let (traces, paths) = (answer.texts("trace")?, answer.texts("path")?);
    let (dtypes, devices) = (answer.texts("dtype")?, answer.texts("device")?);
    let bytes = answer.numbers("bytes")?;
    let mut trees: BTreeMap<&str, Node> = BTreeMap::new();
    let mut on_host: HashMap<String, f64> = HashMap::new();
    for at in 0..answer.rows() {
        let trace = traces[at].unwrap_or_default();
        let path: Vec<&str> = paths[at]
            .unwrap_or("(no path)")
            .split(['.', '/'])
            .filter(|it| !it.is_empty())
            .collect();
        let bytes = bytes[at].unwrap_or(0.0);
        trees.entry(trace).or_default().add(&path, bytes, dtypes[at].unwrap_or_default());
        if is_host(devices[at]) {
            *on_host.entry(trace.to_owned()).or_default() += bytes;
        }
    }
    let columns = vec![
        Column::new("part", "part"),
        asking.trace_column(),
        Column::hidden("depth", "depth"),
        Column::new("bytes", "bytes"),
        Column::new("bytes_percent", "%"),
        Column::new("tensors", "tensors"),
        Column::new("dtypes", "types"),
    ];
    let mut table = Table::new("weights", "Weights", columns);
    for (trace, mut tree) in trees {
        tree.collapse();
        let whole = tree.bytes;
        tree.rows("all", trace, 0, whole, &mut table);
    }
    Ok(((!table.rows.is_empty()).then_some(table), on_host))
}
