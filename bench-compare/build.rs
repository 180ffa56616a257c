//! Compiles the small binding of BerkeleyDB and passes the location of the system's libraries to the linker.

fn main() {
    println!("cargo:rerun-if-changed=src/peer/berkeleydb.c");
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    cc::Build::new().file("src/peer/berkeleydb.c").compile("bench_compare_berkeleydb");
    println!("cargo:rustc-link-lib=dylib=db");
    println!("cargo:rustc-link-lib=dylib=leveldb");
    if let Ok(directory) = std::env::var("ROCKSDB_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{directory}");
    }
}
