//! Work of devices: what the backends share, tried with made-up faults, and the
//! backends that can run here.

mod command_buffers;
mod submissions;
