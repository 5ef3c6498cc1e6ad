//! For machines: everything, with a schema version. Percentages are in percent, times
//! in nanoseconds.

use serde_json::{Map, Value, json};

use super::{
    circumstances::Order,
    decision::{Design, Test},
    perf_budget::Severity,
    run_summary::{Metric, RunSummary},
    view::{View, whole},
};

/// Name and version.
pub(super) const SCHEMA: &str = "ringscope.diff/1";

pub(super) fn value(view: &View<'_>) -> Value {
    let side = |runs: &[&RunSummary]| -> Value { runs.iter().map(|run| run_value(run)).collect() };
    let design = match view.decision.design {
        Design::SinglePair => "single_pair",
        Design::Strict => "strict",
        Design::Relaxed => "relaxed",
    };
    let attribution = view.attributions.iter().map(|all| {
        let part = |part: &super::attribution::Part| {
            json!({
                "change_ns": part.total_ns(),
                "by_count_ns": part.by_count_ns,
                "by_call_ns": part.by_call_ns,
            })
        };
        let names = all.shares.iter().map(|share| {
            let mut object = part(&share.part);
            object["name"] = view.decision.names[share.name].name.name.into();
            object
        });
        json!({
            "what": all.what.to_string(),
            "base_ns": all.total_ns.0,
            "head_ns": all.total_ns.1,
            "change_ns": all.change_ns(),
            "interval_ns": all.interval_ns.map(|(low, high)| json!([number(low), number(high)])),
            "names": names.collect::<Value>(),
            "noise": part(&all.noise.1),
            "noise_names": all.noise.0,
        })
    });
    let common = view.decision.metrics.iter().zip(&view.decision.common).map(|(metric, shift)| {
        json!({
            "metric": metric.to_string(),
            "change_percent": shift.map(|it| in_percent(it.change)),
            "interval_percent": shift.and_then(|it| it.interval).map(interval),
        })
    });
    let counters = view.counters.iter().enumerate().map(|(at, it)| {
        let ruling = view.gate.counters.iter().find(|it| it.0 == at).map(|it| &it.1);
        json!({
            "name": it.name,
            "figure": it.figure.key(),
            "base": it.base,
            "head": it.head,
            "change_percent": it.change.map(|it| in_percent(it.0)),
            "interval_percent": it.change.map(|it| interval(it.1)),
            "verdict": it.course.key(),
            "gate": ruling.map(|it| gate(it.severity, it.because.as_deref())),
        })
    });
    json!({
        "schema": SCHEMA,
        "verdict": view.gate.verdict,
        "sentence": view.gate.sentence,
        "exit_code": view.gate.exit as u8,
        "explanation": view.sentences(),
        "design": design,
        "order": Order::of(view.base, view.head).key(),
        "rule": {
            "least_effect_percent": 100.0 * view.rule.least_effect,
            "least_effect_single_percent": 100.0 * view.rule.least_effect_single,
            "false_share_percent": 100.0 * view.rule.false_share,
            "tolerance_percent": 100.0 * view.rule.tolerance,
        },
        "base": side(view.base),
        "head": side(view.head),
        "remarks": view.remarks.iter().map(|it| json!({
            "key": it.key, "text": it.text, "warning": it.is_warning,
        })).collect::<Value>(),
        "common": common.collect::<Value>(),
        "rows": view.order().into_iter().map(|at| row(view, at)).collect::<Value>(),
        "geomean": view.geomean().map(|(metric, names, change)| json!({
            "metric": metric.to_string(), "names": names, "change_percent": in_percent(change),
        })),
        "attribution": attribution.collect::<Value>(),
        "counters": counters.collect::<Value>(),
    })
}

fn run_value(run: &RunSummary) -> Value {
    json!({
        "label": run.label,
        "begun_unix_ns": run.begun_unix_ns,
        "length_ns": run.length_ns,
        "events": run.events,
        "missing": run.missing,
        "finished": run.finished,
        "metadata": run.metadata,
    })
}

fn row(view: &View<'_>, at: usize) -> Value {
    let judged = &view.decision.names[at];
    let figures = |of_base: bool| {
        let figures = view.figures(at, of_base);
        if figures.metrics.is_empty() {
            return Value::Null;
        }
        let mut object = Map::new();
        object.insert("count".into(), number(figures.count));
        object.insert("total_ns".into(), number(figures.total_ns));
        object.insert("self_ns".into(), number(figures.self_ns));
        for (metric, value) in view.metrics_of_calls().iter().zip(figures.metrics) {
            object.insert(format!("{metric}_ns"), number(value));
        }
        Value::Object(object)
    };
    let finding = view.gate.finding(at).map(|it| gate(it.severity, it.because.as_deref()));
    json!({
        "name": judged.name.name,
        "renamed_from": judged.name.renamed_from,
        "what": judged.name.what.to_string(),
        "verdict": judged.verdict.key(),
        "metric": view.telling(judged).map(|it| view.decision.metrics[it.metric].to_string()),
        "gate": finding,
        "share_percent": view.share_percent(at),
        "base": figures(true),
        "head": figures(false),
        "tests": judged.tests.iter().map(|it| test(view, it)).collect::<Value>(),
    })
}

/// What the gate makes of it.
fn gate(severity: Severity, because: Option<&str>) -> Value {
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Ignore => "ignore",
    };
    json!({ "severity": severity, "because": because })
}

fn test(view: &View<'_>, test: &Test) -> Value {
    let was_made = test.interval.0.is_finite();
    let metric = view.decision.metrics[test.metric];
    let mut value = test_value(view, test, was_made);
    if metric == Metric::Count {
        value["base"] = number(whole(test.base));
        value["head"] = number(whole(test.head));
    } else {
        value["base_ns"] = number(test.base);
        value["head_ns"] = number(test.head);
    }
    value
}

fn test_value(view: &View<'_>, test: &Test, was_made: bool) -> Value {
    json!({
        "metric": view.decision.metrics[test.metric].to_string(),
        "change_percent": number(100.0 * (test.head / test.base - 1.0)),
        "own_change_percent": was_made.then(|| in_percent(test.own)),
        "interval_percent": was_made.then(|| interval(test.interval)),
        "chance": was_made.then_some(test.chance),
        "verdict": test.verdict.key(),
        "detectable_percent": test.detectable(view.rule).map(|it| number(100.0 * it)),
        "runs_needed": test.runs_needed(view.rule),
        "calls_lacking": number(test.lacking),
    })
}

fn in_percent(log: f64) -> Value {
    number(100.0 * log.exp_m1())
}

fn interval((low, high): (f64, f64)) -> Value {
    json!([in_percent(low), in_percent(high)])
}

/// What JSON cannot say is null.
fn number(value: f64) -> Value {
    if value.is_finite() { crate::output::json_number(value) } else { Value::Null }
}
