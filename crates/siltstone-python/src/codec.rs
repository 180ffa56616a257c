//! Codecs: how keys and values become bytes.

use crate::buffer::{Buffer, of_record};
use crate::error::{setting_error, to_python, undecodable};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use siltstone::key::{HASH_LENGTH_MIN, check_key};

/// How keys become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCodec {
    /// Any buffer, as it is.
    Bytes,
    /// A string, in UTF-8.
    Str,
    /// A number from -2^63 to 2^63 - 1: 8 bytes, big-endian, with the sign bit flipped, so their order is that of the
    /// numbers.
    Int,
    /// A number from 0 to 2^64 - 1: 8 bytes, big-endian.
    Uint,
}

/// The characters of a key that an error shows, at most.
const KEY_SHOWN: usize = 100;

/// The bit that is flipped in signed numbers.
const SIGN: u64 = 1 << 63;

impl KeyCodec {
    const ALL: [(KeyCodec, &'static str); 4] = [
        (KeyCodec::Bytes, "bytes"),
        (KeyCodec::Str, "str"),
        (KeyCodec::Int, "int"),
        (KeyCodec::Uint, "uint"),
    ];

    fn from_name(name: &str) -> Option<KeyCodec> {
        KeyCodec::ALL.iter().find(|(_, own)| *own == name).map(|(codec, _)| *codec)
    }

    fn name(self) -> &'static str {
        KeyCodec::ALL.iter().find(|(codec, _)| *codec == self).map_or("bytes", |(_, name)| name)
    }

    /// Returns the bytes of the number that has these native bytes.
    pub fn of_native(self, native: [u8; 8]) -> [u8; 8] {
        let number = u64::from_ne_bytes(native);
        if self == KeyCodec::Int { number ^ SIGN } else { number }.to_be_bytes()
    }

    /// Returns the native bytes of the number that a key is.
    pub fn to_native(self, key: [u8; 8]) -> [u8; 8] {
        let number = u64::from_be_bytes(key);
        if self == KeyCodec::Int { number ^ SIGN } else { number }.to_ne_bytes()
    }

    /// Returns whether keys are numbers.
    pub fn is_number(self) -> bool {
        matches!(self, KeyCodec::Int | KeyCodec::Uint)
    }
}

/// How values become bytes. Functions of Python are called with the thread attached.
pub enum ValueCodec {
    /// Any buffer, as it is; `bytes` when read.
    Raw,
    /// Functions from an object to a string and back; UTF-8.
    Text { encode: Py<PyAny>, decode: Py<PyAny> },
    /// Functions from an object to a buffer, and from `bytes` back.
    Binary { encode: Py<PyAny>, decode: Py<PyAny> },
}

/// The codecs of a database or a dictionary.
pub struct Codecs {
    pub key: KeyCodec,
    pub value: ValueCodec,
    /// The length that all keys have, if there is one, in bytes.
    pub key_length: Option<usize>,
    /// Whether keys are hashes, which have a minimum length.
    pub hashed_keys: bool,
}

/// A key that is looked up; an exception with the reason if no record can have it.
pub type Lookup<'a, 'py> = Result<Encoded<'a, 'py>, PyErr>;

/// The bytes of a key or a value, borrowed where that is possible.
pub enum Encoded<'a, 'py> {
    Borrowed(&'a [u8]),
    Number([u8; 8]),
    Memory(Buffer<'py>),
    Text(Bound<'py, PyString>),
}

impl Encoded<'_, '_> {
    /// Returns the bytes.
    ///
    /// # Errors
    /// `UnicodeEncodeError` for a string with a lone surrogate.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        Ok(match self {
            Encoded::Borrowed(bytes) => bytes,
            Encoded::Number(bytes) => bytes,
            Encoded::Memory(buffer) => buffer.bytes(),
            Encoded::Text(text) => text.to_str()?.as_bytes(),
        })
    }
}

impl Codecs {
    /// Makes the codecs from the name of the key's, and from `None` or (`"text"` or `"binary"`, encode, decode).
    ///
    /// # Errors
    /// `siltstone.SettingError` for an unknown name.
    pub fn new(py: Python<'_>, key: &str, value: Option<(String, Py<PyAny>, Py<PyAny>)>) -> PyResult<Codecs> {
        let Some(key_codec) = KeyCodec::from_name(key) else {
            let names = KeyCodec::ALL.map(|(_, name)| name).join(", ");
            return Err(setting_error(py, format!("keys: there is no codec `{key}`; use one of {names}")));
        };
        let value = match value {
            None => ValueCodec::Raw,
            Some((kind, encode, decode)) if kind == "text" => ValueCodec::Text { encode, decode },
            Some((_, encode, decode)) => ValueCodec::Binary { encode, decode },
        };
        Ok(Codecs { key: key_codec, value, key_length: None, hashed_keys: false })
    }

    /// The same codecs for a store whose keys have one length, or are hashes.
    #[must_use]
    pub fn with_keys(mut self, fixed: Option<(usize, usize)>, hashed_keys: bool) -> Codecs {
        self.key_length = fixed.map(|(key_length, _)| key_length);
        self.hashed_keys = hashed_keys;
        self
    }

    /// Returns the name of the codec of keys.
    pub fn key_name(&self) -> &'static str {
        self.key.name()
    }

    /// Returns the bytes of a key.
    ///
    /// # Errors
    /// `TypeError` or `OverflowError` for an object that the codec does not encode.
    pub fn encode_key<'a, 'py>(&self, key: &'a Bound<'py, PyAny>) -> PyResult<Encoded<'a, 'py>> {
        match self.key {
            KeyCodec::Bytes => match key.cast::<PyBytes>() {
                Ok(bytes) => Ok(Encoded::Borrowed(bytes.as_bytes())),
                Err(_) => {
                    of_record(key, "a key", "open the database with keys=\"str\" or \"int\" for other keys")
                        .map(Encoded::Memory)
                }
            },
            KeyCodec::Str => match key.cast::<PyString>() {
                Ok(text) => Ok(Encoded::Borrowed(text.to_str()?.as_bytes())),
                Err(_) => Err(wrong_key(key, "a str")),
            },
            KeyCodec::Int => Ok(Encoded::Number(((number_of(key)? as u64) ^ SIGN).to_be_bytes())),
            KeyCodec::Uint => Ok(Encoded::Number(unsigned_of(key)?.to_be_bytes())),
        }
    }

    /// Returns the bytes of a key that is looked up. A mapping does not have an object that cannot be a key: that is no
    /// error of the lookup.
    ///
    /// # Errors
    /// `ValueError` for a buffer that is not contiguous; what `__index__` raises.
    pub fn encode_lookup<'a, 'py>(&self, key: &'a Bound<'py, PyAny>) -> PyResult<Lookup<'a, 'py>> {
        let py = key.py();
        let encoded = match self.encode_key(key) {
            Ok(encoded) => encoded,
            Err(error)
                if error.is_instance_of::<PyTypeError>(py)
                    || error.is_instance_of::<PyOverflowError>(py)
                    || error.is_instance_of::<PyUnicodeEncodeError>(py) =>
            {
                return Ok(Err(error));
            }
            Err(error) => return Err(error),
        };
        let checked = self.check_length(encoded.bytes()?);
        Ok(checked.map_err(|error| to_python(py, &error)).map(|()| encoded))
    }

    fn check_length(&self, key: &[u8]) -> siltstone::Result<()> {
        check_key(key)?;
        let got = key.len();
        match self.key_length {
            Some(expected) if expected != got => {
                Err(siltstone::Error::RecordSize { what: "key", expected, got })
            }
            _ if self.hashed_keys && got < HASH_LENGTH_MIN => Err(siltstone::Error::HashLength { got }),
            _ => Ok(()),
        }
    }

    /// Returns the key with these bytes.
    ///
    /// # Errors
    /// `siltstone.DecodeError` for bytes that the codec did not write.
    pub fn decode_key<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let name = || format!("the key {}", PyBytes::new(py, key));
        self.decode_key_plainly(py, key).map_err(|error| undecodable(py, error, name))
    }

    fn decode_key_plainly<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let number = || -> PyResult<u64> {
            let bytes = key.try_into().map_err(|_| {
                let length = key.len();
                let message = format!("a key has {length} bytes, but a key of the codec has 8");
                PyValueError::new_err(message)
            })?;
            Ok(u64::from_be_bytes(bytes))
        };
        Ok(match self.key {
            KeyCodec::Bytes => PyBytes::new(py, key).into_any(),
            KeyCodec::Str => PyString::from_bytes(py, key)?.into_any(),
            KeyCodec::Int => ((number()? ^ SIGN) as i64).into_pyobject(py)?.into_any(),
            KeyCodec::Uint => number()?.into_pyobject(py)?.into_any(),
        })
    }

    /// Returns the bytes of a value.
    ///
    /// # Errors
    /// `TypeError`, or what the codec raises.
    pub fn encode_value<'a, 'py>(&self, value: &'a Bound<'py, PyAny>) -> PyResult<Encoded<'a, 'py>> {
        let py = value.py();
        match &self.value {
            ValueCodec::Raw => match value.cast::<PyBytes>() {
                Ok(bytes) => Ok(Encoded::Borrowed(bytes.as_bytes())),
                Err(_) => {
                    of_record(value, "a value", "open the database with values=\"json\" for other values")
                        .map(Encoded::Memory)
                }
            },
            ValueCodec::Text { encode, .. } => {
                Ok(Encoded::Text(encode.bind(py).call1((value,))?.cast_into::<PyString>()?))
            }
            ValueCodec::Binary { encode, .. } => {
                let encoded = encode.bind(py).call1((value,))?;
                of_record(&encoded, "an encoded value", "the codec must return a buffer").map(Encoded::Memory)
            }
        }
    }

    /// Returns the value with these bytes, which is that of `key`.
    ///
    /// # Errors
    /// `siltstone.DecodeError` with the key if the codec raises an exception.
    pub fn decode_value<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: &[u8],
    ) -> PyResult<Bound<'py, PyAny>> {
        let name = || {
            let key = self.decode_key_plainly(py, key).unwrap_or_else(|_| PyBytes::new(py, key).into_any());
            let text = key.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
            let shown: String = text.chars().take(KEY_SHOWN).collect();
            format!("the value of the key {shown}{}", if shown.len() < text.len() { "…" } else { "" })
        };
        self.decode_value_plainly(py, value).map_err(|error| undecodable(py, error, name))
    }

    fn decode_value_plainly<'py>(&self, py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match &self.value {
            ValueCodec::Raw => Ok(PyBytes::new(py, value).into_any()),
            ValueCodec::Text { decode, .. } => decode.bind(py).call1((PyString::from_bytes(py, value)?,)),
            ValueCodec::Binary { decode, .. } => decode.bind(py).call1((PyBytes::new(py, value),)),
        }
    }
}

fn wrong_key(key: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let kind = key.get_type();
    let name = kind.name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("a key must be {expected}, not {name}: the database was created so"))
}

/// Numbers of NumPy are accepted by `__index__`.
fn as_index<'py>(key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if key.is_instance_of::<PyInt>() {
        return Ok(key.clone());
    }
    key.call_method0("__index__").map_err(|_| wrong_key(key, "an int"))
}

fn number_of(key: &Bound<'_, PyAny>) -> PyResult<i64> {
    as_index(key)?
        .extract()
        .map_err(|_| PyOverflowError::new_err(format!("the key {key} is not within -2**63 to 2**63 - 1")))
}

fn unsigned_of(key: &Bound<'_, PyAny>) -> PyResult<u64> {
    as_index(key)?
        .extract()
        .map_err(|_| PyOverflowError::new_err(format!("the key {key} is not within 0 to 2**64 - 1")))
}
