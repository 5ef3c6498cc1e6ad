//! `kernels` as people and machines get to see it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use ringscope_format::{Kind, Value};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::device_traces::Made;

/// Two queues of one device, a copy and a fill, a kernel without a launch, one
/// that takes no time, and a host's own copy, which is nobody's kernel.
fn small(folder: &TempDir, file: &str) -> PathBuf {
    let mut made = Made::new(folder, file);
    let gemm = "void lib::gemm_kernel<float, 128>(float*, int)";
    made.host(Kind::COPY, "host copy", (0, 5_000), 0);
    for (at, (start, length)) in [(1_000, 400), (2_000, 400), (4_000, 1_200)].iter().enumerate() {
        let link = at as u32 + 1;
        let blocks = Value::U64([10, 10, 20][at]);
        made.launch([900, 1_300, 3_000][at], link);
        let fields = [("grid_x", blocks), ("block_x", Value::U64(128))];
        made.work(Kind::KERNEL, gemm, "GPU 0 stream 7", (*start, *length), link, &fields);
    }
    made.launch(4_100, 4);
    made.kernel("ncclDevKernel_AllReduce_Sum(int)", "GPU 0 stream 9", (5_000, 1_000), 4);
    made.kernel("empty", "GPU 0 stream 7", (5_900, 0), 0);
    let bytes = [("bytes", Value::U64(4_096))];
    made.launch(6_000, 5);
    made.work(Kind::COPY, "weights", "GPU 0 stream 7", (6_010, 90), 5, &bytes);
    made.work(Kind::FILL, "zeros", "GPU 0 stream 7", (6_100, 10), 6, &[]);
    made.finish()
}

fn analyze(arguments: &[&str], traces: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_analyze"))
        .arg("kernels")
        .args(arguments)
        .args(traces)
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

fn on_a_terminal(width: &str, trace: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_analyze"));
    text(&command.arg("kernels").arg(trace).env("COLUMNS", width).output().unwrap())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json_of(arguments: &[&str], traces: &[&Path]) -> Json {
    let all = [&["--format", "json"], arguments].concat();
    serde_json::from_str(&text(&analyze(&all, traces))).unwrap()
}

fn row<'a>(document: &'a Json, name: &str) -> &'a Json {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[test]
fn people_see_kernels_by_time_and_what_the_device_did() {
    let folder = TempDir::new().unwrap();
    let trace = small(&folder, "small.trace");
    let shown = text(&analyze(&["--limit", "2", "--group-by", "base"], &[&trace]));
    let expected = "\
Kernels, copies and fills
  time %  cum %      total  count       mean        p50       p95       p99       max      delay  delay p95  kind        name
    64.5   64.5    2.00 us      3  666.67 ns  400.00 ns   1.12 us   1.18 us   1.20 us  600.00 ns  970.00 ns  gemm        lib::gemm_kernel
    32.3   96.8    1.00 us      1    1.00 us    1.00 us   1.00 us   1.00 us   1.00 us  900.00 ns  900.00 ns  all-reduce  ncclDevKernel_AllReduce_Sum
     3.2  100.0  100.00 ns      3   33.33 ns   10.00 ns  82.00 ns  88.40 ns  90.00 ns   10.00 ns   10.00 ns              (3 others)
  all of them: --limit 0; 2 of 7 without a launch on record, so without a delay

Devices
  device  queue           count     span  busy %  idle %  host-bound %  kernel-wait %  other %  overlap %  comm %  comm hidden %
  0       all                 7  5.11 us    56.8    43.2          31.3            0.2     11.7        3.9    19.6           20.0
  0       GPU 0 stream 7      6  5.11 us    41.1    58.9          33.5            0.0     25.4        0.0     0.0
  0       GPU 0 stream 9      1  1.00 us   100.0     0.0           0.0            0.0      0.0        0.0   100.0
  % of the span. Idle before work that was launched too late: host-bound; launched in time, gap < 30 ns: kernel-wait
";
    assert_eq!(shown, expected);
}

#[test]
fn a_narrow_terminal_gets_fewer_figures_and_the_gist_of_names() {
    let folder = TempDir::new().unwrap();
    let mut made = Made::new(&folder, "long.trace");
    let name = "void at::elementwise_kernel<128, at::impl<at::MulFunctor<float>>(int)::{lambda(int)#1}>(int)";
    made.kernel(name, "queue", (10, 5), 0);
    let shown = on_a_terminal("120", &made.finish());
    let expected = "\
Kernels, copies and fills
  time %    total  count     mean      p50      p99  delay  kind         name
   100.0  5.00 ns      1  5.00 ns  5.00 ns  5.00 ns         elementwise  elementwise_kernel<impl, MulFunctor>
  1 of 1 without a launch on record, so without a delay

Devices
  device     queue  count     span  busy %  idle %  host-bound %  kernel-wait %  other %  overlap %
  (unnamed)  all        1  5.00 ns   100.0     0.0           0.0            0.0      0.0        0.0
  % of the span. Idle before work that was launched too late: host-bound; launched in time, gap < 30 ns: kernel-wait
";
    assert_eq!(shown, expected);
}

#[test]
fn rows_that_are_left_out_are_named_in_any_order() {
    let folder = TempDir::new().unwrap();
    let trace = small(&folder, "small.trace");
    let limited = json_of(&["--limit", "1"], &[&trace]);
    assert_eq!(limited["others"]["name"], "(4 others)");
    assert_eq!(limited["others"]["total_ns"], 1_100);
    assert_eq!(limited["others"]["p50_ns"], 50);
    let sorted = text(&analyze(&["--limit", "1", "--sort", "mean_ns"], &[&trace]));
    assert!(sorted.contains("… 4 more rows: --limit 0; 2 of 7 without"), "{sorted}");
}

#[test]
fn the_overview_has_the_top_kernels_and_hints_name_them_in_full() {
    let folder = TempDir::new().unwrap();
    let report = |arguments: &[&str], trace: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_analyze"));
        command.arg("report").args(arguments).arg(trace).env("COLUMNS", "100");
        text(&command.output().unwrap())
    };
    let trace = small(&folder, "small.trace");
    let arguments = ["--section", "kernels", "--limit", "2", "--format", "json"];
    let json: Json = serde_json::from_str(&report(&arguments, &trace)).unwrap();
    let sections = &json["sections"];
    let rows = |key: &str| sections[key].as_array().map(Vec::len);
    assert_eq!((rows("kernels"), rows("devices")), (Some(2), Some(3)));
    assert_eq!(sections["kernels_others"]["name"], "(3 others)");
    // The table has the gist of a long name; a command has to find it.
    let hints = report(&["--section", "hints"], &trace);
    let command = "analyze slow --name 'void lib::gemm_kernel<float, 128>(float\\*, int)'";
    assert!(hints.contains(command), "{hints}");

    let mut made = Made::new(&folder, "plain.trace");
    made.host(Kind::SPAN, "step", (0, 10), 0);
    assert_eq!(report(&["--section", "kernels"], &made.finish()), "");
}

#[test]
fn more_kernels_than_memory_takes_are_refused_before_they_are_read() {
    let folder = TempDir::new().unwrap();
    let trace = small(&folder, "small.trace");
    let output = analyze(&["--max-memory", "1K"], &[&trace]);
    assert_eq!(output.status.code(), Some(2));
    let refusal = String::from_utf8(output.stderr).unwrap();
    assert!(refusal.contains("--max-memory"), "{refusal}");
}

#[test]
fn machines_get_every_figure_with_its_unit() {
    let folder = TempDir::new().unwrap();
    let trace = small(&folder, "small.trace");
    let document = json_of(&[], &[&trace]);
    assert_eq!(document["schema"], "ringscope.kernels/1");
    let gemm = row(&document, "void lib::gemm_kernel<float, 128>(float*, int)");
    let expected = json!({
        "count": 3, "total_ns": 2_000, "p50_ns": 400, "min_ns": 400, "max_ns": 1_200,
        "queue_delay_mean_ns": 600, "launched": 3, "device": ["0"], "queue": ["GPU 0 stream 7"],
        "category": "computation", "kind": "gemm", "trace": ["small.trace"],
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&gemm[key], value, "{key}");
    }
    assert_eq!(row(&document, "weights")["bytes"], 4_096);
    assert_eq!(row(&document, "weights")["category"], "memory");
    assert_eq!(row(&document, "zeros")["queue_delay_mean_ns"], Json::Null);
    assert_eq!(row(&document, "empty")["total_ns"], 0);
    let device = &document["sections"]["devices"][0];
    let expected = json!({
        "span_ns": 5_110, "busy_ns": 2_900, "idle_ns": 2_210, "host_bound_ns": 1_600,
        "kernel_wait_ns": 10, "other_idle_ns": 600, "overlap_ns": 200,
        "communication_ns": 1_000, "communication_overlap_ns": 200,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&device[key], value, "{key}");
    }
    let waits = json_of(&["--kernel-wait", "1us"], &[&trace]);
    assert_eq!(waits["sections"]["devices"][0]["kernel_wait_ns"], 610);
}

#[test]
fn work_is_grouped_by_shape_kind_and_category() {
    let folder = TempDir::new().unwrap();
    let trace = small(&folder, "small.trace");
    let shapes = json_of(&["--group-by", "shape"], &[&trace]);
    let grids: Vec<(&Json, &Json, &Json)> = shapes["rows"].as_array().unwrap()[..3]
        .iter()
        .map(|row| (&row["grid"], &row["block"], &row["count"]))
        .collect();
    let gemms = [(json!("20x1x1"), 1), (json!("10x1x1"), 2)];
    assert_eq!(grids[0], (&gemms[0].0, &json!("128x1x1"), &json!(gemms[0].1)));
    assert_eq!(grids[2], (&gemms[1].0, &json!("128x1x1"), &json!(gemms[1].1)));
    let kinds = json_of(&["--group-by", "kind"], &[&trace]);
    let names: Vec<&str> =
        kinds["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gemm", "all-reduce", "copy", "fill", "other"]);
    let categories = json_of(&["--group-by", "category"], &[&trace]);
    assert_eq!(row(&categories, "memory")["total_ns"], 100);
    assert_eq!(row(&categories, "communication")["total_ns"], 1_000);
}

#[test]
fn shapes_are_known_by_the_keys_of_the_vocabulary_and_of_other_profilers() {
    let folder = TempDir::new().unwrap();
    let mut made = Made::new(&folder, "shapes.trace");
    let text = Value::Text;
    let ways: [&[(&str, Value<'_>)]; 4] = [
        &[("groups", text("8x8x1")), ("threads", text("256x1x1"))],
        &[("grid", text("[8, 8, 1]")), ("block", text("[256, 1, 1]"))],
        &[("grid_x", Value::U64(8)), ("grid_y", Value::U64(8)), ("block_x", Value::U64(256))],
        &[("groups", text("8,8,1")), ("threads", text("256,1,1")), ("device_id", Value::U64(0))],
    ];
    for (start, fields) in (0..).step_by(100).zip(ways) {
        made.work(Kind::KERNEL, "gemm", "GPU 0", (start, 10), 0, fields);
    }
    let shapes = json_of(&["--group-by", "shape"], &[&made.finish()]);
    assert_eq!(shapes["rows"].as_array().unwrap().len(), 1, "{shapes}");
    let row = &shapes["rows"][0];
    assert_eq!((&row["grid"], &row["block"]), (&json!("8x8x1"), &json!("256x1x1")));
    assert_eq!((&row["count"], &row["device"]), (&json!(4), &json!(["0"])));
}

#[test]
fn machines_get_every_queue_and_people_how_many() {
    let folder = TempDir::new().unwrap();
    let mut made = Made::new(&folder, "wide.trace");
    let queues = ["GPU 0 a", "GPU 1 a", "GPU 2 a", "GPU 3 a"];
    for queue in queues {
        made.kernel("gemm", queue, (10, 5), 0);
    }
    let trace = made.finish();
    let document = json_of(&[], &[&trace]);
    assert_eq!(row(&document, "gemm")["queue"], json!(queues));
    assert_eq!(row(&document, "gemm")["device"], json!(["0", "1", "2", "3"]));
    let columns = ["--columns", "name,device,queue"];
    let csv = text(&analyze(&[&columns[..], &["--format", "csv"]].concat(), &[&trace]));
    let line = "gemm,\"0, 1, 2, 3\",\"GPU 0 a, GPU 1 a, GPU 2 a, GPU 3 a\"";
    assert!(csv.lines().any(|it| it == line), "{csv}");
    let shown = text(&analyze(&columns, &[&trace]));
    assert!(shown.contains("gemm  4 devices  4 queues"), "{shown}");
}

#[test]
fn filters_choose_work_and_leave_launches_alone() {
    let folder = TempDir::new().unwrap();
    let trace = small(&folder, "small.trace");
    let late = json_of(&["--from", "3500ns", "--to", "5us", "--name", "*gemm*"], &[&trace]);
    assert_eq!(late["rows"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&late["rows"][0]["count"], &late["rows"][0]["queue_delay_mean_ns"]),
        (&json!(1), &json!(1_000))
    );
    assert_eq!(late["sections"]["devices"][0]["host_bound_ns"], Json::Null);
    let track = json_of(&["--track", "*stream 9"], &[&trace]);
    assert_eq!(track["rows"].as_array().unwrap().len(), 1);
    // What ran on the other queue meanwhile is not known.
    let device = &track["sections"]["devices"][0];
    assert_eq!((&device["busy_ns"], &device["host_bound_ns"]), (&json!(1_000), &Json::Null));
    assert_eq!(device["communication_overlap_ns"], Json::Null);
    let none = analyze(&["--min-duration", "1s"], &[&trace]);
    assert_eq!(
        text(&none),
        "Kernels, copies and fills\n  no kernels, copies or fills that the filters let through\n"
    );
}

#[test]
fn traces_and_devices_are_kept_apart_on_request() {
    let folder = TempDir::new().unwrap();
    let first = small(&folder, "first.trace");
    let mut made = Made::new(&folder, "second.trace");
    for (device, start) in [(0, 100), (1, 150)] {
        let fields = [("device", Value::U64(device))];
        made.work(Kind::KERNEL, "zeros", "queue", (start, 100), 0, &fields);
    }
    let second = made.finish();
    let both = json_of(&[], &[&first, &second]);
    assert_eq!(row(&both, "zeros")["count"], 3);
    assert_eq!(row(&both, "zeros")["trace"], json!(["first.trace", "second.trace"]));
    let apart = json_of(&["--by", "device", "--name", "zeros"], &[&first, &second]);
    let rows: Vec<(&Json, &Json, &Json)> = apart["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["trace"], &row["device"], &row["total_ns"]))
        .collect();
    let text = |text: &str| json!([text]);
    let (one, two, zero, other) = (text("first.trace"), text("second.trace"), text("0"), text("1"));
    let expected =
        [(&two, &zero, &json!(100)), (&two, &other, &json!(100)), (&one, &zero, &json!(10))];
    assert_eq!(rows, expected);
    let devices = both["sections"]["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 5, "{devices:?}");
    assert!(devices.iter().all(|row| row["trace"] == "first.trace" || row["overlap_ns"] == 0));
}

#[test]
fn a_trace_without_kernels_says_so_and_is_no_error() {
    let folder = TempDir::new().unwrap();
    let mut made = Made::new(&folder, "plain.trace");
    made.host(Kind::SPAN, "step", (0, 10), 0);
    made.launch(3, 1);
    let trace = made.finish();
    assert_eq!(
        text(&analyze(&[], &[&trace])),
        "Kernels, copies and fills\n  no kernels, copies or fills in this trace: GPU profilers \
         and importers record them\n"
    );
    assert_eq!(json_of(&[], &[&trace])["rows"], json!([]));
}

#[test]
fn clocks_that_disagree_are_reported() {
    let folder = TempDir::new().unwrap();
    let mut made = Made::new(&folder, "early.trace");
    made.launch(500, 1);
    made.kernel("early", "queue", (400, 10), 1);
    made.kernel("backwards", "queue", (450, 0_u64.wrapping_sub(5)), 0);
    let trace = made.finish();
    let output = analyze(&["--format", "json"], &[&trace]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 kernels start before their launch"), "{said}");
    assert!(said.contains("1 kernels end before they start"), "{said}");
    let document: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row(&document, "early")["queue_delay_mean_ns"], -100);
    assert_eq!(row(&document, "backwards")["total_ns"], 0);
}
