//! `#[instrument]` puts a span around a function, whatever the function looks like.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use ringscope_attribute::instrument;

use crate::child::child;

#[instrument]
fn plain(n: u64) -> u64 {
    if n == 0 { 0 } else { n + inner::generic(&[n]) }
}

mod inner {
    use super::instrument;

    /// A generic function with attributes, bounds and braces in its signature.
    #[instrument("renamed")]
    #[inline(never)]
    pub(super) fn generic<T>(values: &[T]) -> u64
    where
        T: Copy + Into<u64>,
        [(); 1]: Sized,
    {
        values.iter().map(|&value| value.into()).sum()
    }
}

struct Model;

impl Model {
    #[instrument]
    fn forward(&mut self) -> Result<u64, String> {
        let value: Result<u64, String> = Err("early".to_owned());
        let value = value?;
        Ok(value)
    }
}

#[instrument]
async fn request(n: u64) -> u64 {
    n + 1
}

fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing in it waits"),
    }
}

#[test]
fn functions_methods_and_futures_record_a_span_under_their_name() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        assert_eq!(plain(2), 4);
        assert_eq!(Model.forward(), Err("early".to_owned()));
        assert_eq!(finish(request(1)), 2);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let mut names: Vec<&str> = told.events.iter().map(|event| event.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["forward", "plain", "renamed", "request"]);
}
