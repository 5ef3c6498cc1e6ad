//! What a program consists of: workflows, stages, forward passes, blocks, phases.
//!
//! They are spans with names of their own, so every report has them; a field says
//! what they are, and the id of the run ties together what ran on several threads. Where no span
//! can be held from begin to end, events say that something started, stopped or failed.

use std::marker::PhantomData;

use ringscope_format::Kind;

use crate::{
    CallSite, Name, Span, metric,
    vocabulary::{CorrelationId, Given, Label, Metric, Recorded},
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

impl From<Structure> for Label<'_> {
    #[inline]
    fn from(structure: Structure) -> Self {
        Label::Name(structure.name())
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
        self.span.fail();
        let exception = StructureException::new().kind(kind.into()).payload(payload.into());
        exception.structure(self.what).run(CorrelationId::from_u128(self.run)).record();
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

macro_rules! structure_event {
    (
        $(#[$about:meta])*
        $event:ident = $name:literal as $kind:ident {
            $($(#[$doc:meta])* $field:ident),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default)]
        #[must_use = "it is recorded with `record`"]
        pub struct $event<'a> {
            $($field: Option<Label<'a>>,)+
            run: Option<CorrelationId>,
        }

        impl<'a> $event<'a> {
            /// One that says nothing yet.
            #[inline]
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$doc])*
                #[inline(always)]
                pub fn $field(mut self, value: impl Given<Label<'a>>) -> Self {
                    self.$field = value.given();
                    self
                }
            )+

            /// Of which run; if nothing is said, the one that the thread works for.
            #[inline(always)]
            pub fn run(mut self, run: CorrelationId) -> Self {
                self.run = Some(run);
                self
            }

            /// Records it.
            #[inline]
            pub fn record(self) {
                self.record_now();
            }
        }

        impl Metric for $event<'_> {
            #[inline]
            fn record_now(&self) {
                static KEYS: [crate::Key; <[&str]>::len(&[$(stringify!($field)),+])] =
                    [$(crate::Key::new(stringify!($field))),+];
                static SITE: CallSite = CallSite::new($name, "", "", 0, &KEYS);
                if metric::is_on(&SITE) {
                    let fields = [$(self.$field.map(Recorded::recorded)),+];
                    // Not entered: one event needs no scope around it.
                    let before = self.run.map(|run| metric::replace_request(run.as_u128()));
                    metric::record_point(&SITE, Kind::$kind, crate::NO_VALUE, fields);
                    before.map(metric::replace_request);
                }
            }
        }
    };
}

structure_event! {
    /// A part of a program started. For parts that no span can be held of, as they end elsewhere;
    /// [`structure_span!`](crate::structure_span!) tells how long a part took, too.
    StructureStarted = "structure.started" as EVENT {
        /// What it is: a [`Structure`].
        structure,
        /// What it is called.
        name,
    }
}

structure_event! {
    /// A part of a program stopped; see [`StructureStarted`].
    StructureStopped = "structure.stopped" as EVENT {
        /// What it is: a [`Structure`].
        structure,
        /// What it is called.
        name,
        /// What came of it.
        result,
    }
}

structure_event! {
    /// A part of a program failed; of one that is a span, [`StructureSpan::exception`] says so.
    StructureException = "structure.exception" as ERROR {
        /// The class of the error: `IoError`.
        kind,
        /// What it said.
        payload,
        /// What failed: a [`Structure`].
        structure,
        /// What that is called.
        name,
    }
}
