//! Every benchmark and every experiment at a tiny size, to keep it working.

mod every_index;
mod every_packet;
mod every_paper;
mod every_partition;
