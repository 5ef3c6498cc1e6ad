//! Names: many, empty, huge, and cut between characters.

use ringscope::{CallSite, event, span};

use crate::child::child;

#[test]
fn seventy_thousand_names_are_all_known() {
    const NAMES: u32 = 70_000;
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        for i in 0..NAMES {
            let site = CallSite::named(&format!("name number {i}"));
            drop(span!(site: site));
            if i % 5_000 == 0 {
                assert!(recorder.flush());
            }
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (u64::from(NAMES), 0));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    for (i, event) in told.events.iter().enumerate() {
        assert_eq!(event.name, format!("name number {i}"));
    }
}

#[test]
fn a_second_recording_knows_the_names_of_the_first() {
    let end = child(|scene| {
        let sites: Vec<_> = (0..20_000).map(|i| CallSite::named(&format!("n{i}"))).collect();
        for _ in 0..2 {
            let recorder = scene.builder().start().unwrap();
            sites.iter().for_each(|site| drop(span!(site: site)));
            assert_eq!(recorder.finish().unwrap().stored, 20_000);
        }
    });
    let told = end.run().succeeded().trace();
    assert!(told.events.iter().enumerate().all(|(i, event)| event.name == format!("n{i}")));
}

#[test]
fn an_empty_name_is_a_name() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        drop(span!(""));
        event!("", x = "");
        drop(span!(site: CallSite::named("")));
        assert_eq!(recorder.finish().unwrap().stored, 3);
    });
    let told = end.run().succeeded().trace();
    assert_eq!(told.named("").len(), 3);
}

/// 5,001 bytes, of which byte 1,024 is the second half of a character.
const HUGE: &str = {
    const BYTES: [u8; 5_001] = {
        let mut bytes = [b'x'; 5_001];
        let mut at = 1;
        while at < 5_001 {
            (bytes[at], bytes[at + 1]) = (0xC3, 0xA9);
            at += 2;
        }
        bytes
    };
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => panic!("not UTF-8"),
    }
};

#[test]
fn a_huge_name_is_cut_between_characters_and_says_so() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        drop(span!(HUGE));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    let told = end.run().succeeded().trace();
    let cut = format!("x{}", "é".repeat(511));
    assert_eq!((told.events[0].name, cut.len()), (cut.as_str(), 1_023));
    let names = told.trace.names();
    let (id, _) = names.iter().find(|(_, text)| *text == cut).unwrap();
    assert!(names.was_cut(id));
}

#[test]
fn a_huge_name_made_at_run_time_is_cut_and_says_so() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let site = CallSite::named(HUGE);
        drop(span!(site: site));
        assert!(std::ptr::eq(site, CallSite::named(HUGE)));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    let told = end.run().succeeded().trace();
    let cut = format!("x{}", "é".repeat(511));
    assert_eq!(told.events[0].name, cut);
    let names = told.trace.names();
    let (id, _) = names.iter().find(|(_, text)| *text == cut).unwrap();
    assert!(names.was_cut(id));
}

#[test]
fn names_with_line_ends_zeros_and_commas_read_back_unchanged() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        for name in ["a\nb", "\0", "a,b=off", "*", "\u{1F980}", " "] {
            drop(span!(site: CallSite::named(name)));
        }
        assert_eq!(recorder.finish().unwrap().stored, 6);
    });
    let told = end.run().succeeded().trace();
    let names: Vec<&str> = told.events.iter().map(|event| event.name).collect();
    assert_eq!(names, ["a\nb", "\0", "a,b=off", "*", "\u{1F980}", " "]);
}
