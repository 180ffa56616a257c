//! All users of a server, and the file that defines them.

use super::catalogue::Catalogue;
use super::log::Log;
use super::rules::{RuleError, parse_file};
use super::user::User;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The name of the user that a connection has before it authenticates.
pub const DEFAULT: &str = "default";

/// The users by name.
type Table = BTreeMap<String, Arc<User>>;

/// All users. The user [`DEFAULT`] is always one of them.
pub struct Users {
    /// All commands.
    pub catalogue: Arc<Catalogue>,
    file: Option<PathBuf>,
    /// What `default` is, if the file does not define it.
    default: Arc<User>,
    current: RwLock<Arc<Table>>,
    generation: AtomicU64,
    log: Mutex<Log>,
}

/// The file of users cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {problem}", .file.display(), .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct UsersError {
    /// The file.
    pub file: PathBuf,
    /// The number of the line, if it is one that cannot be used.
    pub line: Option<usize>,
    /// The problem and the remedy.
    pub problem: String,
}

impl Users {
    /// Reads the file of users, if there is one.
    ///
    /// The user `default` may do everything, with the password if there is one. Without a password a file that does not
    /// define it turns it off: all clients need a name then.
    ///
    /// # Errors
    /// A file that cannot be read, a line that cannot be used, and a file that defines `default` if there is a
    /// password.
    pub fn open(
        catalogue: Catalogue,
        file: Option<PathBuf>,
        password: Option<&str>,
    ) -> Result<Users, UsersError> {
        let catalogue = Arc::new(catalogue);
        let mut default = User::new(DEFAULT, catalogue.clone());
        let on = if file.is_some() && password.is_none() { "off" } else { "on" };
        let password = password.map_or("nopass".to_owned(), |password| format!(">{password}"));
        for rule in [on, &password, "~*", "&*", "+@all"] {
            // None of them can fail.
            let _ = default.apply(rule);
        }
        let default = Arc::new(default);
        let users = Users {
            catalogue,
            file,
            current: RwLock::new(Arc::new(Table::from([(DEFAULT.to_owned(), default.clone())]))),
            default,
            generation: AtomicU64::new(0),
            log: Mutex::default(),
        };
        users.load()?;
        Ok(users)
    }

    /// Reads the file again. Returns the number of users, or `None` if there is no file.
    ///
    /// # Errors
    /// Those of [`open`](Users::open). All users are as before then.
    pub fn load(&self) -> Result<Option<usize>, UsersError> {
        let Some(file) = &self.file else { return Ok(None) };
        let failed = |line, problem| UsersError { file: file.clone(), line, problem };
        let text = fs::read_to_string(file).map_err(|error| failed(None, error.to_string()))?;
        let users =
            parse_file(&text, &self.catalogue).map_err(|(line, problem)| failed(Some(line), problem))?;
        let mut table = Table::from([(DEFAULT.to_owned(), self.default.clone())]);
        for user in users {
            if user.name == DEFAULT && !self.default.needs_no_password() {
                let problem = "`default` is defined, and has a password from elsewhere; state one of both";
                return Err(failed(None, problem.to_owned()));
            }
            table.insert(user.name.clone(), Arc::new(user));
        }
        let number = table.len();
        self.change(|users| *users = table);
        Ok(Some(number))
    }

    /// Writes all users to the file. Returns whether there is one.
    ///
    /// # Errors
    /// Errors of the system. The file is as before then.
    pub fn save(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        // A file may not define a user whose password is from elsewhere.
        let is_saved = |user: &&Arc<User>| user.name != DEFAULT || self.default.needs_no_password();
        let users = self.all();
        let text: String = users.values().filter(is_saved).map(|user| format!("{}\n", user.line())).collect();
        let new = file.with_extension("new");
        write_synced(&new, &text, file).inspect_err(|_| _ = fs::remove_file(&new))?;
        Ok(true)
    }

    /// Returns all users.
    fn all(&self) -> Arc<Table> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns all users in the order of their names.
    pub fn list(&self) -> Vec<Arc<User>> {
        self.all().values().cloned().collect()
    }

    /// Returns a user by name.
    pub fn get(&self, name: &str) -> Option<Arc<User>> {
        self.all().get(name).cloned()
    }

    /// Returns the user of connections that have not authenticated.
    pub fn default_user(&self) -> Arc<User> {
        self.get(DEFAULT).unwrap_or_else(|| self.default.clone())
    }

    /// Returns the number of changes so far.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the user of this name, if a client with this password may be that user.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = std::str::from_utf8(name).ok().and_then(|name| self.get(name));
        // A name that does not exist takes as long.
        let known = user.clone().unwrap_or_else(|| self.default.clone());
        let is_right = known.takes_password(password);
        user.filter(|_| is_right)
    }

    /// Applies rules to a user, which is made if it does not exist.
    ///
    /// # Errors
    /// The first rule that cannot be applied. Nothing has changed then.
    pub fn set<'a>(&self, name: &str, rules: &[&'a str]) -> Result<(), (&'a str, RuleError)> {
        self.change(|users| {
            let known = users.get(name).map(|user| User::clone(user));
            let mut user = known.unwrap_or_else(|| User::new(name, self.catalogue.clone()));
            rules.iter().try_for_each(|rule| user.apply(rule).map_err(|error| (*rule, error)))?;
            users.insert(name.to_owned(), Arc::new(user));
            Ok(())
        })
    }

    /// Deletes users, but not `default`. Returns their number.
    pub fn delete(&self, names: &[&str]) -> usize {
        let names = names.iter().filter(|name| **name != DEFAULT);
        self.change(|users| names.filter(|name| users.remove(**name).is_some()).count())
    }

    /// Changes the users, one change after another.
    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut users = Table::clone(&current);
        let result = change(&mut users);
        *current = Arc::new(users);
        // After the change: a connection that sees the number sees the change.
        self.generation.fetch_add(1, Ordering::Release);
        result
    }

    /// Returns what was denied.
    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a file that takes the place of another one when it is on the device.
fn write_synced(new: &Path, text: &str, file: &Path) -> io::Result<()> {
    let mut written = File::create(new)?;
    // Who may read the hashes of passwords stays the same.
    if let Ok(metadata) = fs::metadata(file) {
        written.set_permissions(metadata.permissions())?;
    }
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tests::small;
    use super::*;

    fn open(text: &str, password: Option<&str>) -> (tempfile::TempDir, Result<Users, UsersError>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("users.acl");
        fs::write(&file, text).unwrap();
        let users = Users::open(small(), Some(file), password);
        (directory, users)
    }

    #[test]
    fn a_file_without_the_default_user_turns_it_off() {
        let users = Users::open(small(), None, None).unwrap();
        assert!(users.default_user().is_open() && users.default_user().is_unlimited());
        let users = Users::open(small(), None, Some("secret")).unwrap();
        assert!(!users.default_user().is_open() && users.authenticate(b"default", b"secret").is_some());
        let (_directory, users) = open("user alice on >a +get ~*", None);
        let users = users.unwrap();
        assert!(!users.default_user().is_open() && users.authenticate(b"default", b"").is_none());
        assert!(users.authenticate(b"alice", b"a").is_some() && users.authenticate(b"alice", b"b").is_none());
        assert!(users.authenticate(b"bob", b"a").is_none() && users.authenticate(b"\xff", b"a").is_none());
        let (_directory, users) = open("user alice on >a +get ~*", Some("secret"));
        assert!(users.unwrap().authenticate(b"default", b"secret").is_some());
        let (_directory, users) = open("user default on nopass", Some("secret"));
        assert!(users.err().unwrap().to_string().contains("state one of both"));
    }

    #[test]
    fn a_file_that_cannot_be_used_changes_nothing() {
        let (directory, users) = open("user alice on nopass +get", None);
        let (users, file) = (users.unwrap(), directory.path().join("users.acl"));
        let before = users.generation();
        fs::write(&file, "user bob\nuser carol +nosuch").unwrap();
        let error = users.load().unwrap_err();
        assert_eq!((error.file.clone(), error.line), (file.clone(), Some(2)));
        assert!(users.get("alice").is_some() && users.get("bob").is_none());
        assert_eq!(users.generation(), before);
        fs::write(&file, "user bob").unwrap();
        assert_eq!(users.load(), Ok(Some(2)));
        assert!(users.get("alice").is_none() && users.get("bob").is_some());
        assert!(users.generation() > before);
    }

    #[test]
    fn what_was_saved_is_loaded_again() {
        let (_directory, users) = open("user alice on >a ~a:* +@read", None);
        let users = users.unwrap();
        users.set("bob", &["on", "nopass", "%R~b", "+client|id"]).unwrap();
        assert_eq!(users.set("bob", &["off", "+nosuch"]), Err(("+nosuch", RuleError::Unknown)));
        let lines = || users.list().iter().map(|user| user.line()).collect::<Vec<_>>();
        let before = lines();
        assert_eq!(before.len(), 3);
        assert!(users.save().unwrap());
        assert_eq!(users.load(), Ok(Some(3)));
        assert_eq!(lines(), before);
        assert_eq!(users.delete(&["alice", "default", "nosuch"]), 1);
        assert_eq!(users.load(), Ok(Some(3)));
    }
}
