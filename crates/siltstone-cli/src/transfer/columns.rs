//! The columns of a table that become records: by number, or by name.

use crate::notation::Notation;
use anyhow::{Context, bail, ensure};
use std::str::FromStr;

/// The names of the columns of an export.
pub const NAMES: [&str; 3] = ["key", "value", EXPIRES_AT_MS];
/// The name of the column with the expiry times, in milliseconds since 1970; empty or null for records that do not
/// expire.
pub const EXPIRES_AT_MS: &str = "expires_at_ms";

/// A column, as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// Its number, from 1 on; or its name, if the table has fewer columns.
    Number(usize),
    Name(String),
    /// Stated as a number.
    NumberOnly(usize),
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        if let Some(name) = text.strip_prefix("name:") {
            return Ok(Column::Name(name.to_owned()));
        }
        if let Some(text) = text.strip_prefix("number:") {
            return number(text)
                .map(Column::NumberOnly)
                .ok_or_else(|| "columns are numbered from 1".to_owned());
        }
        match text.parse() {
            Ok(0) => Err("columns are numbered from 1; use name:0 for a column of that name".to_owned()),
            Ok(number) => Ok(Column::Number(number)),
            Err(_) => Ok(Column::Name(text.to_owned())),
        }
    }
}

/// Columns with commas between them. Names with commas or quotes are quoted, as in CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnList(pub Vec<Column>);

impl FromStr for ColumnList {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnList, String> {
        let mut rows = super::rows::Rows::new(text.as_bytes(), b',', true, text.len());
        match rows.next() {
            Ok(true) => {}
            // No column: values are empty.
            Ok(false) => return Ok(ColumnList(Vec::new())),
            Err(fault) => return Err(fault.into_error().to_string()),
        }
        let name = |column| String::from_utf8_lossy(rows.field(column).unwrap_or_default()).into_owned();
        let names: Vec<String> = (0..rows.columns()).map(name).collect();
        if !matches!(rows.next(), Ok(false)) {
            return Err("a name with a line ending needs quotes, as in CSV".to_owned());
        }
        names.iter().map(|name| name.parse()).collect::<Result<_, _>>().map(ColumnList)
    }
}

/// What is read of the rows of a table.
#[derive(Debug, Clone)]
pub struct Columns {
    /// By default the first column.
    pub key: Option<Column>,
    /// By default the second column. Several columns become one value. None of the list: the values are empty.
    pub values: Option<Vec<Column>>,
    /// Whether the first row has names.
    pub has_header: bool,
    /// Whether rows may have other numbers of fields than the first one.
    pub is_ragged: bool,
    /// The delimiter of CSV.
    pub delimiter: u8,
    pub notation: Notation,
    /// What is stored for a cell of Parquet, or a field of JSON, that is null.
    pub null: Option<String>,
}

impl Columns {
    /// Returns whether records have values.
    pub fn has_values(&self) -> bool {
        self.values.as_ref().is_none_or(|values| !values.is_empty())
    }
}

/// The places of the columns in a row, from 0 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub key: usize,
    pub values: Vec<usize>,
    pub expires_at_ms: Option<usize>,
    pub has_header: bool,
}

impl Places {
    /// Finds the columns by the first row, which has their names, or is the first record.
    pub fn find(columns: &Columns, first: &[&[u8]]) -> anyhow::Result<Places> {
        let chosen = || columns.values.iter().flatten().chain(&columns.key);
        let is_export = first.iter().copied().eq(NAMES.map(str::as_bytes));
        let is_name = |column: &Column| match column {
            Column::Name(_) => true,
            // No such column: a year or the like.
            Column::Number(number) => *number > first.len() && first.contains(&number.to_string().as_bytes()),
            Column::NumberOnly(_) => false,
        };
        let has_header = columns.has_header || is_export || chosen().any(is_name);
        let names = if has_header { first } else { &[] };
        let place = |column: &Column| place(column, names, first.len());
        let key = columns.key.as_ref().map_or(Ok(0), place)?;
        let values = match &columns.values {
            Some(values) => values.iter().map(place).collect::<anyhow::Result<_>>()?,
            None => {
                ensure!(
                    first.len() > 1,
                    "there is no second column for the values; --no-values imports keys alone, and --delimiter \
                     states what is between the columns"
                );
                vec![1]
            }
        };
        let expires_at_ms = names.iter().position(|name| *name == EXPIRES_AT_MS.as_bytes());
        let is_free = |place: &usize| columns.has_values() && *place != key && !values.contains(place);
        let expires_at_ms = expires_at_ms.filter(is_free);
        Ok(Places { key, values, expires_at_ms, has_header })
    }

    /// Returns all columns that are read.
    pub fn all(&self) -> Vec<usize> {
        self.values.iter().copied().chain([self.key]).chain(self.expires_at_ms).collect()
    }
}

/// Returns the place of a column among `columns` columns, whose names are known if there is a header.
pub fn place(column: &Column, names: &[&[u8]], columns: usize) -> anyhow::Result<usize> {
    let named = |name: &str| -> anyhow::Result<Option<usize>> {
        let mut places = names.iter().enumerate().filter(|(_, other)| **other == name.as_bytes());
        let found = places.next().map(|(place, _)| place);
        if let (Some(first), Some((second, _))) = (found, places.next()) {
            let (first, second) = (first + 1, second + 1);
            bail!("the columns {first} and {second} are both named {name}; choose one as number:{first}");
        }
        Ok(found)
    };
    let numbered = |number: usize| {
        ensure!(number <= columns, "there is no column {number}; the last one is {columns}");
        Ok(number - 1)
    };
    match column {
        Column::NumberOnly(number) => numbered(*number),
        Column::Name(name) => named(name)?.with_context(|| {
            let names: Vec<_> = names.iter().map(|name| Notation::Escaped.show(name)).collect();
            format!("no column is named {name}; the columns are {}", names.join(", "))
        }),
        Column::Number(number) => match named(&number.to_string())? {
            Some(place) if *number > columns => Ok(place),
            Some(place) if place + 1 != *number => bail!(
                "{number} is the number of a column and the name of another; state number:{number} or name:{number}"
            ),
            _ => numbered(*number),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(key: Option<&str>, values: Option<&str>, has_header: bool) -> Columns {
        Columns {
            key: key.map(|key| key.parse().unwrap()),
            values: values.map(|values| values.parse::<ColumnList>().unwrap().0),
            has_header,
            is_ragged: false,
            delimiter: b',',
            notation: Notation::Plain,
            null: None,
        }
    }

    fn find(columns: &Columns, first: &[&str]) -> Result<(usize, Vec<usize>, bool), String> {
        let first: Vec<&[u8]> = first.iter().map(|name| name.as_bytes()).collect();
        let places = Places::find(columns, &first).map_err(|error| format!("{error:#}"))?;
        Ok((places.key, places.values, places.has_header))
    }

    #[test]
    fn a_column_is_named_by_its_number_by_its_name_or_by_a_name_that_is_a_number() {
        let years = ["Country Name", "Country Code", "2019", "2020"];
        assert_eq!(find(&columns(Some("Country Code"), Some("2020"), false), &years), Ok((1, vec![3], true)));
        assert_eq!(find(&columns(Some("1"), Some("2019,2020"), false), &years), Ok((0, vec![2, 3], true)));
        assert_eq!(find(&columns(Some("2"), Some("4"), false), &years), Ok((1, vec![3], false)));
        assert!(
            find(&columns(Some("1"), Some("2021"), false), &years).unwrap_err().contains("no column 2021")
        );
        let pandas = ["0", "1", "2"];
        let unclear = find(&columns(Some("1"), Some("2"), true), &pandas).unwrap_err();
        assert!(unclear.contains("number:1 or name:1"), "{unclear}");
        assert_eq!(find(&columns(Some("number:1"), Some("name:2"), false), &pandas), Ok((0, vec![2], true)));
        assert_eq!(find(&columns(None, None, true), &pandas), Ok((0, vec![1], true)));
        assert_eq!(
            find(&columns(Some("name:name:x"), None, false), &["a", "b", "name:x"]),
            Ok((2, vec![1], true))
        );
        let twice = find(&columns(Some("id"), Some("2"), false), &["id", "v", "id"]).unwrap_err();
        assert!(twice.contains("1 and 3 are both named id"), "{twice}");
    }

    #[test]
    fn names_with_commas_are_quoted_and_no_column_means_no_values() {
        let list = |text: &str| text.parse::<ColumnList>().map(|list| list.0);
        assert_eq!(list("\"a, b\",2"), Ok(vec![Column::Name("a, b".into()), Column::Number(2)]));
        assert_eq!(list(""), Ok(Vec::new()));
        assert_eq!(list("\"a\nb\""), Ok(vec![Column::Name("a\nb".into())]));
        assert!(
            list("a\nb").is_err()
                && list("\"a").is_err()
                && list("0").is_err()
                && "number:0".parse::<Column>().is_err()
        );
        assert_eq!(find(&columns(None, Some(""), false), &["a"]), Ok((0, Vec::new(), false)));
        assert!(find(&columns(None, None, false), &["a"]).unwrap_err().contains("--no-values"));
    }

    #[test]
    fn the_first_row_of_an_export_has_names() {
        let names = NAMES.map(str::as_bytes);
        let places = Places::find(&columns(None, None, false), &names).unwrap();
        assert_eq!(places, Places { key: 0, values: vec![1], expires_at_ms: Some(2), has_header: true });
        assert_eq!(Places::find(&columns(None, Some(""), false), &names).unwrap().expires_at_ms, None);
    }
}
