//! The rows of `docs/EVIDENCE.md`.

use super::cells;
use anyhow::{Context, Result};
use std::collections::HashMap;

/// The cells of a row, by the header of their column.
type Row = HashMap<String, String>;

/// The rows of the page, by item, series and quantity.
#[derive(Debug)]
pub struct Page {
    rows: HashMap<String, Row>,
}

impl Page {
    /// Reads the page. What is not a row of an item is passed over.
    pub fn parse(text: &str) -> Page {
        let mut rows = HashMap::new();
        let mut item = None;
        let mut header: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("`evidence run ") {
                item = rest.split('`').next();
            }
            if !line.starts_with('|') {
                header.clear();
            } else if header.is_empty() {
                header = cells(line);
            } else if let (Some(item), [series, quantity, ..]) = (item, &cells(line)[..]) {
                let row =
                    header.iter().zip(cells(line)).map(|(name, cell)| ((*name).to_owned(), cell.to_owned()));
                rows.insert(format!("{item}; {series}; {quantity}"), row.collect());
            }
        }
        Page { rows }
    }

    /// Returns the cell of a row in the column of this name.
    ///
    /// # Errors
    /// The page has no such row, or no such column.
    pub(super) fn cell(&self, key: &str, column: &str) -> Result<&str> {
        let row = self.rows.get(key).with_context(|| format!("EVIDENCE.md has no row {key}"))?;
        let cell = row.get(column).with_context(|| format!("EVIDENCE.md has no column {column}"))?;
        Ok(cell)
    }
}
