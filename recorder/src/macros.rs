//! The macros that people write into their loops.
//!
//! Each use makes one `static` call site; names and keys are interned the first
//! time it runs.

/// Opens a span that lasts until the guard is dropped.
///
/// ```
/// use ringscope::{CallSite, ThreadHandle, span};
///
/// fn forward(tokens: usize) {
///     let _span = span!("forward", tokens = tokens);
///     {
///         let _span = span!("attention");
///     }
///     let thread = ThreadHandle::current(); // for the hottest loops
///     for _ in 0..tokens {
///         let _span = span!(in thread, "decode");
///     }
///     let block = CallSite::named(&format!("block_{tokens}")); // a name made at run time
///     let _span = span!(site: block);
/// }
/// # forward(3);
/// ```
///
/// Names are constants. Values are numbers, `bool` or text (see
/// [`IntoValue`](crate::IntoValue)); they are read when the span begins.
#[macro_export]
macro_rules! span {
    (in $thread:expr, $name:expr $(,)?) => {
        $crate::Span::enter_in(&$thread, $crate::__site!($name))
    };
    (in $thread:expr, $name:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::SpanWith::enter_in(
            &$thread,
            $crate::__site!($name, $($key),+),
            [$($crate::IntoValue::into_value($value)),+],
        )
    };
    (site: $site:expr $(,)?) => {
        $crate::Span::enter($site)
    };
    ($name:expr $(,)?) => {
        $crate::Span::enter($crate::__site!($name))
    };
    ($name:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::SpanWith::enter(
            $crate::__site!($name, $($key),+),
            [$($crate::IntoValue::into_value($value)),+],
        )
    };
}

/// Begins a span that may end on another thread: an [`AsyncSpan`](crate::AsyncSpan).
///
/// Text values must be `'static`, since the span may outlive anything else.
///
/// ```
/// let span = ringscope::async_span!("request", retries = 3);
/// std::thread::spawn(move || drop(span)).join().unwrap();
/// ```
#[macro_export]
macro_rules! async_span {
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::AsyncSpan::begin(
            $crate::__site!($name $(, $key)*),
            [$($crate::IntoValue::into_value($value)),*],
        )
    };
}

/// Records that something happened.
///
/// ```
/// ringscope::event!("cache miss", key = "weights.7", bytes = 4_096);
/// ```
#[macro_export]
macro_rules! event {
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::record_point(
            $crate::__site!($name $(, $key)*),
            $crate::Kind::EVENT,
            $crate::NO_VALUE,
            [$($crate::IntoValue::into_value($value)),*],
        )
    };
}

/// Records that something went wrong.
///
/// A text may be long, such as a stack trace: what an event does not hold (about 700 bytes) is
/// kept beside it, up to 64 KiB. That allocates; it never waits. Where too many such texts
/// come at once they stay cut, counted in [`Summary::texts_cut`](crate::Summary::texts_cut).
///
/// ```
/// ringscope::error!("decode failed", token = 17, reason = "not a token");
/// ```
#[macro_export]
macro_rules! error {
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::record_point(
            $crate::__site!($name $(, $key)*),
            $crate::Kind::ERROR,
            $crate::NO_VALUE,
            [$($crate::IntoValue::into_value($value)),*],
        )
    };
}

/// Adds to a running total, which the analyzer sums up.
///
/// ```
/// ringscope::counter!("tokens", 128);
/// ringscope::counter!("bytes read", 4_096, file = 2);
/// ```
#[macro_export]
macro_rules! counter {
    ($name:expr, $number:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::record_point(
            $crate::__site!($name $(, $key)*),
            $crate::Kind::COUNTER,
            $crate::IntoValue::into_value($number),
            [$($crate::IntoValue::into_value($value)),*],
        )
    };
}

/// Records what something is now: a queue's length, bytes in use, a temperature.
///
/// ```
/// ringscope::gauge!("queue depth", 17);
/// ringscope::gauge!("learning rate", 3e-4);
/// ```
#[macro_export]
macro_rules! gauge {
    ($name:expr, $number:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::record_point(
            $crate::__site!($name $(, $key)*),
            $crate::Kind::GAUGE,
            $crate::IntoValue::into_value($number),
            [$($crate::IntoValue::into_value($value)),*],
        )
    };
}

/// A static call site for a name and its keys.
#[doc(hidden)]
#[macro_export]
macro_rules! __site {
    ($name:expr $(, $key:ident)*) => {{
        const COUNT: usize = <[&str]>::len(&[$(stringify!($key)),*]);
        static KEYS: [$crate::Key; COUNT] = [$($crate::Key::new(stringify!($key))),*];
        static SITE: $crate::CallSite =
            $crate::CallSite::new($name, module_path!(), file!(), line!(), &KEYS);
        &SITE
    }};
}
