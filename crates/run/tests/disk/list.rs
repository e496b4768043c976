//! Tests listings of directories.

use std::fs;
use std::os::unix::net::UnixListener;

use callsheet_core::{Listing, ListingEntry, ListingLimits, SourceError, SourceRoot, Sources as _};
use callsheet_run::MAX_LEFT_OUT;

use crate::world::{ALL, World, id, names, unreadable, within_ten_seconds};

#[test]
fn directory_precedes_its_entries() {
    let world = World::new();
    world.write_empty(&[
        "project/a-b",
        "project/a/b/c",
        "project/a/b-c",
        "project/a.b",
        "project/B",
        "project/ä",
    ]);
    world.create_dir("project/empty");
    let dir = |path: &str| ListingEntry { path: path.to_owned(), dir: true };
    let file = |path: &str| ListingEntry { path: path.to_owned(), dir: false };
    assert_eq!(
        world.list(".", ALL),
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
    assert_eq!(names(&world.list("a", ALL).unwrap().unwrap()), ["b/", "b/c", "b-c"]);
}

#[test]
fn creation_order_does_not_matter() {
    let paths = ["project/m/1", "project/m/2", "project/k", "project/z/y/x", "project/a"];
    let (one, other) = (World::new(), World::new());
    one.write_empty(&paths);
    paths.iter().rev().for_each(|path| other.write_empty(&[path]));
    assert_eq!(one.tree(), ["a", "k", "m/", "m/1", "m/2", "z/", "z/y/", "z/y/x"]);
    assert_eq!(one.list(".", ALL), other.list(".", ALL));
}

#[test]
fn list_returns_none_for_non_directory() {
    let world = World::new();
    world.write("project/file", "");
    world.link("file", "project/link");
    world.create_fifo("project/fifo");
    let disk = world.disk();
    let answers = within_ten_seconds(move || {
        ["missing", "missing/too", "file", "file/x", "link", "fifo"]
            .map(|path| disk.list(&id(SourceRoot::Project, path), ALL))
    });
    assert_eq!(answers, [Ok(None), Ok(None), Ok(None), Ok(None), Ok(None), Ok(None)]);
}

#[test]
fn empty_directory_has_empty_listing() {
    let world = World::new();
    world.create_dir("project/empty");
    assert_eq!(world.list("empty", ALL), Ok(Some(Listing::default())));
    let none = ListingLimits { depth: 0, entries: 0, ignored: false };
    assert_eq!(world.list("empty", none), Ok(Some(Listing::default())));
}

#[test]
fn deeper_gitignore_files_overrule() {
    let world = World::new();
    world.write("project/.gitignore", "*.log\n/build/\n# comment\n!keep.log\nsub/only_here\ndocs/**/x\n");
    world.write("project/sub/.gitignore", "!wanted.log\nkeep.log\n/local\n");
    world.write("project/sub/deep/.gitignore", "*\n!*.rs\n");
    world.write_empty(&[
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
        world.tree(),
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
    world.link("sub", "project/alias");
    for path in ["sub", "alias"] {
        assert_eq!(names(&world.list(path, ALL).unwrap().unwrap()), below, "{path}");
    }
}

#[test]
fn rules_skip_directory_with_longer_name() {
    let world = World::new();
    world.write("project/a/.gitignore", "/b\n");
    world.write_empty(&["project/a/b", "project/ab/b", "project/a/a/b"]);
    assert_eq!(world.tree(), ["a/", "a/a/", "a/a/b", "ab/", "ab/b"]);
}

#[test]
fn odd_rules_are_parsed_like_git() {
    let world = World::new();
    world.write("project/.gitignore", b"\xEF\xBB\xBFone\r\ncaf\xE9\n[\ntwo   \n\\#three\nfour/\n");
    world.write_empty(&["project/one", "project/two", "project/#three", "project/four", "project/five"]);
    world.link("five", "project/link");
    assert_eq!(world.tree(), ["five", "four", "link"]);
}

#[test]
fn ignored_directory_can_be_listed_explicitly() {
    let world = World::new();
    world.write("project/.gitignore", "target/\n*.o\n");
    world.write_empty(&["project/target/a", "project/target/a.o", "project/.hidden/b"]);
    assert_eq!(world.tree(), [""; 0]);
    assert_eq!(names(&world.list("target", ALL).unwrap().unwrap()), ["a"]);
    assert_eq!(names(&world.list(".hidden", ALL).unwrap().unwrap()), ["b"]);
}

#[test]
fn only_project_rules_count() {
    let world = World::new();
    world.write(".gitignore", "*\n");
    world.write("project/.git/info/exclude", "*\n");
    world.write("project/.ignore", "*\n");
    world.write("project/.rgignore", "*\n");
    world.write_empty(&["project/a", "project/b/c"]);
    assert_eq!(world.tree(), ["a", "b/", "b/c"]);
}

#[test]
fn unusable_rules_are_error() {
    let unusable = |why: &str| {
        unreadable::<Option<Listing>>(&format!("its rules in `sub/.gitignore` cannot be used: {why}"))
    };
    let with_rules = |make: &dyn Fn(&World)| {
        let world = World::new();
        world.write("project/sub/file", "");
        make(&world);
        let disk = world.disk();
        within_ten_seconds(move || disk.list(&id(SourceRoot::Project, "."), ALL))
    };
    assert_eq!(
        with_rules(&|world| world.link("../../outside/secret", "project/sub/.gitignore")),
        unusable("it leads out of its root")
    );
    assert_eq!(
        with_rules(&|world| world.create_fifo("project/sub/.gitignore")),
        unusable("it is a FIFO, not a regular file")
    );
    assert_eq!(
        with_rules(&|world| world.link("missing", "project/sub/.gitignore")),
        unusable("it is a symbolic link to nothing")
    );
}

#[test]
fn rules_file_may_be_link() {
    let world = World::new();
    world.write("project/rules", "*.log\n");
    world.write_empty(&["project/sub/a.log", "project/sub/b", "project/c.log"]);
    world.link("../rules", "project/sub/.gitignore");
    assert_eq!(world.tree(), ["c.log", "rules", "sub/", "sub/b"]);
}

#[test]
fn ignored_names_are_listed_on_request() {
    let world = World::new();
    for root in ["project", "user", "session"] {
        world.write(&format!("{root}/.gitignore"), "*.log\n");
        for path in [".git/HEAD", ".hidden/x", "a/.b", "a/c", "d.log"] {
            world.write(&format!("{root}/{path}"), "");
        }
    }
    let disk = world.disk();
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
    let world = World::new();
    world.write("project/.gitignore", "ignored\n");
    world.write_empty(&[
        "project/a/b/c/d",
        "project/a/e",
        "project/f/g",
        "project/h/ignored",
        "project/i/.j",
    ]);
    world.create_dir("project/empty");
    let at = |depth| {
        let listing =
            world.list(".", ListingLimits { depth, entries: 100, ignored: false }).unwrap().unwrap();
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
    let world = World::new();
    world.create_dir(&format!("project{}", "/d".repeat(300)));
    let no_limits = ListingLimits { depth: usize::MAX, entries: usize::MAX, ignored: false };
    let listing = world.list(".", no_limits).unwrap().unwrap();
    let expected: Vec<_> = (1..=256).map(|depth| "d/".repeat(depth)).collect();
    assert_eq!(names(&listing), expected);
    assert_eq!((listing.left_out, listing.not_entered), (0, 1));
}

#[test]
fn entries_over_limit_are_counted() {
    let world = World::new();
    world.write_empty(&["project/a/b", "project/a/c", "project/d", "project/e/f/g"]);
    let with = |depth, entries| {
        let listing = world.list(".", ListingLimits { depth, entries, ignored: false }).unwrap().unwrap();
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
    let world = World::new();
    world.write("project/many/0", "");
    for number in 1..MAX_LEFT_OUT + 50 {
        // Much less work for the file system than a new file.
        let name = world.at(&format!("project/many/{number}"));
        fs::hard_link(world.at("project/many/0"), name).unwrap();
    }
    let listing = world.list(".", ListingLimits { depth: 2, entries: 2, ignored: false }).unwrap().unwrap();
    assert_eq!(names(&listing), ["many/", "many/0"]);
    assert_eq!((listing.left_out, listing.not_entered), (MAX_LEFT_OUT, 0));
}

#[cfg(target_os = "linux")]
#[test]
fn non_utf8_names_are_counted() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    world.write("project/.gitignore", "*.log\n");
    world.write("project/a", "");
    for name in [&b"\xFF"[..], b"\xFE.log", b".\xFD", b"dir\xFC"] {
        fs::create_dir(world.at("project").join(OsStr::from_bytes(name))).unwrap();
    }
    let listing = world.list(".", ALL).unwrap().unwrap();
    assert_eq!(names(&listing), ["a"]);
    assert_eq!((listing.left_out, listing.not_entered), (2, 0));
}

#[test]
fn links_are_listed_and_not_followed() {
    let world = World::new();
    world.write("project/real/file", "");
    world.link("real", "project/link");
    world.link("../outside", "project/out");
    world.link(".", "project/self");
    world.link("missing", "project/nothing");
    let listing = world.list(".", ALL).unwrap().unwrap();
    assert_eq!(names(&listing), ["link", "nothing", "out", "real/", "real/file", "self"]);
    // A link that is named explicitly is followed, as long as it stays inside.
    assert_eq!(names(&world.list("link", ALL).unwrap().unwrap()), ["file"]);
}

#[test]
fn directories_outside_are_not_listed() {
    let world = World::new();
    world.create_dir("outside/dir");
    world.link("../outside", "project/relative");
    world.link(world.at("outside"), "project/absolute");
    world.link("relative", "project/chain");
    world.link("..", "project/parent");
    world.link("../missing", "project/missing");
    for path in ["relative", "absolute", "chain", "relative/dir", "parent", "parent/project", "missing"] {
        assert_eq!(world.list(path, ALL), Err(SourceError::Outside), "{path}");
    }
}

#[test]
fn special_files_are_listed_unopened() {
    let world = World::new();
    world.create_fifo("project/fifo");
    let _socket = UnixListener::bind(world.at("project/socket")).unwrap();
    let disk = world.disk();
    let listing = within_ten_seconds(move || disk.list(&id(SourceRoot::Project, "."), ALL)).unwrap().unwrap();
    assert_eq!(names(&listing), ["fifo", "socket"]);
}
