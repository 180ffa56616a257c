//! Damage to complete files at rest: files that are missing, have another length, or belong to another database or to
//! an older state. In each case no call returns a wrong value; what was synced is present or reported as lost; opening,
//! verifying and repairing agree; and files with other names are left alone.

use super::engines::FileKind;
use super::flips::{Counts, Files, TestBed, memory, read_files};

/// The largest part of a file's end that is damaged, in bytes.
const BLOCK_BYTES: usize = 4096;

/// A way to damage the files of a database.
pub struct Case {
    /// The damage, and the file.
    pub name: String,
    files: Files,
}

/// Names that resemble those of a database's files, of files that do not belong to it.
pub const STRAYS: [&str; 36] = [
    "log-",
    "log-0",
    "log-00",
    "log-+0",
    "log-+000000000000000",
    "log-0000000000000000.bak",
    "log-00000000000000000",
    "log-000000000000000",
    "log-000000000000000A",
    "log-000000000000000g",
    "log-2024",
    "log-20240101",
    "log-access",
    "LOG-0000000000000000",
    "log_0000000000000000",
    "cafe.hash",
    "CAFEBABE.hash",
    "+0000001.hash",
    "000000001.hash",
    "1.hash",
    ".hash",
    "1.sorted",
    "00000001.sorted.gz",
    "0000000g.sorted",
    ".sorted",
    "00000001.sort",
    "MANIFEST.backup",
    "MANIFEST.backup.new",
    "MANIFEST.new.new",
    "MANIFEST.mirror.old",
    "MANIFEST~",
    "manifest",
    "USAGE.old",
    "LOCK.new",
    "repair",
    "notes.txt",
];

/// A database, and another one of the same shape.
pub struct FileDamage {
    bed: TestBed,
    other: TestBed,
}

impl FileDamage {
    pub(super) fn new(kind: FileKind) -> Result<FileDamage, String> {
        let bed = |seed| TestBed::new(kind, seed).map_err(|error| error.to_string());
        Ok(FileDamage { bed: bed(super::flips::SEED)?, other: bed([17, 23])? })
    }

    /// Returns all cases: files that are missing, of another length, of another database, or older.
    pub fn cases(&self) -> Vec<Case> {
        let names: Vec<&String> = self.bed.files.keys().collect();
        let mut cases = Vec::new();
        for name in &names {
            self.whole_file(name, &mut cases);
            self.end_of_file(name, &mut cases);
            for other in names.iter().filter(|other| *other > name) {
                let mut files = self.bed.files.clone();
                let (one, two) = (files[*name].clone(), files[*other].clone());
                files.insert((*name).clone(), two);
                files.insert((*other).clone(), one);
                cases.push(Case { name: format!("{name} and {other} swapped"), files });
            }
        }
        self.kinds_of_files(&mut cases);
        cases
    }

    fn whole_file(&self, name: &str, cases: &mut Vec<Case>) {
        let mut files = self.bed.files.clone();
        files.remove(name);
        cases.push(Case { name: format!("{name} removed"), files });
        for (whose, from) in [("another database", &self.other.files), ("an older copy", &self.bed.older)] {
            let Some(bytes) = from.get(name).filter(|bytes| **bytes != self.bed.files[name]) else {
                continue;
            };
            let mut files = self.bed.files.clone();
            files.insert(name.to_owned(), bytes.clone());
            cases.push(Case { name: format!("{name} taken from {whose}"), files });
        }
    }

    fn end_of_file(&self, name: &str, cases: &mut Vec<Case>) {
        let bytes = &self.bed.files[name];
        let mut push = |what: String, changed: Vec<u8>| {
            let mut files = self.bed.files.clone();
            files.insert(name.to_owned(), changed);
            cases.push(Case { name: format!("{name} {what}"), files });
        };
        for less in
            [1, 4, 13, 64, 512, BLOCK_BYTES, bytes.len() / 2, bytes.len().saturating_sub(1), bytes.len()]
        {
            if less <= bytes.len() {
                push(format!("cut by {less} bytes"), bytes[..bytes.len() - less].to_vec());
                let mut zeroed = bytes.clone();
                zeroed[bytes.len() - less..].fill(0);
                push(format!("with its last {less} bytes zeroed"), zeroed);
            }
        }
        for more in [1, 512, BLOCK_BYTES] {
            push(format!("lengthened by {more} zeros"), [&bytes[..], &vec![0; more]].concat());
            let mut random = fastrand::Rng::with_seed(more as u64);
            let garbage: Vec<u8> = (0..more).map(|_| random.u8(..)).collect();
            push(format!("lengthened by {more} bytes of garbage"), [&bytes[..], &garbage].concat());
        }
        push("with its own bytes twice".to_owned(), bytes.repeat(2));
    }

    /// Adds the same cases for all files of a kind at once.
    fn kinds_of_files(&self, cases: &mut Vec<Case>) {
        for part in ["log-", "moved", "redo-", ".index", ".hash", ".sorted", "MANIFEST", "LOG or store"] {
            let is_part = |name: &str| match part {
                "LOG or store" => !name.starts_with("MANIFEST"),
                _ => name.contains(part),
            };
            let mut removed = self.bed.files.clone();
            removed.retain(|name, _| !is_part(name));
            cases.push(Case { name: format!("all files removed that are {part}"), files: removed });
            for (whose, from) in [("another database", &self.other.files), ("an older copy", &self.bed.older)]
            {
                let mut files = self.bed.files.clone();
                files.retain(|name, _| !is_part(name));
                files.extend(
                    from.iter().filter(|(name, _)| is_part(name)).map(|(name, b)| (name.clone(), b.clone())),
                );
                cases.push(Case { name: format!("all files from {whose} that are {part}"), files });
            }
        }
    }

    /// Checks that every guarantee is kept in one case.
    pub fn check(&self, case: &Case) -> Result<Counts, String> {
        let mut counts = Counts::default();
        self.bed
            .check(&case.files, &mut counts)
            .map(|()| counts)
            .map_err(|broken| format!("{}: {broken}", case.name))
    }

    /// Checks that the database works next to files with the names of [`STRAYS`], and that they stay as they are, also
    /// after a repair.
    pub fn check_strays(&self, content: &[u8]) -> Result<(), String> {
        let failed = |error: siltstone::Error| error.to_string();
        let mut files = self.bed.files.clone();
        files.extend(STRAYS.iter().map(|name| ((*name).to_owned(), content.to_vec())));
        let directory = memory(&files).map_err(failed)?;
        let verified = siltstone::Database::verify_closed_in(&directory, &mut |_, _| true).map_err(failed)?;
        if let Some(damage) = verified.damage.first() {
            return Err(format!("a file that is not the database's counts as damage: {damage}"));
        }
        for round in 0..2u64 {
            let database = self.bed.builder().create(false).open_in(directory.clone()).map_err(failed)?;
            if round == 0 && !self.bed.read_all(&database)? {
                return Err(
                    "not all records can be read next to files that are not the database's".to_owned()
                );
            }
            // Enough for new segments of the log, and for stores that are created and removed.
            for key in 0..400u64 {
                database
                    .put((1 << 40 | key << 8 | round).to_be_bytes(), [round as u8; 12])
                    .map_err(failed)?;
            }
            database.compact().map_err(failed)?;
            database.close().map_err(failed)?;
        }
        siltstone::Database::repair_in(&directory, &mut |_, _| true).map_err(failed)?;
        let after = read_files(&directory).map_err(failed)?;
        match STRAYS.iter().find(|name| after.get(**name).map(Vec::as_slice) != Some(content)) {
            Some(name) => Err(format!("{name}, which is not the database's, was removed or changed")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flips::file_kind;
    use super::*;

    #[test]
    fn files_removed_mixed_up_or_ending_elsewhere_are_reported_or_harmless() {
        for kind in
            ["log, any size", "log, fixed size", "cuckoo table", "user log, any size", "user log, fixed size"]
        {
            let damage = FileDamage::new(file_kind(kind).unwrap()).unwrap();
            let cases = damage.cases();
            let outcomes: Vec<_> = cases.iter().map(|case| damage.check(case)).collect();
            let broken: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
            let refused: u64 = outcomes.iter().flatten().map(|counts| counts.refused).sum();
            println!("{} cases, {refused} refused at opening", cases.len());
            assert!(broken.is_empty(), "{} of {}: {broken:#?}", broken.len(), cases.len());
            assert!(refused as usize > cases.len() / 3);
        }
    }

    #[test]
    fn files_of_others_are_never_removed_and_do_no_harm() {
        let damage = FileDamage::new(file_kind("log, any size").unwrap()).unwrap();
        let segment = damage.bed.files.iter().find(|(name, _)| name.starts_with("log-")).unwrap().1.clone();
        let store = damage.bed.files.iter().find(|(name, _)| name.ends_with(".sorted")).unwrap().1.clone();
        for content in [&[][..], &[7; 5000], &segment, &store] {
            damage.check_strays(content).unwrap();
        }
    }
}
