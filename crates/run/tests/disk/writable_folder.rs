//! Tests writing below a directory: whole files, together, and nowhere else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use callsheet_core::submission::SessionChanges;
use callsheet_run::WritableFolder;
use tempfile::TempDir;

fn changes(write: &[(&str, &str)], remove: &[&str]) -> SessionChanges {
    SessionChanges {
        write: write.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(),
        remove: remove.iter().map(|path| (*path).to_owned()).collect(),
    }
}

/// Returns every file below `dir`, hidden ones too, with its text.
fn read_files(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else {
                let link = || fs::read_link(&path).ok().map(|to| format!("-> {}", to.display()));
                let text = link().unwrap_or_else(|| fs::read_to_string(&path).unwrap());
                found.push((path.strip_prefix(dir).unwrap().display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

fn files(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn changes_are_applied_together() {
    let dir = TempDir::new().unwrap();
    let folder = WritableFolder::open(dir.path()).unwrap();
    folder.apply(&changes(&[("a/b/one.md", "1"), ("two.md", "2")], &[])).unwrap();
    folder.apply(&changes(&[("a/b/one.md", "new")], &["two.md", "not/there.md", "a/b/gone.md"])).unwrap();
    assert_eq!(read_files(dir.path()), files(&[("a/b/one.md", "new")]));
}

#[test]
fn one_refused_change_applies_none() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("kept.md"), "kept").unwrap();
    let refused = |prepare: &dyn Fn(&Path), changes: &SessionChanges| {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("a.md"), "old").unwrap();
        prepare(dir.path());
        let before = read_files(dir.path());
        let error = WritableFolder::open(dir.path()).unwrap().apply(changes).unwrap_err();
        assert_eq!(read_files(dir.path()), before);
        error.to_string()
    };
    let two = |path| changes(&[("a.md", "new"), (path, "x")], &[]);
    let nothing = |_: &Path| {};
    assert_eq!(
        refused(&|dir| symlink(outside.path(), dir.join("sub")).unwrap(), &two("sub/kept.md")),
        "cannot write `sub`: a part of it is a symbolic link or not a folder"
    );
    let link = |dir: &Path| symlink(outside.path().join("kept.md"), dir.join("link.md")).unwrap();
    assert_eq!(refused(&link, &two("link.md")), "cannot write `link.md`: it is a symbolic link");
    assert_eq!(
        refused(&link, &changes(&[("a.md", "new")], &["link.md"])),
        "cannot write `link.md`: it is a symbolic link"
    );
    assert_eq!(
        refused(&|dir| fs::create_dir(dir.join("z")).unwrap(), &two("z")),
        "cannot write `z`: it is a directory"
    );
    assert_eq!(refused(&nothing, &two("../x.md")), "cannot write `..`: it leads outside its root");
    assert_eq!(refused(&nothing, &two("/etc/x.md")), "cannot write `/etc`: it leads outside its root");
    assert_eq!(
        refused(&nothing, &two("a.md/x.md")),
        "cannot write `a.md`: a part of it is a symbolic link or not a folder"
    );
    assert_eq!(read_files(outside.path()), files(&[("kept.md", "kept")]));
}

#[test]
fn concurrent_updates_lose_nothing() {
    let dir = TempDir::new().unwrap();
    let path = "deep/er/list.txt";
    std::thread::scope(|scope| {
        for nth in 0..16 {
            let folder = WritableFolder::open(dir.path()).unwrap();
            scope.spawn(move || {
                for _ in 0..10 {
                    folder.update(path, 1 << 20, |text| (format!("{text}{nth}\n"), ())).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(dir.path().join(path)).unwrap();
    let mut lines: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    let expected: Vec<u32> = (0..16).flat_map(|nth| [nth; 10]).collect();
    assert_eq!(lines, expected);
    assert_eq!(read_files(dir.path()).len(), 1);
}

#[test]
fn unchanged_update_writes_nothing() {
    let dir = TempDir::new().unwrap();
    let folder = WritableFolder::open(dir.path()).unwrap();
    assert_eq!(folder.update("x.md", 10, |text| (text.to_owned(), text.len())), Ok(0));
    assert_eq!(read_files(dir.path()), files(&[]));
}
