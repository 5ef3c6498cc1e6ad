//! What the format promises, through the public interface.

mod allocation;
mod build;
mod claims;
mod clock;
mod damage;
mod golden;
mod golden_listing;
mod hand_over;
mod hot_path;
mod layout;
mod list_output;
mod live;
mod long_texts;
mod parallel;
mod reads;
mod round_trip;
mod unknown;
