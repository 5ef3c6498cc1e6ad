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
    task::{Context, Poll, Waker},
};

use ringscope::{Recorder, tracing::Subscriber};

use crate::child::Scene;

/// A recording with the stand-alone subscriber.
fn recording(scene: &Scene) -> Recorder {
    let recorder = scene.builder().start().unwrap();
    Subscriber::new().install().unwrap();
    recorder
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
