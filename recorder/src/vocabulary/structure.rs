//! What a program consists of: workflows, stages, forward passes, blocks, phases.
//!
//! They are spans with names of their own, so every report has them; a field says
//! what they are, and the id of the run ties together what ran on several threads.

use std::marker::PhantomData;

use ringscope_format::{Kind, Value};

use crate::{
    CallSite, Name, Span, metric,
    vocabulary::{CorrelationId, Label, Recorded},
};

/// What a part of a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Structure {
    /// All of a run.
    Workflow,
    /// A step of a workflow.
    Stage,
    /// A model's way from input to output.
    ForwardPass,
    /// A block of a model.
    Block,
    /// Anything else that comes after something: `prefill`, `decode`.
    Phase,
}

impl Structure {
    #[inline]
    fn name(self) -> &'static Name {
        match self {
            Structure::Workflow => crate::name!("workflow"),
            Structure::Stage => crate::name!("stage"),
            Structure::ForwardPass => crate::name!("forward_pass"),
            Structure::Block => crate::name!("block"),
            Structure::Phase => crate::name!("phase"),
        }
    }
}

/// Begins a part of a program: a span that says what it is and, if it is given, of which run.
///
/// ```
/// use ringscope::{structure_span, vocabulary::{CorrelationId, Structure}};
///
/// let run = CorrelationId::random();
/// let _workflow = structure_span!(Structure::Workflow, "nightly training", run);
/// let mut stage = structure_span!(Structure::Stage, "tokenize", run);
/// stage.exception("IoError", "corpus.txt: no such file");
/// let _block = structure_span!(Structure::Block, "block_0");
/// ```
#[macro_export]
macro_rules! structure_span {
    ($what:expr, $name:expr $(,)?) => {
        $crate::vocabulary::StructureSpan::begin(
            $crate::__site!($name, structure),
            $what,
            $crate::vocabulary::CorrelationId::current(),
        )
    };
    ($what:expr, $name:expr, $run:expr $(,)?) => {
        $crate::vocabulary::StructureSpan::begin(
            $crate::__site!($name, structure),
            $what,
            ::core::option::Option::Some($run),
        )
    };
}

/// An open part of a program. Made by [`structure_span!`](crate::structure_span!).
#[must_use = "a span lasts until it is dropped; bind it: `let _span = ...`"]
#[derive(Debug)]
pub struct StructureSpan {
    span: Span,
    site: &'static CallSite,
    what: Structure,
    run: u128,
    not_send: PhantomData<*const ()>,
}

impl StructureSpan {
    /// For the macro.
    #[doc(hidden)]
    #[inline]
    pub fn begin(site: &'static CallSite, what: Structure, run: Option<CorrelationId>) -> Self {
        let run = run.map_or(0, CorrelationId::as_u128);
        Self { span: Span::enter(site), site, what, run, not_send: PhantomData }
    }

    /// Marks it as failed, and records why as an error of the same run.
    #[inline]
    pub fn exception<'a>(&mut self, kind: impl Into<Label<'a>>, payload: impl Into<Label<'a>>) {
        static KEYS: [crate::Key; 3] =
            [crate::Key::new("kind"), crate::Key::new("payload"), crate::Key::new("structure")];
        static SITE: CallSite = CallSite::new("structure.exception", "", "", 0, &KEYS);
        self.span.fail();
        if metric::is_on(&SITE) {
            let (kind, payload) = (kind.into().recorded(), payload.into().recorded());
            let fields = [Some(kind), Some(payload), Some(self.what.name().value())];
            let before = metric::replace_request(self.run);
            metric::record_point(&SITE, Kind::ERROR, Value::Text(""), fields);
            metric::replace_request(before);
        }
    }
}

impl std::ops::Deref for StructureSpan {
    type Target = Span;
    #[inline]
    fn deref(&self) -> &Span {
        &self.span
    }
}

impl std::ops::DerefMut for StructureSpan {
    #[inline]
    fn deref_mut(&mut self) -> &mut Span {
        &mut self.span
    }
}

impl Drop for StructureSpan {
    #[inline]
    fn drop(&mut self) {
        if self.span.is_recording() {
            let what = self.what.name().value();
            metric::end_span(&mut self.span, self.site, [Some(what)], self.run);
        }
    }
}
