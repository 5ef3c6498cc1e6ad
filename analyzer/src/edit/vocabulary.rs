//! Words that say what an event is and not whose: reports look for them, and everyone's
//! trace may have them. They are those of `format-spec/VOCABULARY.md`.

/// Names of events.
const NAMES: [&str; 46] = [
    "cache.access",
    "cache.hit",
    "cache.miss",
    "call",
    "call.exception",
    "checkpoint",
    "circuit.opened",
    "command_buffer.queued",
    "dataset.batch",
    "dataset.load",
    "device.error",
    "device.found",
    "device.in_use_bytes",
    "device.low_power",
    "device.power_watts",
    "device.resets",
    "device.sync",
    "device.temperature_celsius",
    "device.thermal_state",
    "device.utilization_percent",
    "evaluation",
    "inference",
    "kernel.compiled",
    "kernel.untimed",
    "kv_cache.grow",
    "memory.allocate",
    "memory.device",
    "memory.phase",
    "memory.pool",
    "memory.release",
    "memory.weights",
    "pool.checkin",
    "pool.checkout",
    "pool.depth",
    "pool.size",
    "process.",
    "recorder.",
    "request.scope",
    "serialize",
    "structure.exception",
    "structure.started",
    "structure.stopped",
    "tensor.op",
    "training.epoch",
    "training.step",
    "worker.crash",
];

/// Values of fields.
const VALUES: [&str; 8] = ["cpu", "d2d", "d2h", "h2d", "host", "read", "weights", "write"];

/// Keys of metadata that SPEC 8.5 lists.
const METADATA: [&str; 11] = [
    "dump.covers_ns",
    "dump.reason",
    "host.arch",
    "host.cpu",
    "host.cpus",
    "host.name",
    "host.os",
    "keep_last.window_ns",
    "process.command",
    "recorder.version",
    "rules",
];

/// Whether a name is of the vocabulary, as the name of an event or as a value.
pub(super) fn has_name(text: &str) -> bool {
    let is_own = text.starts_with("process.") || text.starts_with("recorder.");
    is_own || NAMES.binary_search(&text).is_ok() || has_value(text)
}

/// Whether a text is a value of the vocabulary, or the shape of a launch: `8x8x1`.
pub(super) fn has_value(text: &str) -> bool {
    let is_side = |side: &str| !side.is_empty() && side.bytes().all(|byte| byte.is_ascii_digit());
    let is_shape = text.contains('x') && text.split('x').all(is_side);
    is_shape || VALUES.binary_search(&text).is_ok()
}

/// Whether a key of metadata is one that recorders write.
pub(super) fn has_metadata(key: &str) -> bool {
    METADATA.binary_search(&key).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str = include_str!("../../../format-spec/VOCABULARY.md");

    #[test]
    fn every_name_of_the_document_is_known_and_every_known_one_is_in_it() {
        let rows = VOCABULARY.lines().skip_while(|line| !line.starts_with("## Kernels"));
        for row in rows.filter(|line| line.starts_with("| `")) {
            let cell = row.split('|').nth(1).unwrap();
            for name in cell.split('`').skip(1).step_by(2) {
                assert!(has_name(name), "{name}");
            }
        }
        for word in NAMES.iter().chain(&VALUES) {
            assert!(VOCABULARY.contains(&format!("`{word}")), "{word}");
        }
        assert!(NAMES.is_sorted() && VALUES.is_sorted() && METADATA.is_sorted());
    }

    #[test]
    fn every_key_of_metadata_is_in_the_format() {
        let format = include_str!("../../../format-spec/SPEC.md");
        for key in METADATA {
            assert!(format.contains(&format!("`{key}`")) && has_metadata(key), "{key}");
        }
    }

    #[test]
    fn shapes_of_launches_are_known_and_numbers_are_not() {
        assert!(has_value("8x8x1") && has_value("128x1"));
        assert!(!has_value("4711") && !has_value("x") && !has_value("8xa") && !has_value(""));
    }
}
