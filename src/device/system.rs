//! Files of the operating system.
