//! Tests that files with several names are found.

use std::fs;
use std::os::unix::fs::symlink;

use callsheet_core::library::plan::SharedName;
use callsheet_run::find_shared_names;

#[test]
fn linked_files_have_shared_names() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| dir.path().join(name);
    for folder in ["src/deep", ".git"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    for file in ["src/a.rs", "src/b.rs", "alone", ".git/x"] {
        fs::write(at(file), "").unwrap();
    }
    fs::write(outside.path().join("o"), "").unwrap();
    fs::hard_link(at("src/a.rs"), at("hard")).unwrap();
    fs::hard_link(at(".git/x"), at("of-git")).unwrap();
    symlink("src/a.rs", at("soft")).unwrap();
    symlink("src/b.rs", at("b")).unwrap();
    symlink("b", at("b-again")).unwrap();
    symlink("src", at("docs")).unwrap();
    symlink("gone", at("nothing")).unwrap();
    symlink(outside.path().join("o"), at("o1")).unwrap();
    symlink(outside.path().join("o"), at("o2")).unwrap();
    let mut found = find_shared_names(dir.path());
    found.sort();
    let shared = |paths: &[&str], is_folder| SharedName {
        paths: paths.iter().map(ToString::to_string).collect(),
        is_folder,
    };
    assert_eq!(
        found,
        [
            shared(&["b", "b-again", "src/b.rs"], false),
            shared(&["docs", "src"], true),
            shared(&["hard", "soft", "src/a.rs"], false),
            shared(&["o1", "o2"], false),
        ]
    );
}
