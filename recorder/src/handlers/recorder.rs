//! Attaching and detaching at a running recorder.

use std::sync::Arc;

use super::{
    ConsoleExporter, ExportFilter, ExportReport, ExporterId, JsonlExporter, MetricExporter,
    attached::Attached, repro::ReproExporter,
};
use crate::{Recorder, cold::shared::lock, summary::Problem};

impl Recorder {
    /// Has an exporter see every event from now on that the filter lets through.
    pub fn attach(&self, exporter: impl MetricExporter, filter: ExportFilter) -> ExporterId {
        self.attach_counted(exporter, filter).id
    }

    /// The same, for whoever wants to know its counts also when it has ended.
    pub(crate) fn attach_counted(
        &self,
        exporter: impl MetricExporter,
        filter: ExportFilter,
    ) -> Arc<Attached> {
        self.shared.handlers.attach(exporter, filter, self.shared.ticks_per_second)
    }

    /// Ends an exporter once it has seen everything that was recorded before this
    /// call. That it comes to it is waited for as by [`flush`](Self::flush), ten seconds at most where
    /// the drain is behind; after that the exporter has two seconds to take it. `None` if it is not
    /// attached: it was dropped already, and the summary will say why.
    ///
    /// An exporter that detaches itself is not waited for: it is still given what has come to it,
    /// ends after that, and the report is how it went until this call.
    pub fn detach(&self, id: ExporterId) -> Option<ExportReport> {
        // The drain does not come any more to one that is still at work when a recording ends.
        if !self.shared.handlers.is_called_by(id)? {
            self.flush();
        }
        self.shared.handlers.detach(id)
    }

    /// How exporting goes.
    pub fn export_report(&self, id: ExporterId) -> Option<ExportReport> {
        self.shared.handlers.report(id)
    }

    /// Attaches what the builder or the environment asked for. What cannot be is
    /// said and noted; the recording goes on without it.
    pub(crate) fn attach_configured(&self) {
        let output = &self.shared.config.output;
        if output.console || output.slow.is_some() {
            let console = ConsoleExporter::new();
            let console = output.slow.into_iter().fold(console, ConsoleExporter::slow);
            let console = if output.console { console } else { console.only_slow() };
            self.attach(console, ExportFilter::all());
        }
        if let Some(path) = &output.jsonl {
            match JsonlExporter::create(path) {
                Ok(jsonl) => {
                    self.attach(jsonl, ExportFilter::all());
                }
                Err(error) => self.cannot_export(&error),
            }
        }
        if output.repro {
            let repro = ReproExporter::new(&self.shared.config.path);
            self.attach(repro, ExportFilter::all().only_errors());
        }
        #[cfg(feature = "statistics")]
        if let (Some(path), Some(every)) = (&output.jsonl, output.jsonl_interval) {
            match crate::statistics::RowsFile::create(path, every) {
                Ok(rows) => {
                    self.attach(rows, crate::statistics::filter());
                }
                Err(error) => self.cannot_export(&error),
            }
        }
    }

    fn cannot_export(&self, error: &std::io::Error) {
        crate::settings::warn(format!("not exporting: {error}"));
        lock(&self.shared.problems).push(Problem::Exporter(error.to_string()));
    }
}
