//! All commands and subcommands, by name and by category.

use super::categories::{CATEGORIES, is_of};
use std::ops::Range;

/// A command, as the catalogue needs it.
pub struct Described {
    /// The name, in lower case.
    pub name: &'static str,
    /// The flags that COMMAND replies.
    pub flags: &'static [&'static str],
    /// The group.
    pub group: &'static str,
    /// The subcommands, with their numbers of words.
    pub subcommands: &'static [(&'static str, i64)],
}

/// A command, or a subcommand.
#[derive(Debug)]
struct Item {
    command: &'static str,
    /// Empty for a command.
    subcommand: &'static str,
    /// A bit per category.
    categories: u32,
}

/// All commands and subcommands. Each has a number.
#[derive(Debug)]
pub struct Catalogue {
    /// In the order of the commands, and of their subcommands.
    items: Vec<Item>,
}

impl Catalogue {
    /// Makes a catalogue.
    pub fn new(commands: impl Iterator<Item = Described>) -> Catalogue {
        let mut items = Vec::new();
        for Described { name, flags, group, subcommands } in commands {
            for subcommand in std::iter::once("").chain(subcommands.iter().map(|(name, _)| *name)) {
                let all = 0..CATEGORIES.len();
                let of = all.filter(|category| is_of(*category, name, subcommand, flags, group));
                let categories = of.fold(0, |bits, category| bits | 1 << category);
                items.push(Item { command: name, subcommand, categories });
            }
        }
        items.sort_by_key(|item| (item.command, item.subcommand));
        Catalogue { items }
    }

    /// Returns the number of commands and subcommands.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the number of a command, or of its subcommand if it has this one. Both may be in any case.
    pub fn number(&self, command: &[u8], subcommand: Option<&[u8]>) -> Option<usize> {
        let numbers = self.numbers(command);
        let is_asked = |number: &usize| {
            let name = self.items[*number].subcommand.as_bytes();
            !name.is_empty() && subcommand.is_some_and(|asked| asked.eq_ignore_ascii_case(name))
        };
        numbers.clone().find(is_asked).or_else(|| numbers.into_iter().next())
    }

    /// Returns the numbers of a command and of all its subcommands; none if there is no such command.
    pub fn numbers(&self, command: &[u8]) -> Range<usize> {
        let lower = || command.iter().map(u8::to_ascii_lowercase);
        let before = |item: &Item| item.command.bytes().lt(lower());
        let start = self.items.partition_point(before);
        let is_other = |item: &Item| !item.command.bytes().eq(lower());
        let length = self.items[start..].iter().position(is_other).unwrap_or(self.items.len() - start);
        start..start + length
    }

    /// Returns the numbers of all of a category, which may be in any case; `None` if there is no such category.
    pub fn in_category(&self, category: &str) -> Option<impl Iterator<Item = usize>> {
        let category = CATEGORIES.iter().position(|name| name.eq_ignore_ascii_case(category))?;
        let numbered = self.items.iter().enumerate();
        Some(numbered.filter(move |(_, item)| item.categories >> category & 1 == 1).map(|(number, _)| number))
    }

    /// Returns the name, as `client|id` for a subcommand.
    pub fn name(&self, number: usize) -> String {
        match &self.items[number] {
            Item { command, subcommand: "", .. } => (*command).to_owned(),
            Item { command, subcommand, .. } => format!("{command}|{subcommand}"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A catalogue of four commands, of which one has subcommands.
    pub fn small() -> Catalogue {
        let described = |name, flags, group| Described { name, flags, group, subcommands: &[] };
        let commands = [
            described("set", &["write"][..], "string"),
            Described {
                subcommands: &[("kill", -2), ("id", 2)],
                ..described("client", &["fast"], "connection")
            },
            described("get", &["readonly", "fast"], "string"),
            described("keys", &["readonly"], "generic"),
        ];
        Catalogue::new(commands.into_iter())
    }

    #[test]
    fn commands_and_subcommands_are_found_in_any_case() {
        let catalogue = small();
        let name = |command: &str, subcommand: Option<&str>| {
            let number = catalogue.number(command.as_bytes(), subcommand.map(str::as_bytes))?;
            Some(catalogue.name(number))
        };
        assert_eq!(name("GET", Some("key")).as_deref(), Some("get"));
        assert_eq!(name("client", Some("ID")).as_deref(), Some("client|id"));
        assert_eq!(name("client", Some("nosuch")).as_deref(), Some("client"));
        assert_eq!(name("client", None).as_deref(), Some("client"));
        assert_eq!(
            (name("ge", None), name("gets", None), name("zz", None), name("", None)),
            (None, None, None, None)
        );
        assert_eq!(catalogue.numbers(b"client").len(), 3);
    }

    #[test]
    fn categories_follow_from_flags_groups_and_names() {
        let catalogue = small();
        let of = |category: &str| -> Vec<String> {
            catalogue.in_category(category).unwrap().map(|number| catalogue.name(number)).collect()
        };
        assert_eq!(of("read"), ["get", "keys"]);
        assert_eq!(of("WRITE"), ["set"]);
        assert_eq!(of("fast"), ["client", "get"]);
        assert_eq!(of("dangerous"), ["client|kill", "keys"]);
        assert_eq!(of("keyspace"), ["keys"]);
        assert_eq!(of("connection"), ["client", "client|id", "client|kill"]);
        assert_eq!(of("stream"), [""; 0]);
        assert!(catalogue.in_category("nosuch").is_none());
    }
}
