//! The recorder's promises, each tried on the real thing.
//!
//! A process records once at a time and some of these tests end it, so every
//! test runs its scenario in a process of its own: see [`child`]. What was
//! recorded is read back from the file, as anyone else would read it: see [`told`].

#![cfg(not(feature = "off"))]

mod accounting;
mod attribute;
mod child;
mod clock_and_readings;
mod death;
mod dump_names;
mod dumps;
mod export_ends;
mod export_files;
mod export_losses;
mod export_paths;
mod export_tracks;
mod exporters;
mod file_trouble;
mod flight_recorder;
mod fork;
mod full_disk;
mod full_disk_death;
mod gpu;
mod guards;
mod hand_over;
mod homes;
mod load;
mod long_texts;
mod names;
mod no_allocation;
mod no_system_call;
mod not_as_written;
mod out_of_memory;
mod posix;
mod requests;
mod rotation;
mod rules;
mod settings;
mod starting;
mod statistics;
mod threads;
mod told;
mod tracing;
mod values;
mod vocabulary;
