//! Pure analysis.
