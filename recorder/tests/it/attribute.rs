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

/// As programs make many functions that are alike: the body comes in a group without delimiters.
macro_rules! functions {
    ($visibility:vis $name:ident, $body:block) => {
        #[instrument]
        $visibility fn $name() -> u64 $body
    };
    (async $name:ident, $body:block) => {
        #[instrument]
        async fn $name() -> u64 $body
    };
    ($item:item) => {
        #[instrument]
        $item
    };
}
/// And hands it on to another macro, in one more group.
macro_rules! handed_on {
    ($name:ident, $body:block) => {
        functions!(pub(crate) $name, $body);
    };
}

functions!(made, { 3 });
functions!(async made_to_wait, { 4 });
functions!(
    fn made_whole() -> u64 {
        5
    }
);
handed_on!(made_of_made, { 6 });

#[instrument]
fn with_attributes_of_its_body() -> u64 {
    //! What it does.
    #![allow(unused_variables)]
    /*! And why. */
    let unused = 7;
    #[expect(unused_mut, reason = "an attribute of a statement stays with it")]
    let mut eight = 8;
    eight
}

#[instrument]
fn with_nothing_but_attributes() {
    //! Does nothing.
}

fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing in it waits"),
    }
}

#[test]
fn functions_that_macros_make_and_bodies_with_attributes_record_a_span_too() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        assert_eq!((made(), finish(made_to_wait()), made_whole(), made_of_made()), (3, 4, 5, 6));
        assert_eq!(with_attributes_of_its_body(), 8);
        with_nothing_but_attributes();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let names: Vec<&str> = told.events.iter().map(|event| event.name).collect();
    let expected = [
        "made",
        "made_to_wait",
        "made_whole",
        "made_of_made",
        "with_attributes_of_its_body",
        "with_nothing_but_attributes",
    ];
    assert_eq!(names, expected);
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
