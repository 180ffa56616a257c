//! Names the shared library: programs that are linked with it ask for this name. The number is the version of the
//! interface, `SILTSTONE_ABI_VERSION`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libsiltstone.0.dylib"),
        Ok("windows") => {}
        _ => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsiltstone.so.0"),
    }
}
