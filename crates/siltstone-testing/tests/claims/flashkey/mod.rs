//! The FlashKey engine: the repair of what is damaged, and databases whose capacity is reached.

mod capacity;
mod opening;
mod repair;
mod space;
