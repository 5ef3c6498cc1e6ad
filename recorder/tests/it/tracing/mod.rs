//! What programs that use `tracing` get recorded.

mod fields;
mod filters;
mod layer;
mod lives;
mod sampled;
mod slices;
mod threads;
mod timed;
mod waiting;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use ringscope::{
    Recorder,
    tracing::{MetricsLayer, Subscriber},
};
use tracing_subscriber::{Layer, prelude::*};

use crate::child::{Child, End, Scene};

const SUBSCRIBER: &str = "subscriber";
const LAYER: &str = "layer";
const KINDS: [&str; 2] = [SUBSCRIBER, LAYER];

fn install(kind: &str) {
    match kind {
        LAYER => tracing_subscriber::registry().with(MetricsLayer::new()).init(),
        _ => Subscriber::new().install().unwrap(),
    }
}

/// A recording with the stand-alone subscriber, or in [a scenario of both](of_both) with either.
fn recording(scene: &Scene) -> Recorder {
    let recorder = scene.builder().start().unwrap();
    install(&scene.argument());
    recorder
}

/// A scenario that begins with [`recording`], played with the subscriber and with the layer.
fn of_both(scenario: Child) -> impl Iterator<Item = End> {
    KINDS.into_iter().map(move |kind| {
        println!("with the {kind}:");
        scenario.another().argument(kind).run().succeeded()
    })
}

/// Another layer, which counts what is entered.
struct Count(Arc<AtomicU32>);

impl Count {
    fn new() -> (Self, Arc<AtomicU32>) {
        let count = Arc::default();
        (Self(Arc::clone(&count)), count)
    }
}

impl<S: tracing::Subscriber> Layer<S> for Count {
    fn on_enter(&self, _: &tracing::span::Id, _: tracing_subscriber::layer::Context<'_, S>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Polls a future once, as an executor would.
fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Is ready when it is polled for the second time.
#[derive(Default)]
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}
