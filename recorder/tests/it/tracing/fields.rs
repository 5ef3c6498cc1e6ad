//! Fields, links, events and errors.

use std::{error::Error, fmt};

use ringscope::{Kind, tracing::Subscriber};
use ringscope_format::{LinkRole, OwnedValue};
use tracing::{Span, field, info_span};

use super::{of_both, recording};
use crate::{child::child, told::Event};

fn text(event: &Event, key: &str) -> (String, bool) {
    match event.field(key) {
        Some(OwnedValue::Text { text, cut }) => (text.clone(), *cut),
        other => panic!("{key} of {} is {other:?}", event.name),
    }
}

fn links(event: &Event) -> Vec<(LinkRole, u32)> {
    event.links.iter().map(|link| (link.role, link.id as u32)).collect()
}

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("as far as ")?;
        panic!("this cannot be shown");
    }
}

/// Panics where its text, made of characters of several bytes, is full.
struct PanicsLate(&'static str);

impl fmt::Debug for PanicsLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        let _ = f.write_str(&"ä".repeat(10_000));
        panic!("this cannot be shown either");
    }
}

/// Uses `tracing` while it is being formatted.
struct Talks;

impl fmt::Debug for Talks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        info_span!("inside of a format", depth = 2).in_scope(|| tracing::warn!("formatting"));
        f.write_str("talked")
    }
}

#[test]
fn values_keep_their_type_and_everything_else_is_text() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let duration = std::time::Duration::from_millis(3);
        let span = info_span!("all", a = u64::MAX, b = i64::MIN, c = 0.5, d = true, e = "text", f = ?Some(1), g = %duration.as_millis(), h = field::Empty, i = u128::MAX);
        span.in_scope(|| ());
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let all = told.only("all");
    assert_eq!(all.field("a"), Some(&OwnedValue::U64(u64::MAX)));
    assert_eq!(all.field("b"), Some(&OwnedValue::I64(i64::MIN)));
    assert_eq!(all.field("c"), Some(&OwnedValue::F64(0.5)));
    assert_eq!(all.field("d"), Some(&OwnedValue::Bool(true)));
    assert_eq!(text(all, "e").0, "text");
    assert_eq!(text(all, "f").0, "Some(1)");
    assert_eq!(text(all, "g").0, "3");
    assert_eq!(all.field("h"), None);
    assert_eq!(text(all, "i").0, u128::MAX.to_string());
}

#[test]
fn values_that_come_later_are_recorded_with_the_next_slice_and_the_life() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let once = info_span!("once", status = field::Empty, size = field::Empty);
        once.in_scope(|| drop(Span::current().record("status", 200).record("status", 404).clone()));
        drop(once);
        let often = info_span!("often", id = 7, status = field::Empty);
        often.in_scope(|| ());
        often.in_scope(|| drop(Span::current().record("status", 200).clone()));
        often.in_scope(|| ());
        drop(often);
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        assert_eq!(told.only("once").fields, [("status", OwnedValue::I64(404))]);
        let [first, second, third, life] = told.named("often")[..] else {
            panic!("three and a life")
        };
        assert_eq!(first.fields, [("id", OwnedValue::I64(7))]);
        assert_eq!(second.fields, [("status", OwnedValue::I64(200))]);
        assert_eq!(third.fields, []);
        assert_eq!(
            (life.field("id"), life.field("status")),
            (first.field("id"), second.field("status"))
        );
    }
}

#[test]
fn fields_from_before_the_recording_come_with_its_first_slice() {
    let end = child(|scene| {
        Subscriber::new().install().unwrap();
        let layer = info_span!("layer", index = 3, weights = field::Empty);
        layer.record("weights", "q4");
        layer.in_scope(|| ());
        let recorder = scene.builder().start().unwrap();
        layer.in_scope(|| ());
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let layer = told.only("layer");
    assert_eq!(layer.field("index"), Some(&OwnedValue::I64(3)));
    assert_eq!(text(layer, "weights").0, "q4");
}

#[test]
fn the_latest_value_counts_however_often_and_in_however_many_slices_it_was_recorded() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let query = info_span!("query", id = 7, rows = field::Empty, state = "new");
        for rows in 0..50 {
            query.in_scope(|| drop(query.record("rows", rows).record("state", "at work").clone()));
        }
        query.in_scope(|| ());
        drop(query.record("state", "done").clone());
        drop(query);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let [ref slices @ .., life] = told.named("query")[..] else { panic!("slices and a life") };
    assert_eq!(slices.len(), 51);
    for (rows, slice) in slices[..50].iter().enumerate() {
        assert_eq!(slice.field("rows"), Some(&OwnedValue::I64(rows as i64)));
        assert_eq!(text(slice, "state").0, "at work");
        assert_eq!(slice.fields.len(), if rows == 0 { 3 } else { 2 });
    }
    assert_eq!(slices[50].fields, []);
    // Each of them once, as it was in the end.
    let of_program = life.fields.iter().map(|(key, _)| *key);
    let of_program: Vec<_> =
        of_program.filter(|key| ["id", "rows", "state"].contains(key)).collect();
    assert_eq!(of_program, ["id", "rows", "state"]);
    assert_eq!(life.field("rows"), Some(&OwnedValue::I64(49)));
    assert_eq!(text(life, "state"), ("done".to_owned(), false));
    assert_eq!(life.field("fields_left_out"), None);
}

#[test]
fn a_text_that_is_recorded_again_takes_the_place_of_the_one_before() {
    let status = |i: usize| format!("{i:->40}");
    let end = child(move |scene| {
        let recorder = recording(scene);
        let span = info_span!("job", name = "as it was", status = field::Empty, last = "as ever");
        let _inside = span.enter();
        for i in 0..200 {
            // Shorter, longer, and as long as the one before.
            span.record("status", &status(i)[i % 3..]);
        }
        span.record("status", status(200));
        drop(_inside);
        drop(span);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let job = told.only("job");
    assert_eq!(text(job, "status"), (status(200), false));
    assert_eq!(text(job, "name").0, "as it was");
    assert_eq!(text(job, "last").0, "as ever");
}

#[test]
fn long_texts_are_cut_and_many_fields_are_kept() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let long = "ä".repeat(100_000);
        info_span!("long", before = 1, long, after = "short").in_scope(|| ());
        info_span!("formatted", long = ?vec![long.as_str(); 10]).in_scope(|| ());
        info_span!(
            "many", a = %long, b = %long, c = %long, d = %long, e = %long, f = %long, g = %long,
            h = %long, i = %long, j = %long, k = %long, l = %long, m = %long, n = %long, o = %long,
            p = %long, q = %long, r = %long, s = %long, t = %long, u = %long, v = %long, w = %long,
            x = %long, y = %long, z = %long
        )
        .in_scope(|| ());
        let stored = recorder.finish().unwrap();
        assert_eq!((stored.stored, stored.lost), (3, 0));
    });
    let told = end.run().succeeded().trace();
    let long = told.only("long");
    let (kept, cut) = text(long, "long");
    assert!(cut && kept.len() > 600 && kept.chars().all(|letter| letter == 'ä'), "{kept}");
    assert_eq!(text(long, "after"), ("short".to_owned(), false));
    assert_eq!(long.field("before"), Some(&OwnedValue::I64(1)));
    let (kept, cut) = text(told.only("formatted"), "long");
    assert!(cut && kept.starts_with("[\"ää"), "{kept}");
    let many = told.only("many");
    assert_eq!(many.number("fields_left_out"), 4);
    let texts = many.fields.iter().filter(|(key, _)| key.len() == 1);
    assert_eq!(texts.map(|(key, _)| assert!(text(many, key).1)).count(), 22);
}

#[test]
fn a_debug_that_panics_does_not_take_the_program_down() {
    let end = child(|scene| {
        let recorder = recording(scene);
        info_span!("bad", before = 1, value = ?Panics, after = 2).in_scope(|| ());
        tracing::error!(value = ?Panics, "an event");
        let later = info_span!("later", value = field::Empty);
        later.in_scope(|| later.record("value", field::debug(Panics)));
        drop(later);
        recorder.finish().unwrap();
        scene.say("alive", true);
    });
    for end in of_both(end) {
        assert_eq!(end.said("alive"), "true");
        let told = end.trace();
        let bad = told.only("bad");
        assert_eq!(text(bad, "value").0, "as far as (formatting it panicked)");
        assert_eq!(
            (bad.field("before"), bad.field("after")),
            (Some(&OwnedValue::I64(1)), Some(&OwnedValue::I64(2)))
        );
        assert_eq!(text(told.only("later"), "value").0, "as far as (formatting it panicked)");
        let events = told.events.iter().filter(|event| event.field("message").is_some());
        let event = events.into_iter().find(|event| event.field("value").is_some()).unwrap();
        assert_eq!(text(event, "message").0, "an event");
    }
}

#[test]
fn the_remark_about_a_panic_is_there_wherever_it_cuts_the_text() {
    let end = child(|scene| {
        let recorder = recording(scene);
        info_span!("even", value = ?PanicsLate("")).in_scope(|| ());
        info_span!("odd", value = ?PanicsLate(".")).in_scope(|| ());
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    for name in ["even", "odd"] {
        let (kept, _) = text(told.only(name), "value");
        assert!(kept.ends_with("(formatting it panicked)"), "{kept}");
    }
}

#[test]
fn values_may_use_tracing_while_they_are_formatted() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let span = info_span!("outer", value = ?Talks, other = field::Empty);
        span.in_scope(|| {
            span.record("other", field::debug(Talks));
            tracing::info!(value = ?Talks);
        });
        drop(span);
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        assert_eq!(told.named("inside of a format").len(), 3);
        assert_eq!(text(told.only("outer"), "value").0, "talked");
        assert_eq!(text(told.only("outer"), "other").0, "talked");
    }
}

#[test]
fn explicit_parents_and_follows_from_are_links() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let (cause, request) = (info_span!("cause"), info_span!("request"));
        cause.in_scope(|| ());
        request.in_scope(|| ());
        let part = info_span!(parent: &request, "part");
        part.follows_from(&cause);
        part.follows_from(&request);
        part.in_scope(|| tracing::info!(parent: &cause, "elsewhere"));
        drop(part);
        info_span!(parent: None, "root").in_scope(|| ());
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let (cause, request) = (told.only("cause").link, told.only("request").link);
        let expected = [
            (LinkRole::Parent, request),
            (LinkRole::FollowsFrom, cause),
            (LinkRole::FollowsFrom, request),
        ];
        assert_eq!(links(told.only("part")), expected);
        let event = told.events.iter().find(|event| event.kind == Kind::EVENT).unwrap();
        assert_eq!(links(event), [(LinkRole::Parent, cause)]);
        assert_eq!(links(told.only("root")), []);
    }
}

#[test]
fn a_span_that_says_it_has_no_parent_has_none_wherever_it_is_created() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let outer = info_span!("outer").entered();
        for span in [info_span!(parent: None, "root"), info_span!("inner")] {
            span.in_scope(|| ());
            span.in_scope(|| ());
        }
        drop(outer);
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let parents = |name: &str| {
            let life = *told.named(name).last().unwrap();
            assert_eq!(life.number("slices"), 2);
            let mut links = links(life);
            links.retain(|link| link.0 == LinkRole::Parent);
            links
        };
        let outer = told.only("outer").link;
        assert_eq!(parents("inner"), [(LinkRole::Parent, outer)]);
        assert_eq!(parents("root"), []);
    }
}

#[derive(Debug)]
struct Failure {
    what: String,
    because: Option<Box<Failure>>,
}

impl Failure {
    /// The first failed because of the others.
    fn of(chain: impl IntoIterator<Item = impl ToString, IntoIter: DoubleEndedIterator>) -> Self {
        let because = chain.into_iter().rev().fold(None, |because, what| {
            Some(Box::new(Failure { what: what.to_string(), because }))
        });
        *because.unwrap()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.because.as_deref().map(|because| because as _)
    }
}

/// Is its own cause.
#[derive(Debug)]
struct Loop;

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("again")
    }
}

impl Error for Loop {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

#[test]
fn an_error_is_told_with_what_led_to_it() {
    let causes = ["cannot load model.gguf", "cannot read block 7", "disk is gone"];
    let long = || (0..16).map(|i| format!("{i:-<500}"));
    let end = child(move |scene| {
        let recorder = recording(scene);
        let error: &(dyn Error + 'static) = &Failure::of(causes);
        info_span!("span", error).in_scope(|| ());
        tracing::warn!(name: "warning", error, attempt = 3);
        tracing::error!(name: "error", error);
        let error: &(dyn Error + 'static) = &Failure::of(["alone"]);
        tracing::error!(name: "alone", error);
        let error: &(dyn Error + 'static) = &Failure::of(long());
        tracing::warn!(name: "cut", error);
        tracing::error!(name: "long", error);
        let error: &(dyn Error + 'static) = &Loop;
        tracing::warn!(name: "looping warning", error);
        tracing::error!(name: "looping error", error);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let error = |name: &str| text(told.only(name), "error");
    for name in ["span", "warning", "error"] {
        assert_eq!(error(name), (causes.join(": "), false), "{name}");
    }
    assert_eq!(error("alone").0, "alone");
    let long = long().collect::<Vec<_>>().join(": ");
    let (cut, is_cut) = error("cut");
    assert!(is_cut && cut.len() > 500 && long.starts_with(&cut), "{cut}");
    assert_eq!(error("long"), (long, false));
    let looping = format!("again{}: ...", ": again".repeat(16));
    for name in ["looping warning", "looping error"] {
        assert_eq!(error(name), (looping.clone(), false), "{name}");
    }
}

#[test]
fn events_of_the_level_error_are_errors() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let _span = info_span!("request").entered();
        tracing::error!(kind = "timeout", code = 504_u64, "no answer from {}", "upstream");
        tracing::error!(name: "db.down", retries = 3);
        tracing::warn!("only a warning");
        drop(_span);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let errors: Vec<_> = told.events.iter().filter(|event| event.kind == Kind::ERROR).collect();
    assert_eq!(errors.len(), 2);
    assert_eq!(text(errors[0], "message").0, "no answer from upstream");
    assert_eq!(text(errors[0], "kind").0, "timeout");
    assert_eq!((errors[0].number("code"), errors[0].depth), (504, 1));
    assert!(errors[0].name.starts_with("it::tracing::fields:"), "{}", errors[0].name);
    assert_eq!(errors[1].name, "db.down");
}
