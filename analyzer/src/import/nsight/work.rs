//! Work of devices: a row for each kernel, graph, copy and fill.

use ringscope_format::{Kind, TrackKind};

use super::{
    super::{
        collector::Field,
        sqlite::{Cell, Table},
    },
    Nsight, process_of,
};

/// What each kind of copy is called, and where it goes.
const COPIES: [(i64, &str, &str); 10] = [
    (1, "Memcpy HtoD", "h2d"),
    (2, "Memcpy DtoH", "d2h"),
    (3, "Memcpy HtoA", "h2d"),
    (4, "Memcpy AtoH", "d2h"),
    (8, "Memcpy DtoD", "d2d"),
    (9, "Memcpy HtoH", "h2h"),
    (10, "Memcpy PtoP", "d2d"),
    (11, "Memcpy UVM HtoD", "h2d"),
    (12, "Memcpy UVM DtoH", "d2h"),
    (13, "Memcpy UVM DtoD", "d2d"),
];
/// The columns that say when and where work of a device was, in this order.
const WORK: [&str; 6] = ["start", "end", "globalPid", "deviceId", "streamId", "correlationId"];

/// One row of work.
struct Work {
    kind: Kind,
    /// Start and end.
    times: (Option<i64>, Option<i64>),
    process: Option<i64>,
    device: i64,
    stream: i64,
    correlation: Option<i64>,
}

impl Work {
    fn of(kind: Kind, cells: &[Cell<'_>]) -> Self {
        let int = |at: usize| cells[at].int();
        Self {
            kind,
            times: (int(0), int(1)),
            process: int(2),
            device: int(3).unwrap_or(0),
            stream: int(4).unwrap_or(0),
            correlation: int(5),
        }
    }
}

impl Nsight<'_> {
    pub(super) fn kernels(&mut self, table: &Table) -> Result<(), String> {
        let [a, b, c, d, e, f] = WORK;
        let columns = [
            a,
            b,
            c,
            d,
            e,
            f,
            "demangledName",
            "shortName",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "registersPerThread",
            "staticSharedMemory",
            "dynamicSharedMemory",
        ];
        self.database.rows(table, columns, |cells| {
            let work = Work::of(Kind::KERNEL, &cells);
            let [.., long, short, gx, gy, gz, bx, by, bz, registers, fixed, dynamic] =
                cells.map(|cell| cell.int());
            let mut fields = Vec::new();
            for (key, sides) in [("grid", [gx, gy, gz]), ("block", [bx, by, bz])] {
                let sides = sides.map(|side| side.unwrap_or(1).to_string());
                fields.push(self.found.text_field(key, &sides.join("x")));
            }
            if let Some(registers) = registers {
                fields.push(self.number("registers", registers));
            }
            let shared = fixed.unwrap_or(0).saturating_add(dynamic.unwrap_or(0));
            fields.push(self.number("shared_memory", shared));
            let name = long.or(short).and_then(|id| self.texts.get(&id).copied());
            self.work(&work, name, &fields);
        })
    }

    /// Graphs that were recorded as one piece of work.
    pub(super) fn graphs(&mut self, table: &Table) -> Result<(), String> {
        let [a, b, c, d, e, f] = WORK;
        self.database.rows(table, [a, b, c, d, e, f, "graphId"], |cells| {
            let work = Work::of(Kind::KERNEL, &cells);
            let graph = cells[6].int().unwrap_or(0);
            let name = self.found.strings.number(&format!("CUDA graph {graph}"));
            self.work(&work, Some(name), &[]);
        })
    }

    /// Copies and fills.
    pub(super) fn transfers(&mut self, table: &Table, kind: Kind) -> Result<(), String> {
        let [a, b, c, d, e, f] = WORK;
        self.database.rows(table, [a, b, c, d, e, f, "bytes", "copyKind"], |cells| {
            let work = Work::of(kind, &cells);
            let (bytes, copy) = (cells[6].int(), cells[7].int());
            let mut fields = Vec::new();
            if let Some(bytes) = bytes {
                fields.push(self.number("bytes", bytes));
            }
            let known = COPIES.iter().find(|it| kind == Kind::COPY && Some(it.0) == copy);
            if let Some((_, _, direction)) = known {
                fields.push(self.found.text_field("direction", direction));
            }
            let plain = if kind == Kind::COPY { "Memcpy" } else { "Memset" };
            let name = self.found.strings.number(known.map_or(plain, |it| it.1));
            self.work(&work, Some(name), &fields);
        })
    }

    fn work(&mut self, work: &Work, name: Option<u32>, more: &[Field]) {
        let mut fields =
            vec![self.number("device", work.device), self.number("stream", work.stream)];
        fields.extend_from_slice(more);
        let queue = (process_of(work.process), work.device, work.stream);
        let Self { found, queues, .. } = self;
        let track = *queues
            .entry(queue)
            .or_insert_with(|| found.track(TrackKind::GpuQueue, work.stream.max(0) as u64, ""));
        let link = self.link(work.process, work.correlation);
        self.push(work.kind, name, track, work.times, link, &fields);
    }
}
