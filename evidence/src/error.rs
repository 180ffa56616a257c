//! The errors of experiments and of their benchmarks.

use siltstone_index::{BuildError, DecodeError};
use siltstone_model::ModelError;
use siltstone_network::{ClientError, ServerError};

/// Why something could not be measured, or what it found wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A benchmark failed: wrong settings, an error of the database, a wrong result, or an interruption.
    #[error(transparent)]
    Bench(#[from] siltstone_bench::Error),
    /// A model has no value for these parameters.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An index structure could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An encoded index structure could not be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The server did not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The client of the server failed.
    #[error("loading the items: {0}")]
    Client(#[from] ClientError),
}

impl Error {
    /// Returns an error for wrong settings.
    pub fn settings(problem: impl Into<String>) -> Error {
        siltstone_bench::Error::settings(problem).into()
    }

    /// Returns an error for results that are wrong or missing.
    pub fn wrong_results(problem: impl Into<String>) -> Error {
        siltstone_bench::Error::WrongResults(problem.into()).into()
    }

    /// The user has stopped it.
    pub const STOPPED: Error = Error::Bench(siltstone_bench::Error::Stopped);

    /// Returns whether the user has stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Error::Bench(siltstone_bench::Error::Stopped))
    }
}

/// The result of an experiment.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is an error of a benchmark first.
macro_rules! through_bench {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Error {
            fn from(error: $kind) -> Error {
                Error::Bench(error.into())
            }
        })*
    };
}

through_bench!(
    siltstone::Error,
    siltstone_device::Error,
    siltstone_mica::Error,
    siltstone_bench::trace::TraceError,
    std::io::Error
);
