//! Requests: what was done for which, by scopes and by what records say themselves.

use ringscope_format::{Kind, Record, Status, ValueType};
use serde_json::json;

use crate::made::{Finished, MS, Made, analyze};

const ALICE: u128 = 0xA11CE << 108;
const BOB: u128 = 0xB0B << 116;
const SCOPE: &str = "request.scope";

/// A server that works for two requests on two threads and a device; with scopes or as it
/// would be without.
fn served(with_scopes: bool) -> Finished {
    let mut made = Made::new();
    let (main, queue, worker) = (made.main, made.queue, made.thread("worker"));
    let at = |track: u32, depth: u8, from: u64, to: u64| Record {
        depth,
        ..Record::timed(Kind::SPAN, 0, track, from * MS, (to - from) * MS)
    };
    let span = |made: &mut Made, name: &str, record: Record| made.put(record, name, &[]);
    let scope = |made: &mut Made, request: u128, record: Record| {
        if with_scopes {
            made.put_for(request, Record { kind: Kind::SCOPE, ..record }, SCOPE);
        }
    };
    let point = |kind, status, depth, from: u64| {
        let record = Record::point(kind, 0, main, from * MS, (ValueType::None, 0));
        Record { status, depth, ..record }
    };
    span(&mut made, "tokenize", at(main, 1, 12, 20));
    span(&mut made, "cache miss", point(Kind::EVENT, Status::UNKNOWN, 1, 21));
    span(&mut made, "attention", at(main, 2, 24, 30));
    span(&mut made, "too long", point(Kind::ERROR, Status::ERROR, 2, 35));
    span(&mut made, "decode", at(main, 1, 22, 38));
    scope(&mut made, ALICE, at(main, 1, 10, 40));
    span(&mut made, "tokenize", at(main, 1, 51, 59));
    scope(&mut made, BOB, at(main, 1, 50, 60));
    span(&mut made, "steal", at(worker, 1, 61, 69));
    scope(&mut made, BOB, at(worker, 1, 60, 70));
    span(&mut made, "embed", at(worker, 0, 45, 85));
    scope(&mut made, ALICE, at(worker, 0, 42, 90));
    made.put_for(ALICE, Record { kind: Kind::KERNEL, ..at(queue, 0, 86, 95) }, "matmul");
    span(&mut made, "serve", at(main, 0, 0, 100));
    made.finish()
}

#[test]
fn each_request_has_a_row_the_longest_first() {
    let trace = served(true);
    let text = trace.output(&["requests", "--color", "never"]);
    let expected = format!(
        "\
Requests
  request                           began at      wall      busy  threads  scopes  events  errors
  a11ce000000000000000000000000000  10.00 ms  85.00 ms  78.00 ms        2       2       7       1
  b0b00000000000000000000000000000  50.00 ms  20.00 ms  20.00 ms        2       2       2       0
  what took its time: analyze tree {} --request a11c
",
        trace.path.display()
    );
    assert_eq!(text, expected);
    let csv = trace.output(&["requests", "--format", "csv", "--limit", "1"]);
    assert_eq!(
        csv,
        "request,start_ns,wall_ns,busy_ns,threads,scopes,events,errors\n\
         a11ce000000000000000000000000000,10000000,85000000,78000000,2,2,7,1\n"
    );
    let json = trace.json(&["requests", "--sort", "wall_ns"]);
    assert_eq!(json["schema"], "ringscope.requests/1");
    assert_eq!(json["rows"][0]["request"], "b0b00000000000000000000000000000");
    let hints = trace.json(&["report", "--section", "hints"])["sections"]["hints"].clone();
    let commands: Vec<&str> =
        hints.as_array().unwrap().iter().map(|it| it["command"].as_str().unwrap()).collect();
    assert!(commands.contains(&&*format!("analyze requests {}", trace.path.display())));
    let limited = trace.output(&["requests", "--limit", "1", "--color", "never"]);
    assert!(limited.ends_with("\n  … 1 more rows: --limit 0\n"), "{limited}");
}

#[test]
fn one_request_has_a_tree_spans_and_kernels_of_its_own() {
    let trace = served(true);
    let tree = trace.output(&["tree", "--request", "a11c", "--columns", "name,count,total_ns"]);
    assert_eq!(
        tree,
        "\
Tree
  name           count     total
  embed              1  40.00 ms
  serve
    decode           1  16.00 ms
      attention      1   6.00 ms
    tokenize         1   8.00 ms
  % is of all outermost spans together, 64.00 ms
"
    );
    let names = |command: &str, request: &str| -> Vec<String> {
        let json = trace.json(&[command, "--request", request]);
        let rows = json["rows"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("spans", "A11CE"), ["embed", "decode", "tokenize", "attention"]);
    assert_eq!(names("spans", "b0b0"), ["steal", "tokenize"]);
    assert_eq!(names("kernels", "a11c"), ["matmul"]);
    assert!(names("kernels", "b0b0").is_empty());
    let threads = trace.json(&["threads", "--request", "b0b0"]);
    let busy = |at: usize| (&threads["rows"][at]["track"], &threads["rows"][at]["busy_ns"]);
    assert_eq!(busy(0), (&json!("main"), &json!(8 * MS)));
    assert_eq!(busy(1), (&json!("worker"), &json!(8 * MS)));
}

#[test]
fn the_slowest_say_for_whom_they_were() {
    let trace = served(true);
    let slow = trace.output(&["slow", "--limit", "3", "--color", "never"]);
    assert_eq!(
        slow,
        "\
Slowest
  1. 100.00 ms  serve  on main, at 0.00 ns
       of it     decode 16.00 ms, tokenize 16.00 ms (2 times); itself 68.00 ms
       beside    embed 32.00 ms, steal 8.00 ms
       devices   matmul 9.00 ms
  2. 40.00 ms  embed  on worker, at 45.00 ms
       of it     steal 8.00 ms; itself 32.00 ms
       request   a11ce000000000000000000000000000
       beside    serve 32.00 ms, tokenize 8.00 ms
  3. 16.00 ms  decode  on main, at 22.00 ms
       inside    serve +22.00 ms
       of it     attention 6.00 ms; itself 10.00 ms
       request   a11ce000000000000000000000000000
"
    );
    let rows = trace.json(&["slow", "--name", "steal", "--name", "matmul"])["rows"].clone();
    let requests = [0, 1].map(|at| rows[at]["request"].as_str().unwrap()[..4].to_owned());
    assert_eq!(requests, ["a11c", "b0b0"]);
}

#[test]
fn scopes_are_no_spans_and_change_no_figure_of_any() {
    let (with, without) = (served(true), served(false));
    for command in [
        &["spans"][..],
        &["tree"],
        &["tree", "--by", "track"],
        &["slow", "--columns", "name,duration_ns,start_ns,self_ns"],
        &["hist", "*"],
        &["kernels"],
        &["summary", "--format", "csv"],
        &["report", "--section", "categories", "--section", "spans"],
    ] {
        assert_eq!(with.output(command), without.output(command), "{command:?}");
    }
    let threads = |trace: &Finished| {
        trace.output(&["threads", "--columns", "track,spans,busy_ns,first_ns,last_ns,top_name"])
    };
    assert_eq!(threads(&with), threads(&without));
    let sides = ["diff", without.path.to_str().unwrap()];
    let diff = String::from_utf8(analyze(&sides, &with.path).stdout).unwrap();
    assert!(!diff.contains(SCOPE), "{diff}");
}

#[test]
fn what_is_no_request_or_not_one_alone_is_told() {
    let trace = served(true);
    let complaint = trace.complaint(&["spans", "--request", "ffff"]);
    assert_eq!(
        complaint,
        "analyze: --request ffff: no request has an id that begins so; analyze requests lists them\n"
    );
    for wrong in ["a11", "wxyz", "0xa11ce"] {
        let complaint = trace.complaint(&["spans", "--request", wrong]);
        assert!(complaint.contains("4 to 32 hexadecimal digits"), "{complaint}");
    }
    let mut made = Made::new();
    for id in [0x12345 << 108, 0x12346 << 108] {
        let scope = Record::timed(Kind::SCOPE, 0, made.main, 0, 5);
        made.put_for(id, scope, SCOPE);
    }
    let complaint = made.finish().complaint(&["tree", "--request", "1234"]);
    assert_eq!(
        complaint,
        "analyze: --request 1234: 2 requests begin so: 12345000000000000000000000000000, \
         12346000000000000000000000000000; give more digits\n"
    );
    let complaint = trace.complaint(&["requests", "--max-memory", "100"]);
    assert!(complaint.contains("requests: 4 scopes of them take about"), "{complaint}");
}

#[test]
fn a_trace_without_requests_says_so() {
    let text = served(false).output(&["requests", "--name", "tokenize", "--color", "never"]);
    assert_eq!(text.lines().last(), Some("  no requests, or none that pass the filters"));
    // What carries a request is one, also without scopes, as in traces of older versions.
    let rows = served(false).json(&["requests"])["rows"].clone();
    assert_eq!((rows[0]["scopes"].as_u64(), rows[0]["events"].as_u64()), (Some(0), Some(1)));
}

#[test]
fn filters_choose_what_counts_and_requests_without_it_are_not_listed() {
    let trace = served(true);
    let rows = trace.json(&["requests", "--name", "decode"])["rows"].clone();
    let expected = json!([{
        "request": "a11ce000000000000000000000000000", "start_ns": 10 * MS, "wall_ns": 80 * MS,
        "busy_ns": 78 * MS, "threads": 2, "scopes": 2, "events": 1, "errors": 0,
    }]);
    assert_eq!(rows, expected);
    let late = trace.json(&["requests", "--from", "55ms"])["rows"].clone();
    let requests: Vec<&str> =
        late.as_array().unwrap().iter().map(|row| row["request"].as_str().unwrap()).collect();
    assert_eq!(requests.len(), 2);
    assert_eq!((&late[0]["scopes"], &late[0]["start_ns"]), (&json!(1), &json!(60 * MS)));
    let one = trace.json(&["requests", "--request", "b0b0"])["rows"].clone();
    assert_eq!((one.as_array().unwrap().len(), &one[0]["scopes"]), (1, &json!(2)));
}

#[test]
fn several_traces_have_a_row_each_and_share_their_requests() {
    let (first, second) = (served(true), served(true));
    let path = first.path.to_str().unwrap();
    let rows = second.json(&["requests", path])["rows"].clone();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["trace"].as_str().unwrap().contains("made.trace")));
    let spans = second.json(&["spans", path, "--request", "b0b0"])["rows"].clone();
    assert_eq!(spans[0]["count"], 2);
}

#[test]
fn scopes_come_along_when_a_trace_is_cut_scrubbed_merged_or_exported_and_imported() {
    let trace = served(true);
    let whole = trace.json(&["requests"])["rows"].clone();
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made.trace");
    let target = made.to_str().unwrap();
    let figures = |arguments: &[&str]| {
        let done = analyze(arguments, &trace.path);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let said = analyze(&["requests", "--format", "json"], &made);
        serde_json::from_slice::<serde_json::Value>(&said.stdout).unwrap()["rows"].clone()
    };
    // Names are not asked of scopes: for whom the rest is stays known.
    let cut = figures(&["cut", "-o", target, "--name", "decode", "--name", "matmul"]);
    assert_eq!((&cut[0]["events"], &cut[0]["busy_ns"]), (&json!(2), &whole[0]["busy_ns"]));
    let of_one = figures(&["cut", "-o", target, "--request", "b0b0"]);
    assert_eq!(of_one.as_array().unwrap().len(), 1);
    assert_eq!((&of_one[0]["events"], &of_one[0]["scopes"]), (&json!(2), &json!(2)));
    assert_eq!(figures(&["scrub", "-o", target]), whole);
    assert_eq!(figures(&["merge", "-o", target]), whole);
    assert_eq!(figures(&["recover", "-o", target]), whole);
    for form in ["csv", "jsonl", "chrome"] {
        let file = dir.path().join(format!("exported.{}", form.replace("chrome", "json")));
        let exported = file.to_str().unwrap();
        assert!(analyze(&["export", "--to", form, "-o", exported], &trace.path).status.success());
        assert!(analyze(&["import", "-o", target], &file).status.success());
        let said = analyze(&["requests", "--format", "json"], &made);
        let rows: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!(rows["rows"], whole, "{form}");
    }
}

#[test]
fn viewers_show_a_scope_around_what_it_holds_and_on_the_line_of_its_thread() {
    let chrome = served(true).output(&["export", "--to", "chrome"]);
    let chrome: serde_json::Value = serde_json::from_str(&chrome).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    let threads: Vec<&str> = events
        .iter()
        .filter(|it| it["name"] == "thread_name")
        .map(|it| it["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(threads, ["main", "gpu 0", "worker"], "and none has a second line");
    let scope = events.iter().find(|it| it["cat"] == "scope").unwrap();
    assert_eq!((&scope["name"], &scope["ph"]), (&json!(SCOPE), &json!("X")));
    assert_eq!(scope["args"]["link.request"], "a11ce000000000000000000000000000");
}

#[test]
fn what_the_recorder_records_is_known_by_its_request() {
    use ringscope::{event, span, vocabulary::CorrelationId};
    let trace = Finished::recorded(|| {
        let work = || {
            let _span = span!("of the request");
            event!("in it");
        };
        let request = CorrelationId::from_u128(ALICE);
        drop(span!("before"));
        {
            let _working = request.enter();
            work();
        }
        std::thread::spawn(move || {
            let _working = request.enter();
            work();
        })
        .join()
        .unwrap();
        drop(span!("after"));
    });
    let rows = trace.json(&["requests"])["rows"].clone();
    let figures = ["threads", "scopes", "events", "errors"].map(|key| rows[0][key].as_u64());
    assert_eq!(figures, [Some(2), Some(2), Some(4), Some(0)]);
    let spans = trace.json(&["spans", "--request", "a11c"])["rows"].clone();
    assert_eq!(spans.as_array().unwrap().len(), 1, "{spans}");
    assert_eq!((&spans[0]["name"], &spans[0]["count"]), (&json!("of the request"), &json!(2)));
}

#[cfg(feature = "sql")]
#[test]
fn tables_have_the_request_of_each_record() {
    let trace = served(true);
    let query = "SELECT name, substr(request, 1, 4) AS request FROM spans ORDER BY start_ns";
    let row = |name: &str, request: Option<&str>| json!({ "name": name, "request": request });
    let expected = json!([
        row("serve", None),
        row("tokenize", Some("a11c")),
        row("decode", Some("a11c")),
        row("attention", Some("a11c")),
        row("embed", Some("a11c")),
        row("tokenize", Some("b0b0")),
        row("steal", Some("b0b0")),
    ]);
    assert_eq!(trace.json(&["sql", query])["rows"], expected);
    let query = "SELECT kind, count(*) AS n FROM records \
                 WHERE request = 'a11ce000000000000000000000000000' GROUP BY kind ORDER BY kind";
    let expected = json!([
        { "kind": "error", "n": 1 },
        { "kind": "event", "n": 1 },
        { "kind": "kernel", "n": 1 },
        { "kind": "scope", "n": 2 },
        { "kind": "span", "n": 4 },
    ]);
    assert_eq!(trace.json(&["sql", query])["rows"], expected);
    let kernels = trace.json(&["sql", "SELECT request FROM kernels", "--request", "a11c"]);
    assert_eq!(kernels["rows"][0]["request"], "a11ce000000000000000000000000000");
    let errors = trace.json(&["errors", "--request", "b0b0"]);
    assert_eq!(errors["rows"].as_array().map_or(0, Vec::len), 0, "{errors}");
}
