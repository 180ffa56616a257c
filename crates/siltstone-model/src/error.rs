//! Why a model cannot be evaluated.

/// A parameter that no system can have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} is {got}: it must be {limit}")]
pub struct ModelError {
    /// The parameter's name.
    pub name: &'static str,
    /// What was given.
    pub got: f64,
    /// What is allowed.
    pub limit: &'static str,
}

/// The value, if it is finite and greater than zero.
pub(super) fn positive(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ModelError { name, got: value, limit: "a finite number above 0" })
    }
}

/// The value, if it is within 0 to 1.
pub(super) fn fraction(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(ModelError { name, got: value, limit: "within 0 to 1" })
    }
}
