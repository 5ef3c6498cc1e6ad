//! Everything that can be measured, by name. A child process is told a name and
//! looks its subject up here.

use super::subject::{Subject, Unrecorded};

/// Libraries that ringscope is compared with, in the order of the report.
#[cfg(feature = "peers")]
pub(crate) const PEERS: &[&dyn Subject] = super::peers::PEERS;
#[cfg(not(feature = "peers"))]
pub(crate) const PEERS: &[&dyn Subject] = &[];

/// Ringscope, linked into this program.
pub(crate) const RINGSCOPE: &dyn Subject = &super::ringscope::Ringscope;
/// Ringscope, linked into a library that is loaded at run time.
pub(crate) const PLUGIN: &dyn Subject = &super::plugin::Plugin;

/// The same loop without a recorder.
pub(crate) const UNRECORDED: &dyn Subject = &Unrecorded;

pub(crate) fn find(name: &str) -> Option<&'static dyn Subject> {
    let own = [UNRECORDED, RINGSCOPE, PLUGIN];
    own.into_iter().chain(PEERS.iter().copied()).find(|subject| subject.name() == name)
}
