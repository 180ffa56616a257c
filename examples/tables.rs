//! Typed tables in one database: users, and an index of them by mail address.
//!
//! A table is a name and two types. A batch changes several tables in one atomic step, so the index always agrees with
//! the users. With `ordered`, `range` reads the users in the order of their numbers.
//!
//! Run with `cargo run --example tables`.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Batch, Codec, Database, FlashKeySettings, Result, Table};
use std::error::Error;

#[derive(Clone, Debug, PartialEq)]
struct User {
    birth_year: u16,
    mail: String,
}

impl Codec for User {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.birth_year.encode(bytes);
        self.mail.encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Option<User> {
        let (birth_year, mail) = bytes.split_at_checked(2)?;
        Some(User { birth_year: u16::decode(birth_year)?, mail: String::decode(mail)? })
    }
}

struct Users {
    database: Database,
    by_number: Table<u64, User>,
    numbers_by_mail: Table<str, u64>,
}

impl Users {
    fn new(database: Database) -> Result<Users> {
        let (by_number, numbers_by_mail) = (database.table("users")?, database.table("mail")?);
        Ok(Users { database, by_number, numbers_by_mail })
    }

    fn add(&self, number: u64, user: &User) -> Result<()> {
        let mut batch = Batch::new();
        self.by_number.put_in(&mut batch, &number, user)?;
        self.numbers_by_mail.put_in(&mut batch, &user.mail, &number)?;
        self.database.write(&batch)
    }

    fn with_mail(&self, mail: &str) -> Result<Option<User>> {
        match self.numbers_by_mail.get(mail)? {
            Some(number) => self.by_number.get(&number),
            None => Ok(None),
        }
    }
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let engine = FlashKeySettings::default().ordered(true);
    let users = Users::new(Database::builder(directory.path().join("users.db")).engine(engine).open()?)?;
    for (number, birth_year, mail) in [(70, 1815, "ada@example.org"), (9, 1906, "grace@example.org")] {
        users.add(number, &User { birth_year, mail: mail.to_owned() })?;
    }
    let ada = users.with_mail("ada@example.org")?.ok_or("there is such a user")?;
    println!("Ada was born in {}", ada.birth_year);
    assert_eq!(ada.birth_year, 1815);
    let numbers: Vec<u64> =
        users.by_number.range(..)?.map(|user| Ok(user?.0)).collect::<Result<Vec<u64>>>()?;
    assert_eq!(numbers, [9, 70]);
    users.database.close()?;
    Ok(())
}
