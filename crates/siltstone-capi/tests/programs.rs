//! Programs in C, C++ and Go are compiled with the compilers of the system against the library as `make install-capi`
//! installs it, and run: as they are, with AddressSanitizer, and under Valgrind.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

const C_FLAGS: [&str; 5] = ["-std=c11", "-g", "-Wall", "-Wextra", "-Werror"];
const CXX_FLAGS: [&str; 5] = ["-std=c++17", "-g", "-Wall", "-Wextra", "-Werror"];

fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with the library that was compiled for this test.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs a command, which must succeed, and returns what it prints.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}{complained}", output.status);
    printed
}

/// Returns whether there is a program with this name. A test that needs it is skipped otherwise.
fn has(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no {program}");
    }
    found
}

/// The library, installed once for all tests of the process.
static INSTALLED: LazyLock<PathBuf> = LazyLock::new(|| {
    // Nothing removes what a static owns, so each run replaces the directory of the one before.
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("siltstone-capi");
    let _ = std::fs::remove_dir_all(&prefix);
    let mut make = Command::new("make");
    // `true` in place of cargo: the library is compiled already.
    make.args(["--silent", "install-capi", "CARGO=true"]);
    make.arg(format!("PREFIX={}", prefix.display()));
    make.arg(format!("CAPI_BUILT={}", built().display()));
    make.env_remove("MAKEFLAGS").env_remove("DESTDIR").current_dir(crate_root().join("../.."));
    run(&mut make);
    prefix
});

fn installed() -> &'static Path {
    &INSTALLED
}

/// What `pkg-config`, or else the documentation of the installation, says of the library.
fn link_flags(is_static: bool) -> Vec<String> {
    let (include, library) = (installed().join("include"), installed().join("lib"));
    // The second one for the names of LevelDB's headers.
    let mut flags = vec![format!("-I{}", include.display()), format!("-I{}/siltstone", include.display())];
    if is_static {
        flags.push(library.join("libsiltstone.a").display().to_string());
        flags.extend(["-lpthread", "-ldl", "-lm"].map(str::to_owned));
    } else {
        flags.extend([format!("-L{}", library.display()), "-lsiltstone".to_owned()]);
        flags.push(format!("-Wl,-rpath,{}", library.display()));
    }
    flags
}

/// A program that was compiled, in a directory of its own.
struct Program {
    directory: TempDir,
}

impl Program {
    fn compile(compiler: &str, flags: &[&str], source: &str, is_static: bool) -> Program {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(compiler);
        command.args(flags).arg(crate_root().join(source)).arg("-o").arg(directory.path().join("program"));
        run(command.args(link_flags(is_static)));
        Program { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    /// Runs it with a new directory as argument.
    fn run_with(&self, wrapper: &[&str]) -> String {
        let data = tempfile::tempdir_in(self.directory.path()).unwrap();
        let program = self.path();
        let mut command = match wrapper {
            [] => Command::new(program),
            [wrapper, arguments @ ..] => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
        };
        run(command.arg(data.path()))
    }

    fn run(&self) -> String {
        self.run_with(&[])
    }
}

#[test]
fn every_function_works_with_the_shared_and_the_static_library() {
    for is_static in [false, true] {
        let program = Program::compile("cc", &C_FLAGS, "tests/programs/interface.c", is_static);
        assert_eq!(program.run(), "interface: ok\n");
    }
}

#[test]
fn calls_that_take_a_path_handle_the_disk_of_a_database_too() {
    let program = Program::compile("cc", &C_FLAGS, "tests/programs/directories.c", false);
    assert_eq!(program.run(), "directories: ok\n");
}

#[test]
fn a_program_for_leveldb_compiles_and_runs() {
    let source = "tests/programs/leveldb.c";
    assert_eq!(Program::compile("cc", &C_FLAGS, source, false).run(), "leveldb: ok\n");
    let quiet = [&C_FLAGS[..], &["-DSILTSTONE_LEVELDB_QUIET"]].concat();
    assert_eq!(Program::compile("cc", &quiet, source, false).run(), "leveldb: ok\n");
    // C++ programs use that interface too.
    let as_cpp = [&CXX_FLAGS[..], &["-x", "c++"]].concat();
    let program = Program::compile("c++", &as_cpp, source, false);
    assert_eq!(program.run(), "leveldb: ok\n");
}

#[test]
fn a_program_for_leveldb_that_needs_the_order_of_the_keys_compiles_and_runs() {
    let source = "tests/programs/leveldb_ordered.c";
    assert_eq!(Program::compile("cc", &C_FLAGS, source, false).run(), "leveldb_ordered: ok\n");
    let as_cpp = [&CXX_FLAGS[..], &["-x", "c++"]].concat();
    assert_eq!(Program::compile("c++", &as_cpp, source, false).run(), "leveldb_ordered: ok\n");
}

#[test]
fn a_call_that_needs_the_order_of_the_keys_does_not_compile_if_the_program_does_without() {
    let calls = ["leveldb_iter_seek(it, \"a\", 1)", "leveldb_iter_seek_to_last(it)", "leveldb_iter_prev(it)"];
    for call in calls {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("program.c");
        let code = format!(
            "#include <siltstone/leveldb_compat.h>\nint main(void) {{ leveldb_iterator_t *it = NULL; {call}; }}\n"
        );
        std::fs::write(&source, code).unwrap();
        let compile = |flags: &[&str]| {
            let mut compiler = Command::new("cc");
            compiler
                .args(C_FLAGS)
                .args(flags)
                .arg(&source)
                .arg("-c")
                .arg("-o")
                .arg(directory.path().join("o"));
            compiler.args(link_flags(false)).output().unwrap()
        };
        let output = compile(&["-DSILTSTONE_LEVELDB_UNORDERED"]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && complaint.contains("SILTSTONE_LEVELDB_UNORDERED"), "{complaint}");
        let output = compile(&[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_name_of_leveldbs_header_exists_under_its_name() {
    let program = Program::compile("cc", &C_FLAGS, "tests/programs/leveldb_names.c", false);
    assert_eq!(program.run(), "68 functions, 12 types\n");
}

/// LevelDB's own test of its interface, which is the file that SILTSTONE_LEVELDB_C_TEST names: db/c_test.c of LevelDB.
#[test]
fn the_test_of_leveldbs_c_interface_passes_but_for_the_name_of_its_comparator() {
    let Some(file) = std::env::var_os("SILTSTONE_LEVELDB_C_TEST") else {
        eprintln!("skipped: SILTSTONE_LEVELDB_C_TEST is not set");
        return;
    };
    let source = std::fs::read_to_string(file).unwrap();
    // It compares as bytes, under a name of its own.
    let own_name = source.replacen("return \"foo\";", "return \"leveldb.BytewiseComparator\";", 1);
    assert_ne!(source, own_name, "the comparator of the test has another name");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c_test.c");
    std::fs::write(&path, own_name).unwrap();
    let program = Program::compile("cc", &["-g", "-DSILTSTONE_LEVELDB_QUIET"], path.to_str().unwrap(), false);
    let mut command = Command::new(program.path());
    let output = command.env("TEST_TMPDIR", directory.path().join("db")).output().unwrap();
    let phases = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && phases.ends_with("PASS\n"), "{phases}");
}

#[test]
fn a_program_in_cpp_for_leveldb_compiles_and_runs() {
    let source = "tests/programs/leveldb.cpp";
    assert_eq!(Program::compile("c++", &CXX_FLAGS, source, false).run(), "leveldb in C++: ok\n");
    let as_cpp_11 = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fno-exceptions"];
    assert_eq!(Program::compile("c++", &as_cpp_11, source, false).run(), "leveldb in C++: ok\n");
}

#[test]
fn no_file_of_a_database_has_a_standard_descriptor() {
    Program::compile("cc", &C_FLAGS, "tests/programs/descriptors.c", false).run();
}

#[test]
fn a_setting_of_leveldb_without_effect_is_a_warning() {
    let in_c = "#include <leveldb/c.h>\n\
                int main(void) { leveldb_options_set_write_buffer_size(leveldb_options_create(), 1); }\n";
    let in_cpp = "#include <leveldb/db.h>\n\
                  int main() { leveldb::Options options; options.write_buffer_size = 1; }\n";
    let in_cpp_for_a_read = "#include <leveldb/db.h>\n\
                             int main() { leveldb::ReadOptions options; options.fill_cache = false; }\n";
    for (compiler, flags, code) in
        [("cc", C_FLAGS, in_c), ("c++", CXX_FLAGS, in_cpp), ("c++", CXX_FLAGS, in_cpp_for_a_read)]
    {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join(if compiler == "cc" { "program.c" } else { "program.cpp" });
        std::fs::write(&source, code).unwrap();
        let mut compiler = Command::new(compiler);
        let compiler = compiler.args(flags).arg("-fsyntax-only").arg(&source).args(link_flags(false));
        let output = compiler.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && complaint.contains("no effect with Siltstone"), "{complaint}");
        let output = compiler.arg("-DSILTSTONE_LEVELDB_QUIET").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_examples_in_c_and_cpp_run() {
    let c = Program::compile("cc", &C_FLAGS, "examples/colours.c", false);
    assert_eq!(c.run(), "a rose is red\n2 colours\n");
    let cpp = Program::compile("c++", &CXX_FLAGS, "examples/colours.cpp", false);
    assert_eq!(cpp.run(), "a rose is red\n2 colours\n");
}

#[test]
fn the_example_in_go_runs() {
    if !has("go", "version") || !has("pkg-config", "--version") {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let program = cache.path().join("program");
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(crate_root().join("examples/go"));
        go.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig")).env("CGO_ENABLED", "1");
        go.env("GOFLAGS", "-buildvcs=false").env("GOTOOLCHAIN", "local");
        // Go's own cache keeps the flags of pkg-config, also of a library that was installed elsewhere.
        go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
        run(&mut go);
    };
    go(&["build", "-o", program.to_str().unwrap(), "."]);
    go(&["vet", "."]);
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", installed().join("lib"));
    assert_eq!(run(command.arg(cache.path())), "2 colours\n");
}

#[test]
fn address_sanitizer_finds_nothing() {
    let sanitized =
        |flags: &[&'static str]| [flags, &["-fsanitize=address,undefined", "-fno-sanitize-recover"]].concat();
    let (c, cpp) = (sanitized(&C_FLAGS), sanitized(&CXX_FLAGS));
    for (compiler, flags, source) in [
        ("cc", &c, "tests/programs/interface.c"),
        ("cc", &c, "tests/programs/leveldb.c"),
        ("cc", &c, "tests/programs/leveldb_ordered.c"),
        ("c++", &cpp, "tests/programs/leveldb.cpp"),
        ("cc", &c, "examples/colours.c"),
        ("c++", &cpp, "examples/colours.cpp"),
    ] {
        Program::compile(compiler, flags, source, false).run();
    }
}

#[test]
fn valgrind_finds_nothing() {
    if !has("valgrind", "--version") {
        return;
    }
    let wrapper = [
        "valgrind",
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ];
    for (compiler, flags, source) in [
        ("cc", &C_FLAGS, "tests/programs/interface.c"),
        ("cc", &C_FLAGS, "tests/programs/leveldb.c"),
        ("cc", &C_FLAGS, "examples/colours.c"),
        ("c++", &CXX_FLAGS, "examples/colours.cpp"),
    ] {
        Program::compile(compiler, flags, source, false).run_with(&wrapper);
    }
}

#[test]
fn pkg_config_and_cmake_find_the_library() {
    if has("pkg-config", "--version") {
        let ask = |what: &[&str]| {
            let mut command = Command::new("pkg-config");
            command.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
            run(command.args(what).arg("siltstone"))
        };
        let flags = ask(&["--cflags", "--libs"]);
        let expected = format!("-I{}/include", installed().display());
        assert!(flags.contains(&expected) && flags.contains("-lsiltstone"), "{flags}");
        assert_eq!(ask(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    }
    if !has("cmake", "--version") {
        return;
    }
    let project = tempfile::tempdir().unwrap();
    let source = crate_root().join("examples/colours.c");
    let lists = format!(
        "cmake_minimum_required(VERSION 3.10)\nproject(colours C CXX)\nfind_package(siltstone {} REQUIRED)\n\
         foreach(kind siltstone static)\n  add_executable(with_${{kind}} {})\n  \
         target_link_libraries(with_${{kind}} siltstone::${{kind}})\nendforeach()\n\
         add_executable(leveldb {}/leveldb.cpp)\n\
         target_link_libraries(leveldb siltstone::siltstone siltstone::leveldb)\n",
        env!("CARGO_PKG_VERSION"),
        source.display(),
        crate_root().join("tests/programs").display()
    );
    std::fs::write(project.path().join("CMakeLists.txt"), lists).unwrap();
    let mut configure = Command::new("cmake");
    configure.args(["-S", ".", "-B", "build"]).arg(format!("-DCMAKE_PREFIX_PATH={}", installed().display()));
    run(configure.current_dir(project.path()));
    run(Command::new("cmake").args(["--build", "build"]).current_dir(project.path()));
    for kind in ["siltstone", "static"] {
        let program = project.path().join(format!("build/with_{kind}"));
        let database = project.path().join(kind);
        assert_eq!(run(Command::new(program).arg(database)), "a rose is red\n2 colours\n");
    }
    let with_leveldb =
        Command::new(project.path().join("build/leveldb")).arg(project.path()).output().unwrap();
    assert!(with_leveldb.status.success());
}

#[test]
fn a_version_below_1_fits_its_minor_version_alone() {
    if !has("cmake", "--version") {
        return;
    }
    let template =
        std::fs::read_to_string(crate_root().join("install/siltstone-config-version.cmake.in")).unwrap();
    let fits = |is: &str, wanted: &str| {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("version.cmake");
        let end = "message(\"${PACKAGE_VERSION_COMPATIBLE} ${PACKAGE_VERSION_EXACT}\")\n";
        std::fs::write(&script, template.replace("@VERSION@", is) + end).unwrap();
        let mut cmake = Command::new("cmake");
        let output =
            cmake.arg(format!("-DPACKAGE_FIND_VERSION={wanted}")).arg("-P").arg(&script).output().unwrap();
        String::from_utf8_lossy(&output.stderr).trim().to_owned()
    };
    for wanted in ["0.2", "0.2.0", "0.2.2", "0"] {
        assert_eq!(fits("0.2.3", wanted), "TRUE", "{wanted}");
    }
    assert_eq!(fits("0.2.3", "0.2.3"), "TRUE TRUE");
    for wanted in ["0.1", "0.1.9", "0.2.4", "0.3", "0.20", "1", "1.0"] {
        assert_eq!(fits("0.2.3", wanted), "FALSE", "{wanted}");
    }
    assert_eq!(
        ["1", "1.0", "1.4.1", "1.5", "2", "0.4"].map(|wanted| fits("1.4.1", wanted)),
        ["TRUE", "TRUE", "TRUE TRUE", "FALSE", "FALSE", "FALSE"]
    );
}

#[test]
fn the_shared_library_has_the_symbols_of_the_interface_alone() {
    let library = installed().join("lib/libsiltstone.so.0");
    let symbols =
        run(Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(&library));
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    let others: Vec<_> = names.iter().filter(|name| !name.starts_with("siltstone_")).collect();
    assert!(others.is_empty(), "{others:?}");
    let header = std::fs::read_to_string(installed().join("include/siltstone.h")).unwrap();
    assert!(names.len() > 60 && names.iter().all(|name| header.contains(&format!("{name}("))), "{names:?}");
    let dynamic = run(Command::new("objdump").arg("-p").arg(&library));
    assert!(
        dynamic.contains("libsiltstone.so.0"),
        "the library has the version of the interface in its name"
    );
    assert_eq!(siltstone_capi::SILTSTONE_ABI_VERSION, 0, "as in the name of the library");
}
