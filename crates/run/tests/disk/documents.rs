//! Tests that documents are read as digests, through no link.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use callsheet_run::DocumentReader;

#[test]
fn changed_documents_are_seen_without_links() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("specs")).unwrap();
    fs::write(at("specs/a.md"), "one").unwrap();
    fs::write(at("notes.txt"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", at("link.md")).unwrap();
    let mut reader = DocumentReader::default();
    let mut read = |root: &Path| reader.read(root, &|path| path.ends_with(".md"));
    let of_one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    let expected = [("link.md", "link: /etc/hostname"), ("specs/a.md", of_one)];
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(path, what)| ((*path).to_owned(), (*what).to_owned())).collect();
    assert_eq!(read(dir.path()), expected);
    // The same size, immediately, and with the old modification time.
    let time = at("specs/a.md").metadata().unwrap().modified().unwrap();
    fs::write(at("specs/a.md"), "two").unwrap();
    fs::File::options().write(true).open(at("specs/a.md")).unwrap().set_modified(time).unwrap();
    assert_ne!(read(dir.path())["specs/a.md"], of_one);
    // A folder that becomes a link has no documents.
    fs::rename(at("specs"), at("elsewhere.txt")).unwrap();
    std::os::unix::fs::symlink("elsewhere.txt", at("specs")).unwrap();
    assert_eq!(read(dir.path()).keys().collect::<Vec<_>>(), ["elsewhere.txt/a.md", "link.md"]);
    assert_eq!(read(&at("specs")), BTreeMap::new());
}
