//! Lines of JSON whose key and value are in fields with names of the user's own.
//!
//! A string is stored as its text, and everything else as its JSON, unchanged. Several fields become an object.

use super::columns::{Column, Columns, EXPIRES_AT_MS};
use crate::notation::Notation;
use anyhow::{Context, anyhow, bail};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use siltstone::{Bytes, Record};
use std::collections::BTreeMap;
use std::fmt;

/// The names of the fields.
pub struct Fields {
    key: String,
    values: Vec<String>,
    notation: Notation,
    null: Option<String>,
}

impl Fields {
    /// Returns the fields, if the user names them.
    pub fn of(columns: &Columns) -> anyhow::Result<Option<Fields>> {
        let values = columns.values.iter().flatten();
        if columns.key.is_none() && values.clone().next().is_none() {
            return Ok(None);
        }
        let name = |column: &Column| match column {
            Column::Name(name) => Ok(name.clone()),
            Column::Number(number) => Ok(number.to_string()),
            Column::NumberOnly(number) => bail!("fields of JSON have names, and number:{number} is none"),
        };
        let key = columns.key.as_ref().map_or(Ok("key".to_owned()), name)?;
        let values = match columns.values {
            Some(_) => values.map(name).collect::<anyhow::Result<_>>()?,
            None => vec!["value".to_owned()],
        };
        Ok(Some(Fields { key, values, notation: columns.notation, null: columns.null.clone() }))
    }

    /// Returns the record of a line.
    pub fn record(&self, line: &[u8]) -> anyhow::Result<Record> {
        let object: Object<'_> = serde_json::from_slice(line).map_err(|error| described(&error))?;
        let field =
            |name: &str| object.0.get(name).copied().with_context(|| format!("the field {name} is missing"));
        let bytes = |name: &str| self.bytes(field(name)?.get()).with_context(|| format!("the field {name}"));
        let value = match &self.values[..] {
            [] => Vec::new(),
            [name] => bytes(name)?,
            names => {
                let member = |name: &String| -> anyhow::Result<String> {
                    Ok(format!("{}:{}", serde_json::to_string(name)?, field(name)?.get()))
                };
                let members = names.iter().map(member).collect::<anyhow::Result<Vec<_>>>()?;
                format!("{{{}}}", members.join(",")).into_bytes()
            }
        };
        let is_free = ![&self.key].into_iter().chain(&self.values).any(|name| name == EXPIRES_AT_MS);
        let expires_at_ms = match object.0.get(EXPIRES_AT_MS).map(|field| field.get()) {
            Some(text) if is_free && !self.values.is_empty() && text != "null" => {
                text.parse().ok().with_context(|| {
                    format!("the field {EXPIRES_AT_MS}: {text} is no time in milliseconds since 1970")
                })?
            }
            _ => 0,
        };
        Ok(Record { key: Bytes::from(bytes(&self.key)?), value: value.into(), expires_at_ms })
    }

    fn bytes(&self, json: &str) -> anyhow::Result<Vec<u8>> {
        match (json, &self.null) {
            ("null", Some(null)) => Ok(null.clone().into_bytes()),
            ("null", None) => bail!("is null; --null states what is stored"),
            _ if json.starts_with('"') => {
                let text: String = serde_json::from_str(json).map_err(|error| described(&error))?;
                self.notation.parse(text.as_bytes())
            }
            _ => Ok(json.as_bytes().to_vec()),
        }
    }
}

/// Returns an error of the parser. Its line 1 is the line that the caller names.
pub fn described(error: &serde_json::Error) -> anyhow::Error {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    anyhow!("not a JSON record: {message} at column {}", error.column())
}

/// An object, with its fields as they are written. No field occurs twice.
struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Object<'de>, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = members.next_entry::<String, &RawValue>()? {
                    if let Some(_twice) = fields.insert(name.clone(), value) {
                        return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::ColumnList;
    use super::super::tests::columns;
    use super::*;

    fn read(
        key: &str,
        values: &str,
        null: Option<&str>,
        line: &str,
    ) -> Result<(String, String, u64), String> {
        let (key, values) = (Some(key.parse().unwrap()), Some(values.parse::<ColumnList>().unwrap().0));
        let columns = Columns { key, values, null: null.map(str::to_owned), ..columns() };
        let record = Fields::of(&columns).unwrap().unwrap().record(line.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let record = record.map_err(|error| format!("{error:#}"))?;
        Ok((text(&record.key), text(&record.value), record.expires_at_ms))
    }

    #[test]
    fn fields_keep_their_digits_and_several_become_an_object() {
        let line = r#"{"id":12345678901234567890123,"n":1.10,"t":"a\"b","o":{"x": [1]},"2020":null,"expires_at_ms":7}"#;
        let id = "12345678901234567890123";
        let one = |value: &str| read("id", value, Some("none"), line).unwrap();
        assert_eq!(one("n"), (id.into(), "1.10".into(), 7));
        assert_eq!(
            [one("t").1, one("o").1, one("2020").1],
            ["a\"b", r#"{"x": [1]}"#, "none"].map(str::to_owned)
        );
        assert_eq!(one("n,t").1, r#"{"n":1.10,"t":"a\"b"}"#);
        assert_eq!(read("t", "", None, line).unwrap(), ("a\"b".into(), String::new(), 0));
    }

    #[test]
    fn missing_null_and_double_fields_are_named() {
        for (line, message) in [
            (r#"{"v":1}"#, "the field k is missing"),
            (r#"{"k":null,"v":1}"#, "the field k: is null; --null"),
            (r#"{"k":1,"k":2,"v":1}"#, "duplicate field `k`"),
            (r#"{"k":1,"v":1,"expires_at_ms":-1}"#, "expires_at_ms: -1 is no time"),
            ("[1]", "an object"),
        ] {
            let error = read("k", "v", None, line).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
