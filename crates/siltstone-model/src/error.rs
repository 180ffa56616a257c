//! Why a model cannot be evaluated.

/// A parameter outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} is {got}: it must be {limit}")]
pub struct ModelError {
    /// The parameter's name.
    pub name: &'static str,
    /// The given value.
    pub got: f64,
    /// The allowed range.
    pub limit: &'static str,
}

/// Returns the value if it is finite and greater than zero.
pub fn positive(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ModelError { name, got: value, limit: "a finite number above 0" })
    }
}

/// Returns the value if it is finite and not below zero.
pub(crate) fn non_negative(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if value >= 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ModelError { name, got: value, limit: "finite, 0 or more" })
    }
}

/// Returns the value if it is within 0 to 1.
pub fn fraction(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(ModelError { name, got: value, limit: "within 0 to 1" })
    }
}
