//! Real work of many kinds, recorded: something to try `analyze diff` on.
//!
//!     cargo run --release -p ringscope --example kernels -- run.trace
//!     cargo run --release -p ringscope --example kernels -- run.trace --slower softmax=15
//!
//! Every step calls sixteen kernels, from a few to some hundred microseconds: arithmetic,
//! memory, branches, text, maps and the allocator. `--slower` makes one of them do so
//! many percent more work.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt::Write,
    hint::black_box,
    process::ExitCode,
};

use ringscope::{Recorder, counter, gauge, span};

const STEPS: usize = 1_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernels: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (path, slower) = match &arguments[..] {
        [path] => (path, None),
        [path, option, slower] if option == "--slower" => (path, Some(Slower::parse(slower)?)),
        _ => return Err("give a trace to write: kernels run.trace [--slower softmax=15]".into()),
    };
    let mut work = Work::new(slower);
    let recorder = Recorder::builder().path(path).start()?;
    for step in 0..STEPS {
        work.step(step);
    }
    let summary = recorder.finish()?;
    eprintln!("{summary}");
    Ok(())
}

/// Which kernel does how much more.
struct Slower {
    kernel: String,
    percent: usize,
}

impl Slower {
    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let (kernel, percent) = text.split_once('=').ok_or("--slower: give softmax=15")?;
        if !KERNELS.contains(&kernel) {
            return Err(format!("--slower: no kernel {kernel:?}; {}", KERNELS.join(", ")).into());
        }
        Ok(Slower { kernel: kernel.to_owned(), percent: percent.parse()? })
    }
}

const KERNELS: [&str; 16] = [
    "matmul",
    "matvec",
    "softmax",
    "prefix_sum",
    "bodies",
    "mandelbrot",
    "collatz",
    "checksum",
    "histogram",
    "sort",
    "gather",
    "copy",
    "print",
    "parse",
    "lookup",
    "tree",
];

/// What the kernels work on.
struct Work {
    slower: Option<Slower>,
    seed: u64,
    floats: Vec<f32>,
    result: Vec<f32>,
    keys: Vec<u32>,
    sorted: Vec<u32>,
    bytes: Vec<u8>,
    copy: Vec<u8>,
    table: Vec<u32>,
    text: String,
    map: HashMap<u32, u32>,
}

impl Work {
    fn new(slower: Option<Slower>) -> Self {
        let mut seed = 1;
        let keys: Vec<u32> = (0..8_192).map(|_| random(&mut seed) as u32).collect();
        Work {
            slower,
            floats: (0..65_536).map(|at| (at % 251) as f32 / 251.0 + 0.1).collect(),
            result: vec![0.0; 65_536],
            sorted: keys.clone(),
            bytes: (0..1 << 20).map(|_| random(&mut seed) as u8).collect(),
            copy: vec![0; 1 << 20],
            // Larger than a cache of the second level, mostly not in it.
            table: (0..1 << 21).map(|_| random(&mut seed) as u32).collect(),
            text: String::new(),
            map: keys.iter().map(|&key| (key, key ^ 1)).collect(),
            keys,
            seed,
        }
    }

    /// How much a kernel does.
    fn amount(&self, kernel: &str, usual: usize) -> usize {
        match &self.slower {
            Some(slower) if slower.kernel == kernel => usual + usual * slower.percent / 100,
            _ => usual,
        }
    }

    fn step(&mut self, step: usize) {
        let _span = span!("step", number = step);
        {
            let _span = span!("arithmetic");
            self.matmul();
            self.matvec();
            self.softmax();
            self.prefix_sum();
            self.bodies();
            self.mandelbrot();
            self.collatz();
        }
        {
            let _span = span!("memory");
            self.checksum();
            self.histogram();
            self.sort();
            self.gather();
            self.copy();
        }
        let _span = span!("text and maps");
        self.print();
        self.parse();
        self.lookup();
        self.tree();
        counter!("steps", 1);
        gauge!("text bytes", self.text.len() as u64);
    }

    fn matmul(&mut self) {
        const N: usize = 48;
        let _span = span!("matmul");
        for row in 0..self.amount("matmul", N) {
            for column in 0..N {
                let sum: f32 =
                    (0..N).map(|k| self.floats[row * N + k] * self.floats[k * N + column]).sum();
                self.result[row * N + column] = sum;
            }
        }
    }

    fn matvec(&mut self) {
        const N: usize = 160;
        let _span = span!("matvec");
        for row in 0..self.amount("matvec", N) {
            let line = &self.floats[row * N..][..N];
            self.result[row] = line.iter().zip(&self.floats).map(|(a, b)| a * b).sum();
        }
    }

    fn softmax(&mut self) {
        let _span = span!("softmax");
        let n = self.amount("softmax", 4_000);
        let mut sum = 0.0;
        for (to, from) in self.result[..n].iter_mut().zip(&self.floats) {
            *to = from.exp();
            sum += *to;
        }
        self.result[..n].iter_mut().for_each(|it| *it /= sum);
    }

    fn prefix_sum(&mut self) {
        let _span = span!("prefix_sum");
        let mut sum = 0.0;
        for at in 0..self.amount("prefix_sum", 10_000) {
            sum += self.floats[at];
            self.result[at] = sum;
        }
    }

    fn bodies(&mut self) {
        const N: usize = 60;
        let _span = span!("bodies");
        for one in 0..self.amount("bodies", N) {
            let mut force = 0.0;
            for other in 0..N {
                let distance = self.floats[one] - self.floats[other + 64];
                force += distance / (distance * distance + 0.01).sqrt().powi(3);
            }
            self.result[one] = force;
        }
    }

    fn mandelbrot(&mut self) {
        let _span = span!("mandelbrot");
        for at in 0..self.amount("mandelbrot", 300) {
            // The same line over and over: points beyond it would be outside, and next to no work.
            let (a, b) = ((at * 7 % 300) as f32 / 150.0 - 1.6, 0.3);
            let (mut x, mut y, mut n) = (0.0_f32, 0.0_f32, 0);
            while x * x + y * y < 4.0 && n < 100 {
                (x, y) = (x * x - y * y + a, 2.0 * x * y + b);
                n += 1;
            }
            self.result[at] = n as f32;
        }
    }

    fn collatz(&mut self) {
        let _span = span!("collatz");
        let mut steps = 0;
        for from in 1..=self.amount("collatz", 300) as u64 {
            let mut n = from;
            while n != 1 {
                n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
                steps += 1;
            }
        }
        black_box(steps);
    }

    fn checksum(&mut self) {
        let _span = span!("checksum");
        let n = self.amount("checksum", 24_000);
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        black_box(self.bytes[..n].iter().fold(0xcbf2_9ce4_8422_2325, mix));
    }

    fn histogram(&mut self) {
        let _span = span!("histogram");
        let mut counts = [0_u32; 256];
        let n = self.amount("histogram", 40_000);
        self.bytes[..n].iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        black_box(counts);
    }

    fn sort(&mut self) {
        let _span = span!("sort");
        let n = self.amount("sort", 3_000);
        self.sorted[..n].copy_from_slice(&self.keys[..n]);
        self.sorted[..n].sort_unstable();
    }

    fn gather(&mut self) {
        let _span = span!("gather");
        let mut at = self.seed as u32;
        for _ in 0..self.amount("gather", 1_500) {
            at = self.table[at as usize & ((1 << 21) - 1)].wrapping_add(at);
        }
        self.seed = u64::from(at);
    }

    fn copy(&mut self) {
        let _span = span!("copy");
        let n = self.amount("copy", 700_000);
        self.copy[..n].copy_from_slice(&self.bytes[..n]);
        black_box(&self.copy);
    }

    fn print(&mut self) {
        let _span = span!("print");
        self.text.clear();
        for at in 0..self.amount("print", 500) {
            // Writing to a string does not fail.
            let _ = write!(self.text, "{} {:.3} ", self.keys[at], self.floats[at]);
        }
    }

    fn parse(&mut self) {
        let _span = span!("parse");
        let words = self.text.split_ascii_whitespace().take(self.amount("parse", 800));
        black_box(words.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>());
    }

    fn lookup(&mut self) {
        let _span = span!("lookup");
        let keys = &self.keys[..self.amount("lookup", 1_200)];
        black_box(keys.iter().filter_map(|key| self.map.get(key)).fold(0, |a, b| a ^ b));
    }

    /// The allocator's work, too.
    fn tree(&mut self) {
        let _span = span!("tree");
        let keys = &self.keys[..self.amount("tree", 700)];
        let tree: BTreeMap<u32, Box<u32>> = keys.iter().map(|&key| (key, Box::new(key))).collect();
        black_box(tree.len());
    }
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
