//! Because of this test, the module is built with all others, with the same features. `make test` runs pytest on it.
#![cfg(target_os = "linux")]

#[test]
fn the_module_has_the_function_that_python_calls_when_it_is_imported() {
    let module = std::env::current_exe().unwrap().with_file_name("lib_siltstone.so");
    let bytes = std::fs::read(&module).unwrap();
    let name = b"\0PyInit__siltstone\0";
    assert!(bytes.windows(name.len()).any(|window| window == name), "{}", module.display());
}
