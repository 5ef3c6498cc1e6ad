//! The weights of a model as a tree: parts of a path are separated by dots or
//! slashes. Siblings that are numbers, such as `blocks.0` to `blocks.31`, are
//! one row. The paths are held.

use std::collections::{BTreeMap, BTreeSet};

use super::{View, is_host, text};
use crate::{
    Result,
    events::{Event, Key},
    output::{Cell, Column, Table},
    report::{spans::percent, vocabulary::view::Held},
};

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

pub(super) struct Weights<'a> {
    view: &'a View<'a>,
    path: Key,
    bytes: Key,
    dtype: Key,
    device: Key,
    /// By trace: all of them, and the bytes of those on the host.
    trees: BTreeMap<usize, (Node, f64)>,
    held: Held<'a>,
}

impl<'a> Weights<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let keys = ["path", "bytes", "dtype", "device"];
        let [path, bytes, dtype, device] = Key::all(&view.context.traces, keys);
        let held = view.held("weights");
        Self { view, path, bytes, dtype, device, trees: BTreeMap::new(), held }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if !event.has_fields() {
            return Ok(());
        }
        let path = event.text(self.path).unwrap_or("(no path)".into());
        let parts: Vec<&str> = path.split(['.', '/']).filter(|it| !it.is_empty()).collect();
        let bytes = event.number(self.bytes).unwrap_or(0.0);
        let dtype = event.text(self.dtype).unwrap_or_default();
        self.held.take(path.len() + dtype.len() + parts.len() * size_of::<Node>())?;
        let (tree, on_host) = self.trees.entry(event.trace).or_default();
        tree.add(&parts, bytes, &dtype);
        if is_host(event.label(self.device).as_deref()) {
            *on_host += bytes;
        }
        Ok(())
    }

    /// Bytes of those of a trace that are on the host.
    pub(super) fn on_host(&self, trace: usize) -> f64 {
        self.trees.get(&trace).map_or(0.0, |(_, on_host)| *on_host)
    }

    pub(super) fn table(self) -> Option<Table> {
        let columns = vec![
            Column::new("part", "part"),
            self.view.trace_column(),
            Column::hidden("depth", "depth"),
            Column::new("bytes", "bytes"),
            Column::new("bytes_percent", "%"),
            Column::new("tensors", "tensors"),
            Column::new("dtypes", "types"),
        ];
        let mut table = Table::new("weights", "Weights", columns);
        let mut trees: Vec<_> = self.trees.into_iter().collect();
        trees.sort_by_key(|(trace, _)| self.view.label(*trace));
        for (trace, (mut tree, _)) in trees {
            tree.collapse();
            let whole = tree.bytes;
            tree.rows("all", self.view.label(trace), 0, whole, &mut table);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}
