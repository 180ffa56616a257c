//! The experiments: each measures, counts or calculates, and adds points to items of the registry.
//!
//! An experiment of an engine runs with the engine's own settings and with those of its paper ([`Preset`]), where the
//! paper's figure is not over one of these settings.
//!
//! [`Preset`]: crate::conditions::Preset

pub mod bloomstore;
pub mod device;
pub mod ect;
pub mod flashkey;
pub mod flashstore;
pub mod mica;
pub mod msls;
pub mod quantities;
pub mod silt;
