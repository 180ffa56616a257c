//! The lifetime of flash: equation 2.8 of Lim's dissertation.

use super::error::{ModelError, positive};

/// Seconds in a year of 365.25 days.
pub const YEAR_S: f64 = 31_557_600.0;

/// A flash drive.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Flash {
    /// F: the capacity, in bytes.
    pub bytes: f64,
    /// E: how often each cell can be erased.
    pub erase_cycles: f64,
}

impl Flash {
    /// Checks that there is such a drive.
    ///
    /// # Errors
    /// The capacity or the number of erase cycles is 0 or less, or not finite.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("flash bytes", self.bytes)?;
        positive("erase cycles", self.erase_cycles)?;
        Ok(())
    }

    /// T: the seconds until the drive is worn out (2.8), with U updates per second of c bytes each and a write
    /// amplification of WA. Assumes perfect wear levelling, which sequential writes of large pieces allow. Infinite if
    /// nothing is written.
    pub fn lifetime_s(&self, updates_per_s: f64, item_bytes: f64, write_amplification: f64) -> f64 {
        self.bytes * self.erase_cycles / (updates_per_s * item_bytes * write_amplification)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of 2.4: "3 years".
    #[test]
    fn the_example_of_2_4_lasts_for_three_years() {
        let flash = Flash { bytes: 256.0 * f64::from(1 << 30), erase_cycles: 10_000.0 };
        let years = flash.lifetime_s(5_000.0, 1024.0, 5.4) / YEAR_S;
        assert!((years - 3.15).abs() < 0.01, "{years}");
    }

    #[test]
    fn a_drive_without_capacity_or_erase_cycles_is_refused() {
        let flash = Flash { bytes: 1e12, erase_cycles: 3_000.0 };
        assert!(flash.check().is_ok());
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Flash { bytes: wrong, ..flash }.check().is_err(), "{wrong}");
            assert!(Flash { erase_cycles: wrong, ..flash }.check().is_err(), "{wrong}");
        }
    }
}
