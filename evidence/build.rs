//! With the feature `peers`: compiles the small binding of BerkeleyDB and passes the location of the system's libraries
//! to the linker.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "peers")]
    link_peers();
}

#[cfg(feature = "peers")]
fn link_peers() {
    const BINDING: &str = "src/compare/peer/berkeleydb.c";
    println!("cargo:rerun-if-changed={BINDING}");
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    cc::Build::new().file(BINDING).compile("evidence_berkeleydb");
    println!("cargo:rustc-link-lib=dylib=db");
    println!("cargo:rustc-link-lib=dylib=leveldb");
    if let Ok(directory) = std::env::var("ROCKSDB_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{directory}");
    }
}
