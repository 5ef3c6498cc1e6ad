//! puffin with its `GlobalFrameView`, which keeps the most recent frames in
//! memory, packed, and can write them to a `.puffin` file.
//!
//! puffin hands a thread's stream over whenever its outermost scope closes. As
//! in its own bench, one is open around a burst and closes untimed after it;
//! then the frame turns over.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use puffin::{GlobalFrameView, GlobalProfiler, ProfilerScope};

use crate::record::subject::{NEST, Outcome, Session, Subject};

pub(crate) struct Puffin;

struct Viewed {
    view: GlobalFrameView,
    file: PathBuf,
}

thread_local! {
    static OUTERMOST: RefCell<Option<ProfilerScope>> = const { RefCell::new(None) };
}

/// Opens the thread's outermost scope unless it is open.
fn open_outermost() {
    OUTERMOST.with_borrow_mut(|scope| {
        if scope.is_none() {
            *scope = puffin::profile_scope_custom!("burst");
        }
    });
}

impl Subject for Puffin {
    fn name(&self) -> &'static str {
        "puffin"
    }

    fn setup(&self) -> &'static str {
        "in memory, a global frame view attached; .puffin file (lz4) written at the end"
    }

    fn loses(&self) -> Option<&'static str> {
        Some("frames older than the last 1,000 and not among the 256 slowest, by design")
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        puffin::set_scopes_on(true);
        Ok(Box::new(Viewed { view: GlobalFrameView::default(), file: dir.join("trace.puffin") }))
    }

    fn burst(&self, spans: u32) {
        open_outermost();
        for _ in 0..spans {
            puffin::profile_scope!("span");
        }
    }

    fn nested_burst(&self, outers: u32) {
        open_outermost();
        for _ in 0..outers {
            puffin::profile_scope!("outer");
            for _ in 0..NEST - 1 {
                puffin::profile_scope!("inner");
            }
        }
    }

    fn around(&self, work: &mut dyn FnMut()) {
        puffin::profile_scope!("span");
        work();
    }

    // Fewer frames than the view keeps, one a burst.
    fn long_run_spans(&self) -> u64 {
        8_000_000
    }
}

impl Session for Viewed {
    fn settle_thread(&self) {
        OUTERMOST.take();
    }

    fn collect_thread(&self) {
        OUTERMOST.take();
        GlobalProfiler::lock().new_frame();
    }

    fn settle(&self) {
        GlobalProfiler::lock().new_frame();
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        GlobalProfiler::lock().new_frame();
        let view = self.view.lock();
        view.write(&mut BufWriter::new(File::create(&self.file)?))?;
        let file_bytes = Some(fs::metadata(&self.file)?.len());
        Ok(Outcome { file_bytes, ..Outcome::default() })
    }
}
