//! Damage to whole files at rest: their names, to which database they belong, and where they end. Whatever is done to
//! them, nothing is answered wrongly, what was synced is there or reported as lost, opening, verifying and repairing
//! agree, and no file of others is touched.

use super::flips::{Bed, Files, Shape, Tally, memory, read_files};

/// The largest part of a file's end that is damaged, in bytes.
const BLOCK_BYTES: usize = 4096;

/// A way to damage the files of a database.
pub struct Case {
    /// What was done, to which file.
    pub name: String,
    files: Files,
}

/// Names that look like those of a database's files, and are not: each file is somebody else's.
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

/// A database, another one of the same shape, and all that is done to its files.
pub struct FileDamage {
    bed: Bed,
    other: Bed,
}

impl FileDamage {
    pub(super) fn new(shape: Shape) -> Result<FileDamage, String> {
        let bed = |seed| Bed::new(shape, seed).map_err(|error| error.to_string());
        Ok(FileDamage { bed: bed(super::flips::SEED)?, other: bed([17, 23])? })
    }

    /// Every way in which a file can be missing, another one's, or end elsewhere.
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
                cases.push(Case { name: format!("{name} and {other} changed places"), files });
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

    /// All files of a kind at once.
    fn kinds_of_files(&self, cases: &mut Vec<Case>) {
        for part in ["log-", ".hash", ".sorted", "MANIFEST", "LOG or store"] {
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

    /// Whether every promise is kept in one case.
    pub fn check(&self, case: &Case) -> Result<Tally, String> {
        let mut tally = Tally::default();
        self.bed
            .check(&case.files, &mut tally)
            .map(|()| tally)
            .map_err(|broken| format!("{}: {broken}", case.name))
    }

    /// Files of others with such names: the database works, and they stay as they are, also after a repair.
    pub fn check_strays(&self, content: &[u8]) -> Result<(), String> {
        let failed = |error: siltstone::Error| error.to_string();
        let mut files = self.bed.files.clone();
        files.extend(STRAYS.iter().map(|name| ((*name).to_owned(), content.to_vec())));
        let directory = memory(&files).map_err(failed)?;
        let verified = siltstone::Database::verify_closed_in(&directory, &mut |_, _| true).map_err(failed)?;
        if let Some(damage) = verified.damage.first() {
            return Err(format!("a file of others counts as damage: {damage}"));
        }
        for round in 0..2u64 {
            let database = self.bed.builder().create(false).open_in(directory.clone()).map_err(failed)?;
            if round == 0 && !self.bed.read_all(&database)? {
                return Err("not all can be read beside files of others".to_owned());
            }
            // So much that the log goes on to other segments, and stores come and go.
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
            Some(name) => Err(format!("{name}, a file of others, was removed or changed")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flips::{PERFECT, TRIE, VARIABLE};
    use super::*;

    #[test]
    fn files_removed_mixed_up_or_ending_elsewhere_are_reported_or_harmless() {
        for shape in [VARIABLE, PERFECT, TRIE] {
            let damage = FileDamage::new(shape).unwrap();
            let cases = damage.cases();
            let outcomes: Vec<_> = cases.iter().map(|case| damage.check(case)).collect();
            let broken: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
            let refused: u64 = outcomes.iter().flatten().map(|tally| tally.refused).sum();
            println!("{} cases, {refused} refused at opening", cases.len());
            assert!(broken.is_empty(), "{} of {}: {broken:#?}", broken.len(), cases.len());
            assert!(refused as usize > cases.len() / 3);
        }
    }

    #[test]
    fn files_of_others_are_never_removed_and_stand_in_nobodys_way() {
        let damage = FileDamage::new(VARIABLE).unwrap();
        let segment = damage.bed.files.iter().find(|(name, _)| name.starts_with("log-")).unwrap().1.clone();
        let store = damage.bed.files.iter().find(|(name, _)| name.ends_with(".sorted")).unwrap().1.clone();
        for content in [&[][..], &[7; 5000], &segment, &store] {
            damage.check_strays(content).unwrap();
        }
    }
}
