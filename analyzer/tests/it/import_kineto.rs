//! Traces of PyTorch's profiler: kernels on queues, launches by correlation, memory,
//! ranks; and what of the arguments is kept.

use std::{fs, path::Path};

use ringscope_format::{Columns, OwnedValue, Trace, parse_slots};
use tempfile::tempdir;

use crate::analyze::analyze;

/// A step of one rank, as PyTorch 2 writes it.
const STEP: &str = r#"{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42297524224}],
  "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"ranks": [0, 1]}]},
  "baseTimeNanoseconds": 1711964646000000000,
  "traceEvents": [
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":9,"tid":9,"ts":1000.000,"dur":100.000,
   "args":{"External id":1,"Ev Idx":0}},
  {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":1010.000,"dur":20.500,
   "args":{"External id":2,"Input Dims":[[4,4],[4,4]],"Input Strides":[[4,1],[4,1]],"Sequence number":12}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1012.000,"dur":3.001,
   "args":{"External id":2,"cbid":211,"correlation":77}},
  {"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":1019.125,"dur":41.407,
   "args":{"External id":2,"queued":0,"device":0,"context":1,"stream":7,"correlation":77,
           "registers per thread":40,"shared memory":400,"blocks per SM":4.7,"grid":[512,1,1],
           "block":[128,2,1],"est. achieved occupancy %":75}},
  {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":1070.000,
   "dur":5.088,"args":{"device":0,"stream":7,"correlation":78,"bytes":4000,"memory bandwidth (GB/s)":0.7}},
  {"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":20,"ts":1071.000,"dur":1.000,
   "args":{"device":0,"stream":20,"correlation":0,"bytes":64}},
  {"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#4","pid":0,"tid":7,"ts":1019.125,"dur":55.963,"args":{}},
  {"ph":"X","cat":"cpu_op","name":"aten::record_stream","pid":9,"tid":9,"ts":1050.000,"dur":1.000,
   "args":{"stream":7}},
  {"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":9,"tid":9,"ts":1011.000,
   "args":{"Total Reserved":2048,"Total Allocated":1024,"Bytes":512,"Addr":4096,"Device Id":0,"Device Type":1}},
  {"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":9,"tid":9,"ts":1040.000,
   "args":{"Bytes":-512,"Addr":4096,"Device Id":-1,"Device Type":0}},
  {"ph":"s","id":77,"pid":9,"tid":9,"ts":1012.000,"cat":"ac2g","name":"ac2g"},
  {"ph":"f","id":77,"pid":0,"tid":7,"ts":1019.125,"cat":"ac2g","name":"ac2g","bp":"e"},
  {"ph":"M","name":"process_name","ts":1000.000,"pid":9,"tid":0,"args":{"name":"python3"}},
  {"ph":"M","name":"thread_name","ts":1000.000,"pid":9,"tid":9,"args":{"name":"thread 9 (python3)"}}
  ],
  "traceName": "step.json"
}"#;

/// Everything in a trace, a record a line: when, what, where, fields.
fn listing(path: &Path) -> Vec<String> {
    let trace = Trace::open(fs::read(path).unwrap()).unwrap();
    assert!(trace.damage().is_empty());
    let name = |id: u32| trace.names().get(id).unwrap_or("?").to_owned();
    let mut lines = Vec::new();
    for chunk in trace.chunks() {
        let batch = trace.decode(chunk, Columns::ALL).unwrap();
        for (record, slots) in batch.records() {
            let track = trace.tracks().iter().find(|it| it.id == record.track).unwrap();
            let mut line = format!("{} {}", record.start, "  ".repeat(record.depth.into()));
            line += &format!("{:?} {}", record.kind, name(record.name));
            line += &record.duration().map_or(String::new(), |ns| format!(" {ns}"));
            line += &format!(" on {:?} {}", track.kind, track.name);
            line +=
                &if record.link == 0 { String::new() } else { format!(", link {}", record.link) };
            let details = parse_slots(slots);
            for (key, value) in details.fields {
                let value = match value {
                    OwnedValue::U64(n) => n.to_string(),
                    OwnedValue::Name(id) => name(id),
                    OwnedValue::Text { text, .. } => text,
                    other => format!("{other:?}"),
                };
                line += &format!(", {}={value}", name(key));
            }
            for link in details.links {
                line += &format!(", {:?} {:#x}", link.role, link.id);
            }
            lines.push(line);
        }
    }
    lines
}

fn imported(text: &str) -> (Vec<String>, String) {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run.json"), text).unwrap();
    let run = analyze(dir.path(), &["import", "run.json", "-o", "run.trace"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    (listing(&dir.path().join("run.trace")), run.stderr)
}

#[test]
fn every_event_is_what_the_profiler_means_by_it() {
    let (lines, said) = imported(STEP);
    assert_eq!(said, "analyze: run.json: 11 events converted from PyTorch profiler\n");
    let expected = [
        "1011000     event memory.allocate on Thread thread 9 (python3), device=0, bytes=512, id=4096",
        "1011000     event memory.device on Thread thread 9 (python3), device=0, allocated=1024, reserved=2048",
        "1012000     launch cudaLaunchKernel 3001 on Thread thread 9 (python3), link 1, external_id=2",
        "1010000   span aten::mm 20500 on Thread thread 9 (python3), category=cpu_op, \
         external_id=2, sequence=12, shapes=[[4,4],[4,4]]",
        "1040000   event memory.release on Thread thread 9 (python3), bytes=512, id=4096, device=cpu",
        "1050000   span aten::record_stream 1000 on Thread thread 9 (python3), category=cpu_op, stream=7",
        "1019125 kernel sgemm 41407 on GpuQueue GPU 0 stream 7, link 1, external_id=2, device=0, stream=7, \
         registers=40, shared_memory=400, occupancy_percent=75, grid=512x1x1, block=128x2x1",
        "1071000 fill Memset (Device) 1000 on GpuQueue GPU 0 stream 20, device=0, stream=20, bytes=64",
        "1070000 copy Memcpy HtoD (Pinned -> Device) 5088 on GpuQueue GPU 0 stream 7, link 2, device=0, \
         stream=7, bytes=4000, direction=h2d",
        "1019125 span ProfilerStep#4 (GPU) 55963 on Other GPU 0 stream 7 annotations, step=4",
        "1000000 span ProfilerStep#4 100000 on Thread thread 9 (python3), step=4, external_id=1, \
         category=user_annotation",
    ];
    assert_eq!(lines, expected, "{lines:#?}");
}

#[test]
fn kernels_wait_as_long_as_their_correlation_says() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run.json"), STEP).unwrap();
    let json = analyze(dir.path(), &["kernels", "run.json", "--format", "json"]).json();
    let gemm = &json["rows"][0];
    assert_eq!((&gemm["name"], &gemm["total_ns"]), (&"sgemm".into(), &41_407.into()));
    assert_eq!(gemm["queue_delay_mean_ns"], 7_125);
    let text = json.to_string();
    // Union of 41,407 + 5,088; the fill runs beside the copy.
    assert!(text.contains("\"busy_ns\":46495"), "{text}");
    let info = analyze(dir.path(), &["info", "run.json"]).stdout;
    for said in ["rank", "world_size", "NVIDIA A100", "2024-04-01", "PyTorch profiler"] {
        assert!(info.contains(said), "{said}: {info}");
    }
}

#[test]
fn old_capitalised_categories_mean_the_same() {
    let (lines, said) = imported(
        r#"[{"ph":"X","cat":"Operator","name":"aten::add","pid":1,"tid":1,"ts":10,"dur":5,"args":{}},
            {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":11,"dur":1,
             "args":{"correlation":5}},
            {"ph":"X","cat":"Kernel","name":"add","pid":0,"tid":"stream 7","ts":20,"dur":3,
             "args":{"device":0,"stream":7,"correlation":5}},
            {"ph":"X","cat":"Memcpy","name":"Memcpy DtoH","pid":0,"tid":"stream 7","ts":30,"dur":3,
             "args":{"device":0,"stream":7}}]"#,
    );
    assert_eq!(said, "analyze: run.json: 4 events converted from PyTorch profiler\n");
    assert_eq!(
        lines,
        [
            "11000   launch cudaLaunchKernel 1000 on Thread thread 1, link 1",
            "10000 span aten::add 5000 on Thread thread 1, category=Operator",
            "20000 kernel add 3000 on GpuQueue GPU 0 stream 7, link 1, device=0, stream=7",
            "30000 copy Memcpy DtoH 3000 on GpuQueue GPU 0 stream 7, device=0, stream=7, direction=d2h",
        ]
    );
}

#[test]
fn a_category_called_kernel_is_no_device_without_one() {
    let (lines, _) = imported(
        r#"[{"ph":"X","cat":"kernel","name":"sys_read","pid":1,"tid":1,"ts":10,"dur":5,"args":{"fd":3}}]"#,
    );
    assert_eq!(lines, ["10000 span sys_read 5000 on Thread thread 1, fd=3, category=kernel"]);
}

#[test]
fn counters_instants_and_arrows_find_their_places() {
    let (lines, said) = imported(
        r#"[{"ph":"X","name":"send","pid":1,"tid":1,"ts":0,"dur":10},
            {"ph":"X","name":"receive","pid":1,"tid":2,"ts":20,"dur":10,"args":{"who":"a","deep":{"x":[1]}}},
            {"ph":"s","cat":"msg","name":"m","id":5,"pid":1,"tid":1,"ts":4},
            {"ph":"f","bp":"e","cat":"msg","name":"m","id":5,"pid":1,"tid":2,"ts":20},
            {"ph":"t","cat":"msg","name":"m","id":5,"pid":1,"tid":2,"ts":90},
            {"ph":"C","name":"queue","pid":1,"ts":5,"args":{"in":3,"out":-2.5}},
            {"ph":"C","name":"load","pid":1,"ts":6,"args":{"value":18446744073709551615}},
            {"ph":"C","name":"bad","pid":1,"ts":6,"args":{"value":"much"}},
            {"ph":"I","name":"mark","pid":1,"tid":1,"ts":3,"args":{"ok":true}}]"#,
    );
    assert_eq!(
        lines,
        [
            "3000   event mark on Thread thread 1, ok=Bool(true)",
            "5000 gauge queue.in on Other process 1 counters",
            "5000 gauge queue.out on Other process 1 counters",
            "6000 gauge load on Other process 1 counters",
            "0 span send 10000 on Thread thread 1, LinkRole(1) 0x5",
            "20000 span receive 10000 on Thread thread 2, who=a, deep={\"x\":[1]}, LinkRole(3) 0x5",
        ]
    );
    assert!(said.ends_with(
        "not taken as it stands: 1 counters without a number; 1 points of arrows outside of any span\n"
    ), "{said}");
}
