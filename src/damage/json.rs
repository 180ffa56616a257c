//! The reports of verify and repair as JSON. Hashes are strings of 16 hexadecimal digits.

use super::{Damage, KeyRange, RepairReport, VerifyReport};
use serde_json::{Value, json};

impl VerifyReport {
    /// Returns the report as one line of JSON, as `siltstone verify --json` prints it, without the path. With the
    /// feature `json`.
    pub fn to_json(&self) -> String {
        found(self).to_string()
    }
}

impl RepairReport {
    /// Returns the report as one line of JSON, as `siltstone repair --json` prints it, without the path. With the
    /// feature `json`.
    pub fn to_json(&self) -> String {
        let mut report = found(&self.found);
        report["set_aside"] = json!(self.set_aside.as_ref().map(|folder| folder.display().to_string()));
        report["set_aside_files"] = json!(self.set_aside_files);
        report["new_files"] = json!(self.new_files);
        report["kept_records"] = json!(self.kept_records);
        report.to_string()
    }
}

fn found(report: &VerifyReport) -> Value {
    json!({
        "checked_bytes": report.checked_bytes,
        "live_records": report.live_records,
        "torn_bytes": report.torn_bytes,
        "damage": report.damage.iter().map(damaged_place).collect::<Vec<_>>(),
        "lost": ranges(&report.lost()),
        "may_be_older": ranges(&report.may_be_older()),
    })
}

fn damaged_place(damage: &Damage) -> Value {
    let keys: Vec<String> = damage.keys.iter().map(|key| key.escape_ascii().to_string()).collect();
    json!({
        "file": damage.file.display().to_string(),
        "part": damage.part.to_string(),
        "offset": damage.offset,
        "length": damage.length,
        "expected": damage.expected,
        "got": damage.got,
        "keys": keys,
        "lost": ranges(&damage.lost),
        "may_be_older": damage.may_be_older,
    })
}

fn ranges(ranges: &[KeyRange]) -> Vec<Value> {
    let hexadecimal = |placement: u64| format!("{placement:016x}");
    let hexadecimal =
        |range: &KeyRange| json!({"first": hexadecimal(range.first), "last": hexadecimal(range.last)});
    ranges.iter().map(hexadecimal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::DamagedPart;

    #[test]
    fn a_report_has_its_damage() {
        let mut report = VerifyReport::default();
        let mut damage = Damage::new("log", DamagedPart::Blocks, 4, 8).because("a", "b");
        damage.lost = vec![KeyRange { first: 1, last: 255 }];
        report.damage.push(damage);
        let report = RepairReport { found: report, kept_records: 3, ..RepairReport::default() };
        let read: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(read["lost"], json!([{"first": "0000000000000001", "last": "00000000000000ff"}]));
        assert_eq!((&read["kept_records"], &read["set_aside"]), (&json!(3), &Value::Null));
        assert_eq!(read["damage"][0]["part"], "blocks");
    }
}
