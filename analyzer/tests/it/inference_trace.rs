//! A small inference, always the same: 20 steps of 8 blocks, a helper thread, a
//! GPU queue.

use ringscope_format::{Kind, LostCause, Record, TraceWriter, TrackKind, Value};
use tempfile::NamedTempFile;

use crate::making::header;

/// `slowness` is in percent: of two ranks, one may be slower.
pub(crate) fn inference(slowness: u64) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::new(file.reopen().unwrap(), header()).unwrap();
    let main = writer.track(TrackKind::Thread, 100, "main");
    let helper = writer.track(TrackKind::Thread, 101, "tokenizer");
    let queue = writer.track(TrackKind::GpuQueue, 0, "gpu 0");
    let name = |writer: &mut TraceWriter<_>, text: &str| writer.name(text);
    let (step, forward) = (name(&mut writer, "step"), name(&mut writer, "forward"));
    let (attn, mlp) = (name(&mut writer, "attn"), name(&mut writer, "mlp"));
    let (launch, sdpa) = (name(&mut writer, "launch"), name(&mut writer, "sdpa"));
    let (sample, encode) = (name(&mut writer, "sample"), name(&mut writer, "encode"));
    let (tokens, model) = (name(&mut writer, "tokens"), name(&mut writer, "model"));
    let blocks: Vec<u32> = (0..8).map(|n| writer.name(&format!("block_{n}"))).collect();
    let at = |mut record: Record, depth: u8| {
        record.depth = depth;
        record
    };
    let mut now = 1_000_000;
    let mut link = 0;
    for n in 0..20_u64 {
        let step_start = now;
        now += 2_000;
        let forward_start = now;
        for (block, &block_name) in blocks.iter().enumerate() {
            let block_start = now;
            now += 500;
            let attn_start = now;
            now += 200;
            link += 1;
            let mut record = at(Record::timed(Kind::LAUNCH, launch, main, now, 3_000), 4);
            record.link = link;
            writer.event(record, &[], &[]).unwrap();
            now += 3_000;
            // The third block of every seventh step waits for something.
            let wait = if n % 7 == 3 && block == 3 { 400_000 } else { 0 };
            let kernel = (40_000 + wait + n * 100) * (100 + slowness) / 100;
            let mut record = Record::timed(Kind::KERNEL, sdpa, queue, now + 5_000, kernel);
            record.link = link;
            writer.event(record, &[], &[]).unwrap();
            now += 5_000 + kernel + 1_000;
            let attn_span = Record::timed(Kind::SPAN, attn, main, attn_start, now - attn_start);
            writer.event(at(attn_span, 3), &[], &[]).unwrap();
            let mlp_length = 20_000 + block as u64 * 1_000;
            let mlp_span = Record::timed(Kind::SPAN, mlp, main, now + 100, mlp_length);
            writer.event(at(mlp_span, 3), &[], &[]).unwrap();
            now += 100 + mlp_length + 300;
            let span = Record::timed(Kind::SPAN, block_name, main, block_start, now - block_start);
            writer.event(at(span, 2), &[], &[]).unwrap();
        }
        now += 1_000;
        let span = Record::timed(Kind::SPAN, forward, main, forward_start, now - forward_start);
        writer.event(at(span, 1), &[], &[]).unwrap();
        let encode_span = Record::timed(Kind::SPAN, encode, helper, now - 250_000, 200_000);
        writer.event(encode_span, &[], &[]).unwrap();
        let sample_span = Record::timed(Kind::SPAN, sample, main, now + 50, 8_000 + n * 10);
        writer.event(at(sample_span, 1), &[], &[]).unwrap();
        now += 9_000;
        let span = Record::timed(Kind::SPAN, step, main, step_start, now - step_start);
        let fields = [(tokens, Value::U64(128 + n)), (model, Value::Text("tiny"))];
        writer.event(span, &fields, &[]).unwrap();
        now += 30_000;
    }
    writer.lose(helper, LostCause::RingFull, 12);
    writer.finish().unwrap();
    file
}
