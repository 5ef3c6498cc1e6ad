//! Every form of `diff`'s output, whole.

use std::{fs, path::Path};

use tempfile::tempdir;

use crate::{
    analyze::analyze,
    diff_traces::{Program, sides},
};

fn slowed(dir: &Path, more: &[&str]) -> crate::analyze::Run {
    let few = Program { names: Program::new().names[..9].to_vec(), ..Program::new() };
    let mut head = few.clone().with("step_07", 1.25);
    head.names[2] = ("pre<b>|x".to_owned(), 40, 5e3);
    let mut arguments = sides(dir, 5, &few, &head);
    arguments.extend(more.iter().map(|it| (*it).to_owned()));
    analyze(dir, &arguments)
}

#[track_caller]
fn same(form: &str, wanted: &str) {
    let dir = tempdir().unwrap();
    let run = slowed(dir.path(), &["--format", form]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (1, wanted, ""));
}

#[test]
fn the_table_is_for_people() {
    same("table", include_str!("diff_outputs/table"));
}

#[test]
fn markdown_has_one_table_and_the_rest_folded_away() {
    same("markdown", include_str!("diff_outputs/markdown"));
}

#[test]
fn junit_has_a_case_for_each_name() {
    same("junit", include_str!("diff_outputs/junit"));
}

#[test]
fn github_gets_an_annotation_for_each_regression() {
    same("github", include_str!("diff_outputs/github"));
}

#[test]
fn github_gets_nine_annotations_and_how_many_more() {
    let dir = tempdir().unwrap();
    let mut head = Program::new();
    head.names.iter_mut().take(9).for_each(|it| it.2 *= 1.5);
    let mut arguments = sides(dir.path(), 5, &Program::new(), &head);
    fs::write(dir.path().join("perf-budget.toml"), "[[rule]]\nname = \"gone\"\n").unwrap();
    arguments.extend(["--format", "github"].map(str::to_owned));
    let run = analyze(dir.path(), &arguments);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!((run.code, lines.len()), (1, 10), "{}", run.stdout);
    assert!(lines[..9].iter().all(|line| line.starts_with("::error title=")), "{}", run.stdout);
    // Nine names, the verdict and the rule for nobody.
    assert_eq!(lines[9], "::notice title=analyze diff::2 more");
}

#[test]
fn files_are_written_also_when_the_gate_fails() {
    let dir = tempdir().unwrap();
    let also =
        ["-o", "diff.json", "--format", "json", "--also", "markdown=c.md", "--also", "junit=j.xml"];
    let run = slowed(dir.path(), &also);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    let text = fs::read_to_string(dir.path().join("diff.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&document["schema"], &document["exit_code"]),
        (&"ringscope.diff/1".into(), &1.into())
    );
    let comment = fs::read_to_string(dir.path().join("c.md")).unwrap();
    assert_eq!(comment, include_str!("diff_outputs/markdown"));
    assert_eq!(
        fs::read_to_string(dir.path().join("j.xml")).unwrap(),
        include_str!("diff_outputs/junit")
    );
    let said = analyze(dir.path(), &["diff", "b0.trace", "h0.trace", "-o", "b1.trace"]).refusal();
    assert!(said.contains("is a trace, which a report would replace"), "{said}");
}

#[test]
fn csv_has_every_figure_of_both_sides() {
    let dir = tempdir().unwrap();
    let run = slowed(dir.path(), &["--format", "csv"]);
    let header = run.stdout.lines().next().unwrap();
    for column in ["base_count", "head_self_ns", "base_p99_ns", "head_mean_ns", "verdict"] {
        assert!(header.split(',').any(|it| it == column), "{header}");
    }
    assert_eq!(run.stdout.lines().count(), 11, "{}", run.stdout);
}

/// A `forward` in which blocks call `sdpa`, which is slower in the last two.
#[test]
fn the_sentence_names_the_blocks_in_which_a_name_is_slower() {
    use ringscope_format::{Kind, Record, TrackKind};
    let dir = tempdir().unwrap();
    for (file, slower) in [("a.trace", 0), ("b.trace", 40)] {
        crate::making::trace(&dir.path().join(file), |writer| {
            let main = writer.track(TrackKind::Thread, 7, "main");
            let sdpa = writer.name("sdpa");
            let blocks: Vec<u32> = (10..16).map(|at| writer.name(&format!("block_{at}"))).collect();
            let others: Vec<u32> = (0..10).map(|at| writer.name(&format!("other_{at}"))).collect();
            let mut now = 0;
            let mut span = |name, depth, start, length| {
                let record =
                    Record { depth, ..Record::timed(Kind::SPAN, name, main, start, length) };
                writer.event(record, &[], &[]).unwrap();
            };
            for call in 0..300_u64 {
                let jitter = call * 7 % 5;
                for (at, &block) in blocks.iter().enumerate() {
                    let length = 100 + jitter + if at >= 4 { slower * 3 } else { 0 };
                    span(sdpa, 1, now + 1, length);
                    span(block, 0, now, length + 10);
                    now += length + 20;
                }
                for &other in &others {
                    span(other, 0, now, 50 + jitter);
                    now += 70;
                }
            }
        });
    }
    let run = analyze(dir.path(), &["diff", "a.trace", "b.trace"]);
    assert!(
        run.stdout.contains("100 % from `sdpa` in `block_{14..15}`, called as often, each"),
        "{}",
        run.stdout
    );
}
