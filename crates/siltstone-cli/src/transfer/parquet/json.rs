//! Cells of Parquet as JSON: bytes in Base64, dates and times as text, and numbers with the digits that they need.

use ::parquet::basic::{LogicalType, TimeUnit};
use ::parquet::record::Field;
use ::parquet::schema::types::Type;
use anyhow::ensure;
use serde_json::{Number, Value};

/// The range of dates and times that have a year of at most six digits, in days and in seconds since 1970.
const DAYS_MAX: u64 = 90_000_000;
const SECONDS_MAX: u64 = DAYS_MAX * 86_400;

/// Returns a cell as JSON. NaN and the infinities, which JSON does not have, become the texts `NaN`, `Infinity` and
/// `-Infinity`; null is null.
pub fn json(field: &Field, kind: Option<&Type>) -> anyhow::Result<Value> {
    let (time, limit) = match *field {
        Field::Date(days) => (days.unsigned_abs().into(), DAYS_MAX),
        Field::TimestampMillis(time) => (time.unsigned_abs(), SECONDS_MAX * 1000),
        Field::TimestampMicros(time) => (time.unsigned_abs() / 1000, SECONDS_MAX * 1000),
        _ => (0, 0),
    };
    ensure!(time <= limit, "a date is more than 240,000 years from 1970");
    Ok(match field {
        Field::Group(row) => {
            let cells = row.get_column_iter().enumerate().map(|(place, (name, field))| {
                Ok((name.clone(), json(field, kind.and_then(|kind| below(kind, place)))?))
            });
            Value::Object(cells.collect::<anyhow::Result<_>>()?)
        }
        Field::ListInternal(list) => {
            let kind = kind.map(element);
            let elements = list.elements().iter().map(|field| json(field, kind));
            Value::Array(elements.collect::<anyhow::Result<_>>()?)
        }
        Field::MapInternal(map) => {
            let entry = kind.and_then(|kind| below(kind, 0));
            let of_entry = |place| entry.and_then(|entry| below(entry, place));
            let entries = map
                .entries()
                .iter()
                .map(|(key, value)| Ok((json_text(json(key, of_entry(0))?), json(value, of_entry(1))?)));
            Value::Object(entries.collect::<anyhow::Result<_>>()?)
        }
        Field::Float(number) => float(f64::from(*number), || number.to_string()),
        Field::Float16(number) => float(f64::from(*number), || number.to_f32().to_string()),
        Field::Double(number) => float(*number, || number.to_string()),
        Field::Long(number) if has_nanoseconds(kind) => Value::String(with_nanoseconds(*number, kind)),
        field => field.to_json_value(),
    })
}

/// Returns the text of a string, and the JSON of everything else.
pub fn json_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}

fn below(kind: &Type, place: usize) -> Option<&Type> {
    if kind.is_group() { kind.get_fields().get(place).map(|field| &**field) } else { None }
}

/// Returns the type of the elements of a list: of a list with a group for each element, or of a repeated column.
fn element(kind: &Type) -> &Type {
    let Some(repeated) = below(kind, 0) else { return kind };
    match below(repeated, 0) {
        Some(element) if repeated.get_fields().len() == 1 => element,
        _ => repeated,
    }
}

/// Returns a number whose shortest text in its own precision is given.
fn float(number: f64, shortest: impl FnOnce() -> String) -> Value {
    let not_finite = match number {
        number if number.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        _ => "-Infinity",
    };
    // The same digits, read with more precision, are written as the same digits.
    let number = if number.is_finite() { shortest().parse().ok().and_then(Number::from_f64) } else { None };
    number.map_or_else(|| Value::from(not_finite), Value::Number)
}

fn has_nanoseconds(kind: Option<&Type>) -> bool {
    match kind.and_then(|kind| kind.get_basic_info().logical_type_ref()) {
        Some(LogicalType::Timestamp(time)) => time.unit == TimeUnit::NANOS,
        Some(LogicalType::Time(time)) => time.unit == TimeUnit::NANOS,
        _ => false,
    }
}

/// Returns the text of a time in nanoseconds: that of the microseconds, with three more digits.
fn with_nanoseconds(time: i64, kind: Option<&Type>) -> String {
    let (microseconds, rest) = (time.div_euclid(1000), time.rem_euclid(1000));
    let is_timestamp = kind.is_some_and(|kind| {
        matches!(kind.get_basic_info().logical_type_ref(), Some(LogicalType::Timestamp(_)))
    });
    let text = match is_timestamp {
        true => json_text(Field::TimestampMicros(microseconds).to_json_value()),
        false => json_text(Field::TimeMicros(microseconds).to_json_value()),
    };
    let end = text.find(" +").unwrap_or(text.len());
    format!("{}{rest:03}{}", &text[..end], &text[end..])
}
