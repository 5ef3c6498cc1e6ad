//! Reports over vocabularies against naive accounts of the same events.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use ringscope_format::{Kind, Status, Value};

use crate::made::Made;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn outstanding_and_peak_are_those_of_a_naive_account(
        steps in prop::collection::vec((0..3_usize, 0..12_u64, 0..1_000_u64, any::<bool>()), 1..200),
    ) {
        let kinds = ["tensor", "scratch", "cache"];
        let mut made = Made::new();
        let mut live: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        // Outstanding, peak, allocations, releases.
        let mut naive = [(0, 0, 0, 0); 3];
        for (at, (kind, slot, bytes, release)) in steps.into_iter().enumerate() {
            let id = ("id", Value::U64(slot * 3 + kind as u64));
            let account = &mut naive[kind];
            match live.remove(&(kind, slot)) {
                Some(bytes) if release => {
                    made.event("memory.release", at as u64, &[id]);
                    account.0 -= bytes;
                    account.3 += 1;
                }
                Some(bytes) => {
                    live.insert((kind, slot), bytes);
                }
                None => {
                    let fields =
                        [id, ("bytes", Value::U64(bytes)), ("kind", Value::Text(kinds[kind]))];
                    made.event("memory.allocate", at as u64, &fields);
                    live.insert((kind, slot), bytes);
                    account.0 += bytes;
                    account.1 = account.1.max(account.0);
                    account.2 += 1;
                }
            }
        }
        let json = made.finish().json(&["memory"]);
        let rows = json["rows"].as_array().unwrap();
        prop_assert_eq!(rows.len(), naive.iter().filter(|account| account.2 > 0).count());
        for row in rows {
            let kind = kinds.iter().position(|kind| row["kind"] == *kind).unwrap();
            let figures = ["outstanding_bytes", "peak_bytes", "allocations", "releases"]
                .map(|key| row[key].as_u64().unwrap());
            let (outstanding, peak, allocations, releases) = naive[kind];
            prop_assert_eq!(figures, [outstanding, peak, allocations, releases]);
        }
    }

    #[test]
    fn counters_and_errors_are_those_of_a_naive_count(
        points in prop::collection::vec((0..3_u64, any::<bool>(), 0..1_000_u64), 1..200),
    ) {
        let mut made = Made::new();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        for (at, (name, is_error, value)) in points.into_iter().enumerate() {
            let name = format!("point {name}");
            if is_error {
                made.reading(Kind::ERROR, &name, at as u64, value);
                *errors.entry(name).or_default() += 1;
            } else {
                made.reading(Kind::COUNTER, &name, at as u64, value);
                *sums.entry(name).or_default() += value;
            }
        }
        let trace = made.finish();
        let figures = |report: &str, key: &str| -> BTreeMap<String, u64> {
            let json = trace.json(&[report]);
            let row = |row: &serde_json::Value| {
                (row["name"].as_str().unwrap().to_owned(), row[key].as_u64().unwrap())
            };
            json["rows"].as_array().unwrap().iter().map(row).collect()
        };
        prop_assert_eq!(figures("counters", "sum"), sums);
        prop_assert_eq!(figures("errors", "count"), errors);
    }

    #[test]
    fn calls_and_bytes_moved_are_those_of_a_naive_account(
        calls in prop::collection::vec((0..3_u64, any::<bool>(), 1..1_000_u64, 0..500_u64, 0..500_u64), 1..60),
    ) {
        let mut made = Made::new();
        // Count, errors, total, longest, queue, run.
        let mut naive: BTreeMap<String, [u64; 6]> = BTreeMap::new();
        let (mut bytes_moved, mut total) = (0, 0);
        for (at, (function, failed, length, queue, run)) in calls.into_iter().enumerate() {
            let function = format!("f{function}");
            let fields = [
                ("function", Value::Text(&function)),
                ("queue", Value::Ticks(queue)),
                ("run", Value::Ticks(run)),
            ];
            let status = if failed { Status::ERROR } else { Status::OK };
            made.span("call", at as u64 * 1_000, length, status, &fields);
            let bytes = [("bytes", Value::U64(queue))];
            made.span("checkpoint", at as u64 * 1_000, length, Status::OK, &bytes);
            let sum = naive.entry(function).or_default();
            let add = [1, u64::from(failed), length, 0, queue, run];
            sum.iter_mut().zip(add).for_each(|(sum, more)| *sum += more);
            sum[3] = sum[3].max(length);
            bytes_moved += queue;
            total += length;
        }
        let trace = made.finish();
        let keys = ["count", "errors", "total_ns", "max_ns", "queue_ns", "run_ns"];
        prop_assert_eq!(figures(&trace.json(&["calls"])["rows"], "function", keys), naive);
        let moved = &trace.json(&["memory"])["rows"];
        let moved = figures(moved, "name", ["bytes", "total_ns"]);
        prop_assert_eq!(moved, BTreeMap::from([("checkpoint".to_owned(), [bytes_moved, total])]));
    }

    #[test]
    fn caches_and_pools_are_those_of_a_naive_account(
        events in prop::collection::vec((0..3_u64, 0..5_u64, 0..1_000_u64), 1..80),
    ) {
        let mut made = Made::new();
        let mut caches: BTreeMap<String, [u64; 3]> = BTreeMap::new();
        let mut pools: BTreeMap<String, [u64; 5]> = BTreeMap::new();
        for (at, (which, what, number)) in events.into_iter().enumerate() {
            let (name, at) = (format!("n{which}"), at as u64);
            let (cache, pool) = (("cache", Value::Text(&name)), ("pool", Value::Text(&name)));
            match what {
                0 => made.event("cache.hit", at, &[cache]),
                1 => made.event("cache.access", at, &[cache, ("hit", Value::Bool(number % 2 == 0))]),
                2 => made.event("cache.miss", at, &[cache]),
                3 => made.event("pool.checkout", at, &[pool, ("queue", Value::Ticks(number))]),
                _ => made.event("pool.checkin", at, &[pool, ("busy", Value::Ticks(number))]),
            }
            if what < 3 {
                let hit = u64::from(what == 0 || (what == 1 && number % 2 == 0));
                let sum = caches.entry(name).or_default();
                sum.iter_mut().zip([1, hit, 1 - hit]).for_each(|(sum, more)| *sum += more);
            } else {
                let sum = pools.entry(name).or_default();
                let is_out = u64::from(what == 3);
                let add = [is_out, 1 - is_out, (1 - is_out) * number];
                sum.iter_mut().zip(add).for_each(|(sum, more)| *sum += more);
                sum[3] = sum[3].max(is_out * number);
                sum[4] += is_out * number;
            }
        }
        let trace = made.finish();
        let found = trace.json(&["caches"]);
        prop_assert_eq!(figures(&found["rows"], "cache", ["accesses", "hits", "misses"]), caches);
        let found = trace.json(&["pool"]);
        let keys = ["checkouts", "checkins", "busy_ns", "wait_max_ns"];
        let found_pools = figures(&found["rows"], "pool", keys);
        let naive = pools.iter().map(|(name, sum)| (name.clone(), [sum[0], sum[1], sum[2], sum[3]]));
        prop_assert_eq!(found_pools, naive.collect::<BTreeMap<_, _>>());
        for row in found["rows"].as_array().into_iter().flatten().filter(|row| row["checkouts"] != 0) {
            let sum = &pools[row["pool"].as_str().unwrap()];
            let mean = row["wait_mean_ns"].as_f64().unwrap();
            prop_assert!((mean - sum[4] as f64 / sum[0] as f64).abs() < 1e-6, "{}", row);
        }
    }

    #[test]
    fn training_is_that_of_a_naive_account(
        steps in prop::collection::vec((1..1_000_u64, 0..500_u64, -1_000..1_000_i32), 1..60),
    ) {
        let mut made = Made::new();
        for (at, &(length, tokens, loss)) in steps.iter().enumerate() {
            let fields = [
                ("step", Value::U64(at as u64)),
                ("epoch", Value::U64(at as u64 / 20)),
                ("tokens", Value::U64(tokens)),
                ("loss", Value::F64(f64::from(loss))),
            ];
            made.span("training.step", at as u64 * 1_000, length, Status::OK, &fields);
        }
        let found = made.finish().json(&["training"]);
        // All of it, then each epoch if there are several.
        let by_epoch = found["sections"]["epochs"].as_array().cloned().unwrap_or_default();
        let rows = found["rows"].as_array().unwrap().iter().chain(&by_epoch);
        let epochs = steps.chunks(20).filter(|_| steps.len() > 20);
        let parts: Vec<_> = std::iter::once(&steps[..]).chain(epochs).collect();
        prop_assert_eq!(rows.clone().count(), parts.len());
        for (row, epoch) in rows.zip(parts) {
            let number = |key: &str| row[key].as_f64().unwrap();
            let losses = || epoch.iter().map(|step| f64::from(step.2));
            let length: u64 = epoch.iter().map(|step| step.0).sum();
            prop_assert_eq!(number("steps"), epoch.len() as f64);
            prop_assert_eq!(number("tokens"), epoch.iter().map(|step| step.1).sum::<u64>() as f64);
            prop_assert_eq!(number("loss_first"), f64::from(epoch[0].2));
            prop_assert_eq!(number("loss_last"), f64::from(epoch[epoch.len() - 1].2));
            prop_assert_eq!(number("loss_min"), losses().fold(f64::INFINITY, f64::min));
            let mean = length as f64 / epoch.len() as f64;
            prop_assert!((number("step_mean_ns") - mean).abs() < 1e-6, "{}", row);
        }
    }

    #[test]
    fn weights_and_host_memory_are_those_of_a_naive_account(
        tensors in prop::collection::vec((0..5_u64, 0..3_usize, 0..2_usize, 0..1_000_u64), 1..40),
        resident in prop::collection::vec(0..100_000_u64, 1..20),
        allocated in prop::collection::vec((0..3_usize, 0..1_000_u64), 0..20),
    ) {
        let (layers, devices) = (["attn", "mlp", "norm"], ["cpu", "gpu 0"]);
        let mut made = Made::new();
        for &(block, layer, device, bytes) in &tensors {
            let path = format!("blocks.{block}/{}", layers[layer]);
            let fields = [
                ("path", Value::Text(&path)),
                ("bytes", Value::U64(bytes)),
                ("device", Value::Text(devices[device])),
            ];
            made.event("memory.weights", 0, &fields);
        }
        for (at, &(device, bytes)) in allocated.iter().enumerate() {
            let device = devices.get(device).map(|&device| ("device", Value::Text(device)));
            let fields = [("id", Value::U64(at as u64)), ("bytes", Value::U64(bytes))];
            let fields: Vec<_> = fields.into_iter().chain(device).collect();
            made.event("memory.allocate", 1, &fields);
        }
        for (at, &bytes) in resident.iter().enumerate() {
            made.reading(Kind::GAUGE, "process.resident_bytes", 2 + at as u64, bytes);
        }
        let found = made.finish().json(&["memory"]);

        // Three blocks or more are one row.
        let blocks: BTreeSet<u64> = tensors.iter().map(|tensor| tensor.0).collect();
        let (first, last) = (blocks.first().unwrap(), blocks.last().unwrap());
        let one = (blocks.len() >= 3).then(|| format!("{first}..{last} ({})", blocks.len()));
        let mut naive: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
        for &(block, layer, _, bytes) in &tensors {
            let block = one.clone().unwrap_or_else(|| block.to_string());
            let path = ["all", "blocks", &block, layers[layer]].map(str::to_owned);
            for depth in 1..=path.len() {
                let part = naive.entry(path[..depth].to_vec()).or_default();
                *part = (part.0 + bytes, part.1 + 1);
            }
        }
        let mut above: Vec<String> = Vec::new();
        let mut weights = BTreeMap::new();
        for row in found["sections"]["weights"].as_array().unwrap() {
            above.truncate(row["depth"].as_u64().unwrap() as usize);
            above.push(row["part"].as_str().unwrap().trim_start().to_owned());
            let figures = ["bytes", "tensors"].map(|key| row[key].as_u64().unwrap());
            weights.insert(above.clone(), figures.into());
        }
        prop_assert_eq!(weights, naive);

        let on_host = |device: usize| device != 1;
        let outstanding = allocated.iter().filter(|it| on_host(it.0)).map(|it| it.1);
        let of_weights = tensors.iter().filter(|it| on_host(it.2)).map(|it| it.3);
        let accounted = outstanding.chain(of_weights).sum::<u64>() as i64;
        let growth = resident[resident.len() - 1] as i64 - resident[0] as i64;
        let keys = ["baseline_bytes", "last_bytes", "peak_bytes", "growth_bytes", "accounted_bytes",
                    "unaccounted_bytes"];
        let host = keys.map(|key| found["sections"]["host"][0][key].as_i64().unwrap());
        prop_assert_eq!(host, [
            resident[0] as i64,
            resident[resident.len() - 1] as i64,
            *resident.iter().max().unwrap() as i64,
            growth,
            accounted,
            (growth - accounted).max(0),
        ]);
    }
}

/// Whole numbers of each row, by its name; null counts as 0.
fn figures<const N: usize>(
    rows: &serde_json::Value,
    name: &str,
    keys: [&str; N],
) -> BTreeMap<String, [u64; N]> {
    let row = |row: &serde_json::Value| {
        let numbers = keys.map(|key| row[key].as_u64().unwrap_or(0));
        (row[name].as_str().unwrap().to_owned(), numbers)
    };
    rows.as_array().into_iter().flatten().map(row).collect()
}

#[test]
fn numbers_that_are_no_whole_ones_of_64_bits_stop_no_report() {
    let mut made = Made::new();
    let far = |key| (key, Value::U64(u64::MAX));
    made.event("training.step", 1, &[("loss", Value::F64(f64::NAN)), ("step", Value::U64(1))]);
    made.event("memory.allocate", 2, &[far("id"), ("bytes", Value::U64(64)), far("device")]);
    made.event("memory.release", 3, &[far("id"), far("device")]);
    made.event("memory.weights", 4, &[("path", Value::Text("a")), far("bytes"), far("device")]);
    made.event("pool.checkout", 5, &[far("pool"), ("queue", Value::F64(f64::INFINITY))]);
    made.event("cache.hit", 6, &[far("cache"), ("bytes", Value::F64(f64::NEG_INFINITY))]);
    made.span("call", 7, 5, Status::ERROR, &[far("function"), far("kind")]);
    made.reading(Kind::GAUGE, "pool.depth", 8, u64::MAX);
    let made = made.finish();
    for report in ["report", "memory", "counters", "errors", "calls", "pool", "training", "caches"]
    {
        for format in ["table", "json"] {
            let said = made.output(&[report, "--format", format]);
            assert!(!said.is_empty(), "{report}");
        }
    }
    let memory = made.json(&["memory"]);
    assert_eq!(memory["rows"][0]["outstanding_bytes"], 0, "its release was found: {memory}");
}
