//! Tests that programs are found before they are started.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use callsheet_run::{MissingProgram, find_env_program, find_program};

/// Creates a directory with one file of each kind.
fn create_programs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, mode) in [
        ("bin/good", "#!/bin/sh\n", 0o755),
        ("bin/plain", "#!/bin/sh\n", 0o644),
        ("bin/orphan", "#!/no/such/interpreter -x\n", 0o755),
        ("bin/asked", "#!/usr/bin/env no-such-program -x\n", 0o755),
        ("bin/split", "#!/usr/bin/env -S A=b good -x\n", 0o755),
        ("bin/bare", "echo no first line\n", 0o755),
        ("other/plain", "#!/bin/sh\n", 0o755),
        ("here", "#!/bin/sh\n", 0o755),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(dir.path().join("bin/folder")).unwrap();
    dir
}

#[test]
fn programs_are_found_like_execvp() {
    let dir = create_programs();
    let at = |name: &str| dir.path().join(name);
    let find = |name: &str, path: &str| find_program(name, Some(OsStr::new(path)), dir.path());
    for (name, path, found) in [
        ("good", "bin", "bin/good"),
        ("bare", "bin:other", "bin/bare"),
        ("split", "bin", "bin/split"),
        ("plain", "bin:other", "other/plain"),
        ("bin/good", "", "bin/good"),
        ("./here", "/nowhere", "./here"),
        ("here", ":bin", "here"),
    ] {
        assert_eq!(find(name, path), Ok(at(found)), "{name} in {path}");
    }
    let is = |name: &str, what: &str| Some(format!("`{}` {what}", at(name).display()));
    let cases = [
        ("nothing", "bin:other", None, vec!["bin/nothing", "other/nothing"]),
        ("plain", "bin", is("bin/plain", "is not executable"), vec!["bin/plain"]),
        ("folder", "bin", is("bin/folder", "is not a regular file"), vec!["bin/folder"]),
        ("./bin/folder", "", is("./bin/folder", "is not a regular file"), vec!["./bin/folder"]),
        (
            "orphan",
            "bin",
            is("bin/orphan", "needs `/no/such/interpreter`, which cannot be started"),
            vec!["bin/orphan"],
        ),
        (
            "asked",
            "bin",
            is("bin/asked", "needs `no-such-program`, which cannot be started"),
            vec!["bin/asked"],
        ),
        ("./nothing", "bin", None, vec!["./nothing"]),
        ("", "bin", None, vec![]),
    ];
    for (name, path, why, looked) in cases {
        let looked = looked.into_iter().map(at).collect();
        assert_eq!(find(name, path), Err(MissingProgram { why, looked }), "{name} in {path}");
    }
    for (words, started) in [
        ("env cargo test", Some("cargo")),
        ("/usr/bin/env -i A=b -S cargo", Some("cargo")),
        ("env -u A cargo", None),
        ("env", None),
        ("envy cargo", None),
    ] {
        assert_eq!(find_env_program(words.split(' ')), started, "{words}");
    }
    let looked = find_program("no-such-program", None, dir.path()).unwrap_err().looked;
    assert_eq!(looked, ["/bin/no-such-program", "/usr/bin/no-such-program"].map(PathBuf::from));
}
