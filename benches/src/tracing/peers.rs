//! What else records the spans of `tracing`, set up as its own documentation
//! advises. Whatever a peer keeps doing in the background is let finish between bursts.

use std::fs::File;
use std::future::Future;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Result;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

use super::subjects::{Nothing, Subscribed};
use crate::record::subject::{Outcome, Session};

pub(crate) const PEERS: &[Subscribed] = &[
    Subscribed { name: "tracing-tracy", setup: "in memory, no profiler connected", start: tracy },
    Subscribed {
        name: "tracing-opentelemetry",
        setup: "batches to an exporter that drops them; one span however often it is entered",
        start: opentelemetry,
    },
    Subscribed { name: "tracing-chrome", setup: "JSON file, default settings", start: chrome },
    Subscribed {
        name: "tracing-subscriber-json",
        setup: "JSON lines of enter and exit, to a file",
        start: json,
    },
];

fn tracy(_: &Path) -> Result<Box<dyn Session>> {
    tracy_client::Client::start();
    tracing_subscriber::registry().with(tracing_tracy::TracyLayer::default()).try_init()?;
    Ok(Box::new(Nothing))
}

#[derive(Debug)]
struct Drops;

impl SpanExporter for Drops {
    fn export(&self, _: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        std::future::ready(Ok(()))
    }
}

struct Provider(SdkTracerProvider);

impl Session for Provider {
    fn settle(&self) {
        let _ = self.0.force_flush();
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

fn opentelemetry(_: &Path) -> Result<Box<dyn Session>> {
    let provider = SdkTracerProvider::builder().with_batch_exporter(Drops).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("bench"));
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(Box::new(Provider(provider)))
}

struct Chrome(#[allow(dead_code)] Mutex<FlushGuard>); // ends the file when it is dropped

impl Session for Chrome {
    fn finish(self: Box<Self>) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

fn chrome(dir: &Path) -> Result<Box<dyn Session>> {
    let (layer, guard) = ChromeLayerBuilder::new().file(dir.join("trace.json")).build();
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(Box::new(Chrome(Mutex::new(guard))))
}

fn json(dir: &Path) -> Result<Box<dyn Session>> {
    let file = File::create(dir.join("trace.jsonl"))?;
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .with_span_events(FmtSpan::ENTER | FmtSpan::EXIT)
        .with_writer(Mutex::new(file));
    tracing_subscriber::registry().with(lines).try_init()?;
    Ok(Box::new(Nothing))
}
