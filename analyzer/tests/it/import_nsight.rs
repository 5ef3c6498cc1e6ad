//! Exports of Nsight Systems, made here page by page.

use std::fs;

use tempfile::tempdir;

use crate::analyze::{Run, analyze};

const PAGE: usize = 4_096;

/// A value in a row.
enum Cell {
    Null,
    Int(i64),
    Text(String),
}
use Cell::{Int, Null};

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = vec![value as u8 & 0x7F];
    let mut rest = value >> 7;
    while rest > 0 {
        bytes.insert(0, rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes
}

/// An SQLite file of tables, two rows to a leaf, long rows on pages of their own.
#[derive(Default)]
struct Made {
    pages: Vec<Vec<u8>>,
    schema: Vec<Vec<Cell>>,
}

impl Made {
    fn table(&mut self, sql: &str, rows: &[Vec<Cell>]) {
        let name = sql.split_whitespace().nth(2).unwrap();
        let mut leaves = Vec::new();
        for (at, pair) in rows.chunks(2).enumerate() {
            let first = at as u64 * 2 + 1;
            let cells: Vec<Vec<u8>> =
                pair.iter().zip(first..).map(|(row, id)| self.cell(id, row)).collect();
            leaves.push(self.add(page(0x0D, 0, None, &cells)));
        }
        let root = match &leaves[..] {
            [] => self.add(page(0x0D, 0, None, &[])),
            [only] => *only,
            [rest @ .., last] => {
                let cell = |(at, leaf): (usize, &u32)| {
                    [&leaf.to_be_bytes()[..], &varint(at as u64 * 2 + 2)].concat()
                };
                let cells: Vec<Vec<u8>> = rest.iter().enumerate().map(cell).collect();
                self.add(page(0x05, 0, Some(*last), &cells))
            }
        };
        let root = Int(root.into());
        self.schema.push(vec![text("table"), text(name), text(name), root, text(sql)]);
    }

    /// Pages count from 1, and the first is the schema's.
    fn add(&mut self, page: Vec<u8>) -> u32 {
        self.pages.push(page);
        self.pages.len() as u32 + 1
    }

    fn cell(&mut self, id: u64, row: &[Cell]) -> Vec<u8> {
        let (mut types, mut content) = (Vec::new(), Vec::new());
        for cell in row {
            match cell {
                Null => types.push(0),
                Int(n) => {
                    types.push(6);
                    content.extend_from_slice(&n.to_be_bytes());
                }
                Cell::Text(text) => {
                    types.extend(varint(text.len() as u64 * 2 + 13));
                    content.extend_from_slice(text.as_bytes());
                }
            }
        }
        let payload = [varint(types.len() as u64 + 1), types, content].concat();
        let head = [varint(payload.len() as u64), varint(id)].concat();
        let (most, least) = (PAGE - 35, (PAGE - 12) * 32 / 255 - 23);
        if payload.len() <= most {
            return [head, payload].concat();
        }
        let tail = least + (payload.len() - least) % (PAGE - 4);
        let local = if tail <= most { tail } else { least };
        let mut next = 0_u32;
        for piece in payload[local..].chunks(PAGE - 4).rev() {
            let mut page = [&next.to_be_bytes()[..], piece].concat();
            page.resize(PAGE, 0);
            next = self.add(page);
        }
        [&head[..], &payload[..local], &next.to_be_bytes()].concat()
    }

    fn finish(mut self) -> Vec<u8> {
        let schema = std::mem::take(&mut self.schema);
        let cells: Vec<Vec<u8>> =
            schema.iter().zip(1..).map(|(row, id)| self.cell(id, row)).collect();
        let mut first = page(0x0D, 100, None, &cells);
        first[..16].copy_from_slice(b"SQLite format 3\0");
        first[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
        first[56..60].copy_from_slice(&[0, 0, 0, 1]);
        self.pages.insert(0, first);
        self.pages.concat()
    }
}

/// A page of a tree, with its header at `head`.
fn page(kind: u8, head: usize, right: Option<u32>, cells: &[Vec<u8>]) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[head] = kind;
    page[head + 3..head + 5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
    let mut pointer = head + 8;
    if let Some(right) = right {
        page[head + 8..head + 12].copy_from_slice(&right.to_be_bytes());
        pointer += 4;
    }
    let mut end = PAGE;
    for cell in cells {
        end -= cell.len();
        page[end..end + cell.len()].copy_from_slice(cell);
        page[pointer..pointer + 2].copy_from_slice(&(end as u16).to_be_bytes());
        pointer += 2;
    }
    page
}

/// Three kernels, a copy, their calls, a range and a thread's name.
fn export() -> Vec<u8> {
    let mut made = Made::default();
    let long = format!("void huge<{}>()", "int, ".repeat(3_000));
    made.table(
        "CREATE TABLE StringIds (\n id INTEGER NOT NULL PRIMARY KEY, -- a number,\n value TEXT NOT NULL)",
        &[
            vec![Null, text("gemm")],
            vec![Null, text("cudaLaunchKernel")],
            vec![Null, Cell::Text(long)],
            vec![Null, text("worker")],
            vec![Null, text("forward")],
        ],
    );
    let process = 5_i64 << 24;
    let kernel = |start: i64, end: i64, name: i64, correlation: i64| {
        let ids = [start, end, 1, 7, correlation, process, name];
        ids.into_iter().chain([64, 2, 1]).map(Int).collect::<Vec<Cell>>()
    };
    made.table(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, \
         streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX INTEGER, \
         gridY INTEGER, gridZ INTEGER, addedLater INTEGER)",
        &[kernel(1_000, 1_500, 1, 11), kernel(2_000, 2_250, 1, 12), kernel(3_000, 3_100, 3, 13)],
    );
    made.table(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, \
         bytes INTEGER, copyKind INTEGER)",
        &[[4_000, 4_010, 1, 7, 4_096, 1].map(Int).into()],
    );
    let call = |start: i64, correlation: i64| {
        [start, start + 10, process | 6, correlation, 2].map(Int).into_iter().collect()
    };
    made.table(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, \
         correlationId INTEGER, nameId INTEGER)",
        &[call(900, 11), call(920, 12)],
    );
    made.table(
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER)",
        &[
            vec![Int(890), Int(990), Int(59), Null, Int(5), Int(process | 6)],
            vec![Int(900), Null, Int(34), text("mark"), Null, Int(process | 6)],
        ],
    );
    made.table("CREATE TABLE SCHED_EVENTS (start INTEGER)", &[vec![Int(1)], vec![Int(2)]]);
    made.table(
        "CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER)",
        &[vec![Int(4), Int(process | 6)]],
    );
    made.table(
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)",
        &[vec![Int(1_696_392_839_587_175_550)]],
    );
    made.finish()
}

fn ask(content: &[u8], arguments: &[&str]) -> Run {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run"), content).unwrap();
    let arguments: Vec<&str> = arguments.iter().copied().chain(["run"]).collect();
    let run = analyze(dir.path(), &arguments);
    assert!(run.code == 0 || run.code == 2, "{}: {}", run.code, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

#[test]
fn an_export_of_nsight_systems_is_a_trace() {
    let run = ask(&export(), &["kernels", "--format", "json"]);
    assert_eq!(
        run.stderr,
        "analyze: run: 8 events converted from Nsight Systems\n\
         analyze: run: not taken as it stands: 1 names longer than 1,024 bytes (cut); 2 rows of SCHED_EVENTS\n"
    );
    let json = run.json();
    let rows: Vec<String> = json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let name: String = row["name"].as_str().unwrap().chars().take(12).collect();
            let (total, delay, bytes) =
                (&row["total_ns"], &row["queue_delay_mean_ns"], &row["bytes"]);
            format!("{name} {} {total} {delay} {bytes} {}", row["count"], row["device"])
        })
        .collect();
    assert_eq!(
        rows,
        [
            "gemm 2 750 590 null [\"1\"]",
            "void huge<in 1 100 null null [\"1\"]",
            "Memcpy HtoD 1 10 null 4096 [\"1\"]",
        ]
    );
    let tree =
        ask(&export(), &["tree", "--format", "csv", "--columns", "path,count,total_ns,self_ns"]);
    assert!(tree.stdout.contains("cudaLaunchKernel"), "{}", tree.stdout);
    let threads = ask(&export(), &["threads", "--format", "csv", "--columns", "track"]);
    assert!(threads.stdout.contains("worker"), "{}", threads.stdout);
    assert!(ask(&export(), &["info"]).stdout.contains("2023-10-04 04:13:59"));
}

#[test]
fn a_database_of_somebody_else_is_refused() {
    let mut made = Made::default();
    made.table("CREATE TABLE Bookmarks (name TEXT)", &[vec![text("home")]]);
    assert_eq!(
        ask(&made.finish(), &["kernels"]).refusal(),
        "analyze: run: an SQLite database, but none of Nsight Systems with CUDA or NVTX in it; \
         give what `nsys export --type sqlite` writes\n"
    );
}

#[test]
fn a_database_that_is_cut_or_flipped_ends_with_an_answer_or_a_message() {
    let whole = export();
    for length in (0..whole.len()).step_by(509) {
        ask(&whole[..length], &["kernels"]);
    }
    // Bytes that say something: headers, pointers, lengths; the rest is mostly zeros.
    let speaking = (0..whole.len()).filter(|&at| whole[at] != 0 && whole[at] != b',').step_by(23);
    for at in speaking.take(250) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xFF;
        ask(&bytes, &["kernels"]);
    }
}
