//! Values as `siltstone serve data` stores them, and as DUMP and RESTORE exchange them.

use siltstone::{Bytes, NEVER};
use siltstone_server::fuzzing::{dump_of, restored};
use siltstone_server::{Fields, ValueForm, ValueType};

/// Decodes the bytes as a stored value, and a hash as fields.
pub fn run(data: &[u8]) {
    let stored = Bytes::copy_from_slice(data);
    let Some(whole) = ValueForm::Typed.value(&stored, NEVER) else { return };
    assert_eq!(ValueForm::Typed.encode_value(&whole).as_deref(), Some(data));
    let (value_type, value) = (whole.value_type, &whole.bytes[..]);
    assert_eq!(ValueForm::Typed.decode(data), Some((value_type, value)));
    let Ok(fields) = Fields::decode(value) else { return };
    if let Ok(encoded) = fields.encode() {
        assert_eq!(encoded, value);
    }
    check(value_type, value);
}

/// Decodes the bytes as the payload of a RESTORE, whose checksum is right.
pub fn dump(data: &[u8]) {
    let Some((value_type, value)) = restored(data) else { return };
    check(value_type, &value);
}

/// A value is the same after a DUMP and a RESTORE.
fn check(value_type: ValueType, value: &[u8]) {
    let Some(payload) = dump_of(value_type, value) else { return };
    let Some((again_type, again)) = restored(&payload[..payload.len() - 8]) else {
        // Fields that occur twice, or none.
        let fields = Fields::decode(value).expect("it was decoded for the payload");
        let mut names: Vec<&[u8]> = fields.iter().map(|(field, _)| field).collect();
        names.sort_unstable();
        let is_damaged = names.is_empty() || names.windows(2).any(|pair| pair[0] == pair[1]);
        assert!(value_type == ValueType::Hash && is_damaged);
        return;
    };
    assert_eq!((again_type, &again[..]), (value_type, value));
}
