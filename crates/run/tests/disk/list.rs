//! Tests listings of directories.

use std::fs;
use std::os::unix::net::UnixListener;

use callsheet_core::{Listing, ListingEntry, ListingLimits, SourceError, SourceRoot, Sources as _};
use callsheet_run::MAX_LEFT_OUT;

use crate::project::{ALL, DiskProject, id, names, unreadable, within_ten_seconds};

#[test]
fn directory_precedes_its_entries() {
    let project = DiskProject::new();
    project.write_empty(&[
        "project/a-b",
        "project/a/b/c",
        "project/a/b-c",
        "project/a.b",
        "project/B",
        "project/ä",
    ]);
    project.create_dir("project/empty");
    let dir = |path: &str| ListingEntry { path: path.to_owned(), dir: true };
    let file = |path: &str| ListingEntry { path: path.to_owned(), dir: false };
    assert_eq!(
        project.list(".", ALL),
        Ok(Some(Listing {
            entries: vec![
                file("B"),
                dir("a"),
                dir("a/b"),
                file("a/b/c"),
                file("a/b-c"),
                file("a-b"),
                file("a.b"),
                dir("empty"),
                file("ä"),
            ],
            left_out: 0,
            not_entered: 0,
        }))
    );
    assert_eq!(names(&project.list("a", ALL).unwrap().unwrap()), ["b/", "b/c", "b-c"]);
}

#[test]
fn creation_order_does_not_matter() {
    let paths = ["project/m/1", "project/m/2", "project/k", "project/z/y/x", "project/a"];
    let (one, other) = (DiskProject::new(), DiskProject::new());
    one.write_empty(&paths);
    paths.iter().rev().for_each(|path| other.write_empty(&[path]));
    assert_eq!(one.tree(), ["a", "k", "m/", "m/1", "m/2", "z/", "z/y/", "z/y/x"]);
    assert_eq!(one.list(".", ALL), other.list(".", ALL));
}

#[test]
fn list_returns_none_for_non_directory() {
    let project = DiskProject::new();
    project.write("file", "");
    project.link("file", "link");
    project.create_fifo("project/fifo");
    let disk = project.disk();
    let answers = within_ten_seconds(move || {
        ["missing", "missing/too", "file", "file/x", "link", "fifo"]
            .map(|path| disk.list(&id(SourceRoot::Project, path), ALL))
    });
    assert_eq!(answers, [Ok(None), Ok(None), Ok(None), Ok(None), Ok(None), Ok(None)]);
}

#[test]
fn empty_directory_has_empty_listing() {
    let project = DiskProject::new();
    project.create_dir("project/empty");
    assert_eq!(project.list("empty", ALL), Ok(Some(Listing::default())));
    let none = ListingLimits { depth: 0, entries: 0, ignored: false };
    assert_eq!(project.list("empty", none), Ok(Some(Listing::default())));
}

#[test]
fn deeper_gitignore_files_overrule() {
    let project = DiskProject::new();
    project.write(".gitignore", "*.log\n/build/\n# comment\n!keep.log\nsub/only_here\ndocs/**/x\n");
    project.write("sub/.gitignore", "!wanted.log\nkeep.log\n/local\n");
    project.write("sub/deep/.gitignore", "*\n!*.rs\n");
    project.write_empty(&[
        "project/a.log",
        "project/keep.log",
        "project/build/out",
        "project/other/build/in",
        "project/only_here",
        "project/docs/x",
        "project/docs/y/x",
        "project/docs/y/z",
        "project/sub/a.log",
        "project/sub/wanted.log",
        "project/sub/keep.log",
        "project/sub/local",
        "project/sub/only_here",
        "project/sub/more/local",
        "project/sub/deep/a.rs",
        "project/sub/deep/a.txt",
    ]);
    assert_eq!(
        project.tree(),
        [
            "docs/",
            "docs/y/",
            "docs/y/z",
            "keep.log",
            "only_here",
            "other/",
            "other/build/",
            "other/build/in",
            "sub/",
            "sub/deep/",
            "sub/deep/a.rs",
            "sub/more/",
            "sub/more/local",
            "sub/wanted.log",
        ]
    );
    // The rules above the listed directory apply as well, by whichever name it is reached.
    let below = ["deep/", "deep/a.rs", "more/", "more/local", "wanted.log"];
    project.link("sub", "alias");
    for path in ["sub", "alias"] {
        assert_eq!(names(&project.list(path, ALL).unwrap().unwrap()), below, "{path}");
    }
}

#[test]
fn rules_skip_directory_with_longer_name() {
    let project = DiskProject::new();
    project.write("a/.gitignore", "/b\n");
    project.write_empty(&["project/a/b", "project/ab/b", "project/a/a/b"]);
    assert_eq!(project.tree(), ["a/", "a/a/", "a/a/b", "ab/", "ab/b"]);
}

#[test]
fn odd_rules_are_parsed_like_git() {
    let project = DiskProject::new();
    project.write(".gitignore", b"\xEF\xBB\xBFone\r\ncaf\xE9\n[\ntwo   \n\\#three\nfour/\n");
    project.write_empty(&["project/one", "project/two", "project/#three", "project/four", "project/five"]);
    project.link("five", "link");
    assert_eq!(project.tree(), ["five", "four", "link"]);
}

#[test]
fn ignored_directory_can_be_listed_explicitly() {
    let project = DiskProject::new();
    project.write(".gitignore", "target/\n*.o\n");
    project.write_empty(&["project/target/a", "project/target/a.o", "project/.hidden/b"]);
    assert_eq!(project.tree(), [""; 0]);
    assert_eq!(names(&project.list("target", ALL).unwrap().unwrap()), ["a"]);
    assert_eq!(names(&project.list(".hidden", ALL).unwrap().unwrap()), ["b"]);
}

#[test]
fn only_project_rules_count() {
    let project = DiskProject::new();
    project.write_beside(".gitignore", "*\n");
    project.write(".git/info/exclude", "*\n");
    project.write(".ignore", "*\n");
    project.write(".rgignore", "*\n");
    project.write_empty(&["project/a", "project/b/c"]);
    assert_eq!(project.tree(), ["a", "b/", "b/c"]);
}

#[test]
fn unusable_rules_are_error() {
    let unusable = |why: &str| {
        unreadable::<Option<Listing>>(&format!("cannot read the ignore rules in `sub/.gitignore`: {why}"))
    };
    let with_rules = |make: &dyn Fn(&DiskProject)| {
        let project = DiskProject::new();
        project.write("sub/file", "");
        make(&project);
        let disk = project.disk();
        within_ten_seconds(move || disk.list(&id(SourceRoot::Project, "."), ALL))
    };
    assert_eq!(
        with_rules(&|project| project.link("../../outside/secret", "sub/.gitignore")),
        unusable("it leads outside its root")
    );
    assert_eq!(
        with_rules(&|project| project.create_fifo("project/sub/.gitignore")),
        unusable("it is a FIFO, not a regular file")
    );
    assert_eq!(
        with_rules(&|project| project.link("missing", "sub/.gitignore")),
        unusable("it is a symbolic link to nothing")
    );
}

#[test]
fn rules_file_may_be_link() {
    let project = DiskProject::new();
    project.write("rules", "*.log\n");
    project.write_empty(&["project/sub/a.log", "project/sub/b", "project/c.log"]);
    project.link("../rules", "sub/.gitignore");
    assert_eq!(project.tree(), ["c.log", "rules", "sub/", "sub/b"]);
}

#[test]
fn ignored_names_are_listed_on_request() {
    let project = DiskProject::new();
    for root in ["project", "user", "session"] {
        project.write_beside(&format!("{root}/.gitignore"), "*.log\n");
        for path in [".git/HEAD", ".hidden/x", "a/.b", "a/c", "d.log"] {
            project.write_beside(&format!("{root}/{path}"), "");
        }
    }
    let disk = project.disk();
    for root in [SourceRoot::Project, SourceRoot::User, SourceRoot::Session] {
        let shown = disk.list(&id(root, "."), ALL).unwrap().unwrap();
        assert_eq!(names(&shown), ["a/", "a/c"]);
        assert_eq!((shown.left_out, shown.not_entered), (0, 0));
        let all = disk.list(&id(root, "."), ListingLimits { ignored: true, ..ALL }).unwrap().unwrap();
        let expected = [".git/", ".gitignore", ".hidden/", ".hidden/x", "a/", "a/.b", "a/c", "d.log"];
        assert_eq!(names(&all), expected);
        // `.git` is listed and not entered.
        assert_eq!((all.left_out, all.not_entered), (0, 1));
    }
}

#[test]
fn depth_is_limited() {
    let project = DiskProject::new();
    project.write(".gitignore", "ignored\n");
    project.write_empty(&[
        "project/a/b/c/d",
        "project/a/e",
        "project/f/g",
        "project/h/ignored",
        "project/i/.j",
    ]);
    project.create_dir("project/empty");
    let at = |depth| {
        let listing =
            project.list(".", ListingLimits { depth, entries: 100, ignored: false }).unwrap().unwrap();
        (names(&listing).join(" "), listing.left_out, listing.not_entered)
    };
    // `empty`, `h` and `i` contain nothing that would be listed.
    assert_eq!(at(0), (String::new(), 0, 1));
    assert_eq!(at(1), ("a/ empty/ f/ h/ i/".to_owned(), 0, 2));
    assert_eq!(at(2), ("a/ a/b/ a/e empty/ f/ f/g h/ i/".to_owned(), 0, 1));
    assert_eq!(at(3), ("a/ a/b/ a/b/c/ a/e empty/ f/ f/g h/ i/".to_owned(), 0, 1));
    assert_eq!(at(4), ("a/ a/b/ a/b/c/ a/b/c/d a/e empty/ f/ f/g h/ i/".to_owned(), 0, 0));
}

#[test]
fn depth_has_absolute_limit() {
    let project = DiskProject::new();
    project.create_dir(&format!("project{}", "/d".repeat(300)));
    let no_limits = ListingLimits { depth: usize::MAX, entries: usize::MAX, ignored: false };
    let listing = project.list(".", no_limits).unwrap().unwrap();
    let expected: Vec<_> = (1..=256).map(|depth| "d/".repeat(depth)).collect();
    assert_eq!(names(&listing), expected);
    assert_eq!((listing.left_out, listing.not_entered), (0, 1));
}

#[test]
fn entries_over_limit_are_counted() {
    let project = DiskProject::new();
    project.write_empty(&["project/a/b", "project/a/c", "project/d", "project/e/f/g"]);
    let with = |depth, entries| {
        let listing = project.list(".", ListingLimits { depth, entries, ignored: false }).unwrap().unwrap();
        (names(&listing).join(" "), listing.left_out, listing.not_entered)
    };
    assert_eq!(with(9, 7), ("a/ a/b a/c d e/ e/f/ e/f/g".to_owned(), 0, 0));
    assert_eq!(with(9, 6), ("a/ a/b a/c d e/ e/f/".to_owned(), 1, 0));
    assert_eq!(with(9, 2), ("a/ a/b".to_owned(), 5, 0));
    assert_eq!(with(9, 0), (String::new(), 7, 0));
    assert_eq!(with(2, 2), ("a/ a/b".to_owned(), 4, 1));
}

#[test]
fn left_out_count_is_limited() {
    let project = DiskProject::new();
    project.write("many/0", "");
    for number in 1..MAX_LEFT_OUT + 50 {
        // Much less work for the file system than a new file.
        let name = project.beside(&format!("project/many/{number}"));
        fs::hard_link(project.path().join("many/0"), name).unwrap();
    }
    let listing = project.list(".", ListingLimits { depth: 2, entries: 2, ignored: false }).unwrap().unwrap();
    assert_eq!(names(&listing), ["many/", "many/0"]);
    assert_eq!((listing.left_out, listing.not_entered), (MAX_LEFT_OUT, 0));
}

#[cfg(target_os = "linux")]
#[test]
fn non_utf8_names_are_counted() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let project = DiskProject::new();
    project.write(".gitignore", "*.log\n");
    project.write("a", "");
    for name in [&b"\xFF"[..], b"\xFE.log", b".\xFD", b"dir\xFC"] {
        fs::create_dir(project.path().join(OsStr::from_bytes(name))).unwrap();
    }
    let listing = project.list(".", ALL).unwrap().unwrap();
    assert_eq!(names(&listing), ["a"]);
    assert_eq!((listing.left_out, listing.not_entered), (2, 0));
}

#[test]
fn links_are_listed_and_not_followed() {
    let project = DiskProject::new();
    project.write("real/file", "");
    project.link("real", "link");
    project.link("../outside", "out");
    project.link(".", "self");
    project.link("missing", "nothing");
    let listing = project.list(".", ALL).unwrap().unwrap();
    assert_eq!(names(&listing), ["link", "nothing", "out", "real/", "real/file", "self"]);
    // A link that is named explicitly is followed, as long as it stays inside.
    assert_eq!(names(&project.list("link", ALL).unwrap().unwrap()), ["file"]);
}

#[test]
fn directories_outside_are_not_listed() {
    let project = DiskProject::new();
    project.create_dir("outside/dir");
    project.link("../outside", "relative");
    project.link(project.beside("outside"), "absolute");
    project.link("relative", "chain");
    project.link("..", "parent");
    project.link("../missing", "missing");
    for path in ["relative", "absolute", "chain", "relative/dir", "parent", "parent/project", "missing"] {
        assert_eq!(project.list(path, ALL), Err(SourceError::Outside), "{path}");
    }
}

#[test]
fn special_files_are_listed_unopened() {
    let project = DiskProject::new();
    project.create_fifo("project/fifo");
    let _socket = UnixListener::bind(project.path().join("socket")).unwrap();
    let disk = project.disk();
    let listing = within_ten_seconds(move || disk.list(&id(SourceRoot::Project, "."), ALL)).unwrap().unwrap();
    assert_eq!(names(&listing), ["fifo", "socket"]);
}
