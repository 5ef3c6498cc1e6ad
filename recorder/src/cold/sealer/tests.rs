//! What the sealer decides, without its thread.

use super::*;
use crate::{cold::trace_file::test_header, config::Builder, rules::Rules};

/// Rules are of the whole process.
static RULES: Mutex<()> = Mutex::new(());

/// In a directory that goes with it.
fn sealer(dir: &tempfile::TempDir, builder: Builder) -> Sealer {
    let config = builder.path(dir.path().join("trace")).config;
    let header = test_header(Layout::finished());
    let file = first_file(&config, header).unwrap();
    let shared = Arc::new(Shared::new(config, header.nominal_hz));
    Sealer::new(shared, file, Vec::new()).unwrap().0
}

#[test]
fn last_readings_that_are_asked_for_while_others_are_taken_are_taken_after_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut sealer = sealer(&dir, Builder::default());
    sealer.shared.is_on.store(true, Ordering::Release);
    let now = sealer.next_reading;
    let mut peaks = Vec::new();
    for asks in [false, true, false, false] {
        sealer.look_for_readings(now, |shared, with_peak, _| {
            shared.last_readings.fetch_or(asks, Ordering::AcqRel);
            peaks.push(with_peak);
        });
        assert_eq!(sealer.shared.last_readings.load(Ordering::Acquire), asks);
        // Those that are taken at intervals are due once more.
        sealer.next_reading = if peaks.len() < 2 { now } else { now + LOOK_ROUND };
    }
    // The first have the peak anyway; behind the last ones nobody has asked again.
    assert_eq!(peaks, [true, false, true]);
}

#[test]
fn rules_that_are_written_at_the_end_were_not_left_out() {
    const CHANGES: [(&[&str], bool); 4] = [
        (&["a=off"], false),
        (&["a=off", "a=off"], false),
        (&["a=off", "b=off"], true),
        (&["a=off", ""], true),
    ];
    let _alone = lock(&RULES);
    for (changes, is_left_out) in CHANGES {
        let dir = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3_600);
        let mut sealer = sealer(&dir, Builder::default().keep_last(hour, 4 << 20));
        sealer.changes_in_file = MOST_RULES;
        for rules in changes {
            call_site::set_rules(rules.parse().unwrap());
            sealer.write_new_rules();
            assert_eq!(sealer.log.rules, "");
        }
        sealer.shared.stop_sealer.store(true, Ordering::Release);
        sealer.write_new_rules();
        assert_eq!(Some(&sealer.log.rules.as_str()), changes.last());
        let told: &[_] = if is_left_out { &[Problem::RulesLeftOut] } else { &[] };
        assert_eq!(*lock(&sealer.shared.problems), told, "{changes:?}");
        call_site::set_rules(Rules::default());
    }
}

#[test]
fn each_file_of_a_rotation_says_the_rules_of_its_own_time() {
    let _alone = lock(&RULES);
    let dir = tempfile::tempdir().unwrap();
    let mut sealer = sealer(&dir, Builder::default().rotate_at(1 << 20));
    let set = |rules: &str| call_site::set_rules(rules.parse().unwrap());
    set("a=off");
    sealer.rotate();
    sealer.write_new_rules();
    let next = |sealer: &Sealer| sealer.next_log.as_ref().unwrap().rules.clone();
    assert_eq!((sealer.log.rules.as_str(), next(&sealer).as_str()), ("a=off", "a=off"));
    // Before the drain comes to it.
    set("b=off");
    sealer.write_new_rules();
    assert_eq!((sealer.log.rules.as_str(), next(&sealer).as_str()), ("b=off", "a=off"));
    *lock(&sealer.shared.left_file) = Some((1, Vitals::default()));
    set("c=off");
    sealer.write_new_rules();
    assert_eq!(sealer.log.rules, "b=off", "the drain has left it");
    sealer.close_left_file().unwrap();
    let end = sealer.log.end;
    sealer.write_new_rules();
    assert_eq!(sealer.log.rules, "c=off");
    assert!(sealer.log.end > end);
    set("");
}

#[test]
fn a_control_file_that_is_empty_is_about_to_be_written() {
    let _alone = lock(&RULES);
    let dir = tempfile::tempdir().unwrap();
    let mut sealer = sealer(&dir, Builder::default());
    let control = dir.path().join("trace.control");
    for written in ["", "a=off\n"] {
        std::fs::write(&control, "").unwrap();
        sealer.read_control_file();
        assert!(control.exists());
        std::fs::write(&control, written).unwrap();
        sealer.read_control_file();
        assert!(!control.exists(), "nobody has written to it for as long as a look takes");
        assert_eq!(call_site::rules().to_string(), written.trim());
    }
    call_site::set_rules(Rules::default());
}

#[test]
fn there_is_time_for_pauses_unless_slots_or_somebody_wait() {
    let dir = tempfile::tempdir().unwrap();
    let Sealer { shared, log, .. } = sealer(&dir, Builder::default());
    for full in 1..=sealing::HURRY + 1 {
        assert!(has_time(&shared, &log.file), "{full}");
        log.file.take_slot(|| full as u64).unwrap().hand_over();
    }
    assert!(!has_time(&shared, &log.file));
    let file = log.file;
    while file.full_slots() > 0 {
        file.free_slot(file.next_full_slot().unwrap(), || ());
    }
    for asked in [&shared.hurry, &shared.stop_sealer] {
        assert!(has_time(&shared, &file));
        asked.store(true, Ordering::Release);
        assert!(!has_time(&shared, &file));
        asked.store(false, Ordering::Release);
    }
}
