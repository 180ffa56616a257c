//! Rules of users as text, a subset of that of Redis's files:
//!
//! | rule | meaning |
//! |---|---|
//! | `on` `off` | clients may authenticate as the user, or not |
//! | `>password` `#hash` | adds a password, or its SHA-256 in hexadecimal digits |
//! | `<password` `!hash` | removes it |
//! | `nopass` `resetpass` | any password is right; no password is |
//! | `~pattern` `%R~pattern` `%W~pattern` | keys for all uses, for reading, for writing |
//! | `allkeys` `resetkeys` | `~*`; no keys |
//! | `&pattern` `allchannels` `resetchannels` | channels, all, none |
//! | `+command` `-command` `+command\|subcommand` `-command\|subcommand` | allows a command, or forbids it |
//! | `+@category` `-@category` | those of a category |
//! | `allcommands` `nocommands` | `+@all`, `-@all` |
//! | `reset` | as a new user: off, no password, no rights |
//! | `sanitize-payload` | nothing: every payload of RESTORE is checked |
//!
//! The last rule about a command counts. A file has a line `user NAME RULE...` per user; empty lines, and those that
//! begin with `#`, are passed over.

use super::catalogue::Catalogue;
use super::user::{CommandRights, Hash, KeyPattern, KeyUse, User, hash};
use std::fmt::Write;
use std::sync::Arc;

/// A rule that cannot be applied, in Redis's words where Redis has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It is none of the rules.
    #[error("Syntax error")]
    Syntax,
    /// There is no such command, subcommand or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// All keys are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    /// All channels are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    /// The password is not one of the user.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// It is no SHA-256.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    Hash,
    /// Redis has this rule.
    #[error("selectors are not supported; make a user for each of them")]
    Selector,
}

impl User {
    /// Applies a rule.
    ///
    /// # Errors
    /// The rule is none. The user is as before then.
    pub fn apply(&mut self, rule: &str) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_str() {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" => {
                self.takes_any_password = true;
                self.passwords.clear();
            }
            "resetpass" => {
                self.takes_any_password = false;
                self.passwords.clear();
            }
            "allkeys" | "~*" | "%rw~*" | "%wr~*" => self.keys = None,
            "resetkeys" => self.keys = Some(Vec::new()),
            "allchannels" | "&*" => self.channels = None,
            "resetchannels" => self.channels = Some(Vec::new()),
            "allcommands" | "+@all" => self.commands.set_all(true),
            "nocommands" | "-@all" => self.commands.set_all(false),
            "reset" => *self = User::new(&self.name, self.commands.catalogue.clone()),
            "sanitize-payload" => {}
            "clearselectors" => {}
            _ => return self.apply_prefixed(rule),
        }
        Ok(())
    }

    fn apply_prefixed(&mut self, rule: &str) -> Result<(), RuleError> {
        let Some(kind) = rule.chars().next() else { return Err(RuleError::Syntax) };
        let rest = &rule[kind.len_utf8()..];
        match kind {
            '>' => self.add_password(hash(rest.as_bytes())),
            '#' => self.add_password(parse_hash(rest)?),
            '<' => self.remove_password(hash(rest.as_bytes()))?,
            '!' => self.remove_password(parse_hash(rest)?)?,
            '~' => self.add_keys(rest, KeyUse::BOTH)?,
            '%' => {
                let (uses, pattern) = rest.split_once('~').ok_or(RuleError::Syntax)?;
                let mut allowed = KeyUse::NONE;
                for letter in uses.chars() {
                    match letter.to_ascii_uppercase() {
                        'R' if !allowed.reads => allowed.reads = true,
                        'W' if !allowed.writes => allowed.writes = true,
                        _ => return Err(RuleError::Syntax),
                    }
                }
                match allowed {
                    KeyUse::NONE => return Err(RuleError::Syntax),
                    allowed => self.add_keys(pattern, allowed)?,
                }
            }
            '&' => {
                check_pattern(rest)?;
                let channels = self.channels.as_mut().ok_or(RuleError::AllChannels)?;
                if !channels.iter().any(|known| known == rest) {
                    channels.push(rest.to_owned());
                }
            }
            '+' => self.commands.apply(rest, true)?,
            '-' => self.commands.apply(rest, false)?,
            '(' => return Err(RuleError::Selector),
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn add_password(&mut self, password: Hash) {
        self.takes_any_password = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    fn remove_password(&mut self, password: Hash) -> Result<(), RuleError> {
        let at =
            self.passwords.iter().position(|known| *known == password).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    fn add_keys(&mut self, pattern: &str, allowed: KeyUse) -> Result<(), RuleError> {
        check_pattern(pattern)?;
        let keys = self.keys.as_mut().ok_or(RuleError::AllKeys)?;
        let known = keys.iter_mut().find(|known| known.pattern == pattern);
        match known {
            Some(KeyPattern { allowed: before, .. }) => {
                let (reads, writes) = (before.reads | allowed.reads, before.writes | allowed.writes);
                *before = KeyUse { reads, writes };
                // As a rule that states both.
                if pattern == "*" && *before == KeyUse::BOTH {
                    self.keys = None;
                }
            }
            None => keys.push(KeyPattern { pattern: pattern.to_owned(), allowed }),
        }
        Ok(())
    }

    /// Returns `on` or `off`, and whether any password is right, as words.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.takes_any_password.then_some("nopass"));
        flags
    }

    /// Returns the hashes of the passwords, in hexadecimal digits.
    pub fn hashes(&self) -> Vec<String> {
        let hexadecimal = |hash: &Hash| {
            hash.iter().fold(String::new(), |mut text, byte| {
                // Writing to a string does not fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        self.passwords.iter().map(hexadecimal).collect()
    }

    /// Returns the rules about keys, with spaces between them.
    pub fn key_rules(&self) -> String {
        let Some(keys) = &self.keys else { return "~*".to_owned() };
        let rule = |KeyPattern { pattern, allowed }: &KeyPattern| match *allowed {
            KeyUse::READ => format!("%R~{pattern}"),
            KeyUse::WRITE => format!("%W~{pattern}"),
            _ => format!("~{pattern}"),
        };
        keys.iter().map(rule).collect::<Vec<_>>().join(" ")
    }

    /// Returns the rules about channels, with spaces between them.
    pub fn channel_rules(&self) -> String {
        let Some(channels) = &self.channels else { return "&*".to_owned() };
        channels.iter().map(|pattern| format!("&{pattern}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns the rules about commands, with spaces between them.
    pub fn command_rules(&self) -> String {
        let rules = &self.commands.rules;
        let is_from_all = rules.first().is_some_and(|rule| rule == "+@all");
        let first = (!is_from_all).then_some("-@all");
        first.into_iter().chain(rules.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the line of the user, as a file has it.
    pub fn line(&self) -> String {
        let mut words = vec!["user".to_owned(), self.name.clone()];
        words.extend(self.flags().into_iter().map(str::to_owned));
        words.extend(self.hashes().iter().map(|hash| format!("#{hash}")));
        words.extend(Some(self.key_rules()).filter(|rules| !rules.is_empty()));
        words.extend(self.channels.is_some().then(|| "resetchannels".to_owned()));
        words.extend(Some(self.channel_rules()).filter(|rules| !rules.is_empty()));
        words.push(self.command_rules());
        words.join(" ")
    }
}

impl CommandRights {
    /// Allows or forbids what a rule names, without its sign.
    fn apply(&mut self, named: &str, is_allowed: bool) -> Result<(), RuleError> {
        let catalogue = self.catalogue.clone();
        if let Some(category) = named.strip_prefix('@') {
            self.set(catalogue.in_category(category).ok_or(RuleError::Unknown)?, is_allowed);
        } else if let Some((command, subcommand)) = named.split_once('|') {
            let number = catalogue.number(command.as_bytes(), Some(subcommand.as_bytes()));
            let is_named = |number: &usize| catalogue.name(*number).eq_ignore_ascii_case(named);
            let number = number.filter(is_named).ok_or(RuleError::Unknown)?;
            self.set(std::iter::once(number), is_allowed);
        } else {
            let numbers = catalogue.numbers(named.as_bytes());
            if numbers.is_empty() {
                return Err(RuleError::Unknown);
            }
            self.set(numbers, is_allowed);
        }
        let rule = format!("{}{}", if is_allowed { '+' } else { '-' }, named.to_ascii_lowercase());
        // An earlier rule about the same has no effect any more.
        self.rules.retain(|known| known[1..] != rule[1..] || known == "+@all");
        self.rules.push(rule);
        Ok(())
    }
}

/// Refuses what would end the rule in a file.
fn check_pattern(pattern: &str) -> Result<(), RuleError> {
    if pattern.contains(|letter: char| letter.is_whitespace() || letter == '\0') {
        return Err(RuleError::Syntax);
    }
    Ok(())
}

fn parse_hash(text: &str) -> Result<Hash, RuleError> {
    let mut bytes = [0; size_of::<Hash>()];
    if text.len() != 2 * bytes.len() || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    {
        return Err(RuleError::Hash);
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| RuleError::Hash)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| RuleError::Hash)?;
    }
    Ok(bytes)
}

/// Parses a file of users, of which each is defined once.
///
/// # Errors
/// The number of the first line that cannot be used, the problem and the remedy.
pub fn parse_file(text: &str, catalogue: &Arc<Catalogue>) -> Result<Vec<User>, (usize, String)> {
    let mut users: Vec<User> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_whitespace();
        match words.next() {
            None => continue,
            Some(first) if first.starts_with('#') => continue,
            Some("user") => {}
            Some(other) => {
                return Err((number, format!("`{other}` is no `user`; write `user NAME RULE...`")));
            }
        }
        let Some(name) = words.next() else {
            return Err((number, "there is no name; write `user NAME RULE...`".to_owned()));
        };
        if users.iter().any(|user| user.name == name) {
            return Err((number, format!("`{name}` is defined twice; write one line for each user")));
        }
        let mut user = User::new(name, catalogue.clone());
        for rule in words {
            user.apply(rule)
                .map_err(|error| (number, format!("`{}`: {error}{}", shown(rule), remedy(error))))?;
        }
        users.push(user);
    }
    Ok(users)
}

/// Returns a rule for a message: a password is left out.
fn shown(rule: &str) -> &str {
    let is_password = rule.starts_with(['>', '<']);
    if is_password { &rule[..1] } else { rule }
}

fn remedy(error: RuleError) -> &'static str {
    match error {
        RuleError::Syntax => "; the page SERVER lists the rules",
        RuleError::Unknown => {
            "; COMMAND LIST and ACL CAT list the names, and the server has not all of those of Redis"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tests::small;
    use super::*;

    fn user(rules: &str) -> Result<User, RuleError> {
        let mut user = User::new("alice", Arc::new(small()));
        rules.split_whitespace().try_for_each(|rule| user.apply(rule))?;
        Ok(user)
    }

    #[test]
    fn the_last_rule_about_a_command_counts() {
        let may = |rules: &str| -> Vec<&str> {
            let user = user(rules).unwrap();
            let all = [("get", ""), ("set", ""), ("keys", ""), ("client", "id"), ("client", "KILL")];
            let may = |(command, sub): &(&str, &str)| user.may_execute(command, Some(sub.as_bytes()));
            all.into_iter()
                .filter(may)
                .map(|(command, sub)| if sub.is_empty() { command } else { sub })
                .collect()
        };
        assert_eq!(may(""), [""; 0]);
        assert_eq!(may("+@all"), ["get", "set", "keys", "id", "KILL"]);
        assert_eq!(may("allcommands -@dangerous"), ["get", "set", "id"]);
        assert_eq!(may("+@all -client +client|id"), ["get", "set", "keys", "id"]);
        assert_eq!(may("+@read -KEYS"), ["get"]);
        assert_eq!(may("-keys +@read +@write"), ["get", "set", "keys"]);
        assert_eq!(may("+@all nocommands +client|kill"), ["KILL"]);
        assert_eq!(may("+@all reset"), [""; 0]);
    }

    #[test]
    fn keys_are_allowed_for_reading_and_writing_apart() {
        let user = user("~both:* %R~read:* %W~write:* %R~mixed %W~mixed").unwrap();
        for (key, reads, writes) in [
            ("both:1", true, true),
            ("read:1", true, false),
            ("write:1", false, true),
            ("mixed", true, true),
            ("other", false, false),
        ] {
            let key = key.as_bytes();
            assert_eq!(user.may_use_key(key, KeyUse::READ), reads);
            assert_eq!(user.may_use_key(key, KeyUse::WRITE), writes);
            assert_eq!(user.may_use_key(key, KeyUse::BOTH), reads && writes);
            assert_eq!(user.may_use_key(key, KeyUse::NONE), reads || writes);
        }
    }

    #[test]
    fn a_pattern_of_channels_must_be_allowed_as_it_is() {
        let user = user("&news:* &a").unwrap();
        assert!(user.may_use_channel(b"news:1", false) && !user.may_use_channel(b"new", false));
        assert!(user.may_use_channel(b"news:*", true) && !user.may_use_channel(b"news:1*", true));
        assert!(!user.may_use_channel(b"*", true));
    }

    #[test]
    fn passwords_are_added_and_removed() {
        let mut user = user("on >one >two").unwrap();
        assert!(user.takes_password(b"one") && user.takes_password(b"two") && !user.takes_password(b"three"));
        user.apply("<one").unwrap();
        assert!(!user.takes_password(b"one") && user.takes_password(b"two"));
        user.apply("off").unwrap();
        assert!(!user.takes_password(b"two"));
        assert_eq!(user.apply("<one"), Err(RuleError::NoSuchPassword));
        // The SHA-256 of `two`.
        let hash = "#3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
        assert_eq!(format!("#{}", user.hashes()[0]), hash);
        user.apply("on").unwrap();
        user.apply("nopass").unwrap();
        assert!(user.takes_password(b"anything") && user.is_open() && user.hashes().is_empty());
        user.apply(hash).unwrap();
        assert!(user.takes_password(b"two") && !user.takes_password(b"anything"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for (rules, error) in [
            ("nosuch", RuleError::Syntax),
            ("%~a", RuleError::Syntax),
            ("%RR~a", RuleError::Syntax),
            ("%X~a", RuleError::Syntax),
            ("%R", RuleError::Syntax),
            ("+nosuch", RuleError::Unknown),
            ("+@nosuch", RuleError::Unknown),
            ("+client|nosuch", RuleError::Unknown),
            ("+get|key", RuleError::Unknown),
            ("+", RuleError::Unknown),
            ("~* ~a", RuleError::AllKeys),
            ("&* &a", RuleError::AllChannels),
            ("#12", RuleError::Hash),
            ("(+get", RuleError::Selector),
            ("skip-sanitize-payload", RuleError::Syntax),
        ] {
            assert_eq!(user(rules).err(), Some(error), "{rules}");
        }
        let mut user = user("").unwrap();
        assert!(["~a b", "&a\nb", "%R~a\tb"].iter().all(|rule| user.apply(rule) == Err(RuleError::Syntax)));
    }

    #[test]
    fn the_line_of_a_user_makes_the_same_user() {
        let catalogue = Arc::new(small());
        for rules in [
            "",
            "on nopass ~* &* +@all",
            "on >a >b ~k:* %R~r %W~w &c:* +@read -keys +client|id",
            "off resetchannels +@all -client|kill -@write +set",
            "%R~* ~a %W~*",
        ] {
            let line = user(rules).unwrap().line();
            let [again] = &parse_file(&line, &catalogue).unwrap()[..] else { panic!("{line}") };
            assert_eq!(again.line(), line, "{rules}");
        }
        assert_eq!(user("").unwrap().line(), "user alice off resetchannels -@all");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_with_the_line() {
        let catalogue = Arc::new(small());
        let parse = |text: &str| parse_file(text, &catalogue).map(|users| users.len());
        assert_eq!(parse("# A comment.\n\n user a on\nuser b +get\n"), Ok(2));
        for (text, line, problem) in [
            ("user a\nuser b +nosuch", 2, "`+nosuch`: Unknown command"),
            ("use a", 1, "`use` is no `user`"),
            ("\nuser", 2, "no name"),
            ("user a\n\nuser a", 3, "defined twice"),
            ("user a ~* ~secret", 1, "`~secret`: Adding a pattern"),
            ("user a <secret", 1, "`<`: The password"),
        ] {
            let (number, found) = parse(text).unwrap_err();
            assert!(number == line && found.contains(problem), "{text}: {number}: {found}");
        }
    }
}
