//! What runs on the recorder's own two threads.
//!
//! The [`drain`] moves records from the rings into raw slots of the
//! [`trace_file`]. Full slots become compressed chunks in [`sealing`], which both threads
//! push on. The [`sealer`] writes them, and does everything else that takes time:
//! [`readings`], rotation, and the dumps of the [`flight_recorder`]. How a file comes to its
//! path is in [`place`]. Who has which slot is in [`slot_states`]; everything else they say
//! to each other is in [`shared`].

pub(crate) mod disk_space;
pub(crate) mod drain;
pub(crate) mod flight_recorder;
pub(crate) mod host;
pub(crate) mod place;
pub(crate) mod readings;
pub(crate) mod scheduling;
pub(crate) mod sealer;
pub(crate) mod sealing;
pub(crate) mod shared;
pub(crate) mod slot_states;
pub(crate) mod trace_file;
