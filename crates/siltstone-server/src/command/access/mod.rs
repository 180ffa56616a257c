//! Users, as Redis's access control lists have them: who may connect, and what each of them may do.
//!
//! ```text
//! user alice on #5e88..42 ~cache:* %R~shared:* &news:* -@all +@read +set +client|id
//!            |  password  keys                 channels  commands, by category, name or subcommand
//! ```
//!
//! 1. A rule about commands becomes a bit per command and subcommand, so a check is a lookup of one bit.
//! 2. A change makes new users and a new *generation*. A connection compares the generation at each turn, and takes
//!    over its user when it has changed.
//!
//! These files know commands by their names only: what the names are is in the [`Catalogue`].
//!
//! | file | contents |
//! |---|---|
//! | `categories` | the categories of a command |
//! | `catalogue` | all commands and subcommands by name and category |
//! | `user` | a user: passwords, commands, keys, channels |
//! | `rules` | rules as text |
//! | `users` | all users, and their file |
//! | `log` | what was denied |

mod catalogue;
mod categories;
mod log;
mod rules;
mod user;
mod users;

pub use catalogue::{Catalogue, Described};
pub use categories::CATEGORIES;
pub use log::{Denial, Entry};
pub use rules::parse_file;
pub use user::{KeyUse, User};
pub use users::{DEFAULT, Users, UsersError};
