//! Fuzzes one target, whose name is in `SILTSTONE_FUZZ_TARGET`; `./run` builds and starts it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_fuzz::{Target, target};
use std::sync::LazyLock;

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("SILTSTONE_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("there is no target \"{name}\""))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
