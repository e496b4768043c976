//! Tests reading texts from the roots.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use callsheet_core::{BadPath, Builtin, ListingEntry, SourceError, SourceId, SourceRoot, Sources as _};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots, read_file};

use callsheet_testing::as_user;

use crate::project::{ALL, DiskProject, id, names, some, text, unreadable, within_ten_seconds};

#[test]
fn text_is_read_exactly() {
    let project = DiskProject::new();
    project.write("a/b.md", "\u{feff}one\r\ntwo\0\n\n");
    assert_eq!(project.text("a/b.md"), some("\u{feff}one\r\ntwo\0\n\n"));
    assert_eq!(project.text("./a//b.md"), some("\u{feff}one\r\ntwo\0\n\n"));
    project.write("empty", "");
    assert_eq!(project.text("empty"), some(""));
}

#[test]
fn missing_file_is_none() {
    let project = DiskProject::new();
    project.write("file", "");
    project.write("real/x", "");
    project.link("real", "link");
    let long = "n".repeat(5000);
    for path in ["no", "no/no", "file/no", "file/no/no", "link/no", "link/x/no", &long] {
        assert_eq!(project.text(path), Ok(None), "{path}");
    }
}

#[test]
fn each_root_has_its_own_files() {
    let project = DiskProject::new();
    for root in ["user", "project", "session"] {
        project.write_beside(&format!("{root}/name"), root);
    }
    let disk = project.disk();
    assert_eq!(text(&disk, SourceRoot::User, "name"), some("user"));
    assert_eq!(text(&disk, SourceRoot::Project, "name"), some("project"));
    assert_eq!(text(&disk, SourceRoot::Session, "name"), some("session"));
    assert_eq!(text(&disk, SourceRoot::Builtin, "name"), Ok(None));
}

#[test]
fn builtin_root_matches_shipped_files() {
    let disk = Disk::new(&Roots::default(), DEFAULT_MAX_FILE_BYTES);
    let all = id(SourceRoot::Builtin, ".");
    let listing = disk.list(&all, ALL).unwrap();
    assert_eq!(listing, Builtin.list(&all, ALL).unwrap());
    for ListingEntry { path, dir } in listing.into_iter().flat_map(|listing| listing.entries) {
        let id = id(SourceRoot::Builtin, &path);
        assert_eq!(disk.text(&id), Builtin.text(&id));
        assert_eq!(disk.text(&id) == Ok(None), dir, "{path}");
    }
}

#[test]
fn omitted_session_is_the_project() {
    let project = DiskProject::new();
    project.write("name", "project");
    let given = project.roots();
    let disk = Disk::new(&Roots { session: None, ..given.clone() }, DEFAULT_MAX_FILE_BYTES);
    assert_eq!(text(&disk, SourceRoot::Session, "name"), some("project"));
    // A session that is given and does not exist does not fall back.
    let missing = Roots { session: Some(project.beside("missing")), ..given };
    let disk = Disk::new(&missing, DEFAULT_MAX_FILE_BYTES);
    assert_eq!(text(&disk, SourceRoot::Session, "name"), Ok(None));
}

#[test]
fn missing_roots_are_empty() {
    let project = DiskProject::new();
    project.write_beside("file", "");
    let roots =
        Roots { user: Some(project.beside("no")), project: None, session: Some(project.beside("file/no")) };
    let disk = Disk::new(&roots, DEFAULT_MAX_FILE_BYTES);
    for root in [SourceRoot::User, SourceRoot::Project, SourceRoot::Session] {
        assert_eq!(text(&disk, root, "name"), Ok(None));
        assert_eq!(disk.list(&id(root, "."), ALL), Ok(None));
    }
}

#[test]
fn file_as_root_is_error() {
    let project = DiskProject::new();
    project.write_beside("file", "");
    let roots = Roots { user: Some(project.beside("file")), ..Roots::default() };
    let disk = Disk::new(&roots, DEFAULT_MAX_FILE_BYTES);
    let why = "its root is not a directory";
    assert_eq!(text(&disk, SourceRoot::User, "name"), unreadable(why));
    assert_eq!(disk.list(&id(SourceRoot::User, "."), ALL), unreadable(why));
    assert_eq!(text(&disk, SourceRoot::Project, "name"), Ok(None));
}

#[test]
fn renamed_root_stays_same_directory() {
    let project = DiskProject::new();
    project.write("name", "before");
    let disk = project.disk();
    fs::rename(project.path(), project.beside("moved")).unwrap();
    project.write("name", "after");
    assert_eq!(text(&disk, SourceRoot::Project, "name"), some("before"));
}

#[test]
fn root_may_be_link() {
    let project = DiskProject::new();
    project.write("name", "text");
    symlink("project", project.beside("alias")).unwrap();
    let roots = Roots { project: Some(project.beside("alias")), ..Roots::default() };
    let disk = Disk::new(&roots, DEFAULT_MAX_FILE_BYTES);
    assert_eq!(text(&disk, SourceRoot::Project, "name"), some("text"));
}

#[test]
fn inner_links_are_followed() {
    let project = DiskProject::new();
    project.write("a/real", "text");
    project.create_dir("project/b/c");
    project.link("a/real", "direct");
    project.link("../../a/real", "b/c/up");
    project.link("../direct", "b/chain");
    project.link("a", "dir");
    for path in ["direct", "b/c/up", "b/chain", "dir/real"] {
        assert_eq!(project.text(path), some("text"), "{path}");
    }
}

#[test]
fn outer_links_are_refused() {
    let project = DiskProject::new();
    project.write("inside", "");
    project.create_dir("project/sub");
    project.link("../outside/secret", "relative");
    project.link(project.beside("outside/secret"), "absolute");
    project.link("relative", "chain");
    project.link("../chain", "sub/longer_chain");
    project.link("../outside", "dir");
    project.link(project.beside("outside"), "absolute_dir");
    project.link("..", "parent");
    // Outside and back in is still outside, and so is an absolute path to the inside.
    project.link("../project/inside", "out_and_in");
    project.link(project.path().join("inside"), "absolute_inside");
    // A link must not reveal either whether something exists outside.
    project.link("../outside/missing", "dangling");
    project.link("/", "root");
    for path in [
        "relative",
        "absolute",
        "chain",
        "sub/longer_chain",
        "dir/secret",
        "dir/missing",
        "absolute_dir/secret",
        "parent/outside/secret",
        "out_and_in",
        "absolute_inside",
        "dangling",
        "root/etc/passwd",
    ] {
        assert_eq!(project.text(path), Err(SourceError::Outside), "{path}");
    }
}

#[test]
fn invalid_paths_have_no_source_id() {
    for (path, why) in [
        ("", BadPath::Empty),
        ("/etc/passwd", BadPath::Absolute),
        ("..", BadPath::Parent),
        ("a/../../b", BadPath::Parent),
        ("a\0b", BadPath::Nul),
    ] {
        assert_eq!(SourceId::new(SourceRoot::Project, path), Err(why), "{path:?}");
    }
}

#[test]
fn irregular_file_is_refused_unopened() {
    let project = DiskProject::new();
    project.create_dir("project/dir");
    project.link("dir", "dir_link");
    project.create_fifo("project/fifo");
    project.link("fifo", "fifo_link");
    let _socket = UnixListener::bind(project.path().join("socket")).unwrap();
    project.link("/dev/zero", "zero");
    let disk = project.disk();
    let answers = within_ten_seconds(move || {
        [".", "dir", "dir_link", "fifo", "fifo_link", "socket", "zero"]
            .map(|path| text(&disk, SourceRoot::Project, path))
    });
    let not = |kind| Err(SourceError::NotAFile(kind));
    assert_eq!(
        answers,
        [
            not("directory"),
            not("directory"),
            not("directory"),
            not("FIFO"),
            not("FIFO"),
            not("socket"),
            Err(SourceError::Outside),
        ]
    );
}

#[test]
fn device_inside_root_is_refused() {
    let roots = Roots { user: Some("/dev".into()), ..Roots::default() };
    let disk = Disk::new(&roots, DEFAULT_MAX_FILE_BYTES);
    let answer = within_ten_seconds(move || text(&disk, SourceRoot::User, "zero"));
    assert_eq!(answer, Err(SourceError::NotAFile("device")));
}

#[test]
fn size_is_limited() {
    let project = DiskProject::new();
    project.write("exact", "12345678");
    project.write("more", "123456789");
    fs::File::create(project.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
    let disk = Disk::new(&project.roots(), 8);
    let too_large = |size| Err(SourceError::TooLarge { size, limit: 8 });
    assert_eq!(text(&disk, SourceRoot::Project, "exact"), some("12345678"));
    assert_eq!(text(&disk, SourceRoot::Project, "more"), too_large(9));
    assert_eq!(text(&disk, SourceRoot::Project, "sparse"), too_large(1 << 40));
}

/// Files below `/proc` claim to be empty and are not.
#[cfg(target_os = "linux")]
#[test]
fn misreported_size_is_limited() {
    let path = "/proc/self/status".as_ref();
    assert_eq!(read_file(path, 8), Err(SourceError::TooLarge { size: 9, limit: 8 }));
}

#[test]
fn first_non_utf8_byte_is_reported() {
    let project = DiskProject::new();
    for (bytes, offset, byte) in [
        (&b"ab\xFFcd"[..], 2, 0xFF),
        (b"\x80", 0, 0x80),
        (b"\xC3\xA4\xC3", 2, 0xC3),
        (b"ok \xED\xA0\x80", 3, 0xED),
    ] {
        project.write("file", bytes);
        assert_eq!(project.text("file"), Err(SourceError::NotUtf8 { offset, byte }));
    }
}

#[test]
fn dangling_link_is_error() {
    let project = DiskProject::new();
    project.write("file", "");
    project.link("missing", "link");
    project.link("link", "chain");
    project.link("missing/x", "deep");
    project.link("file/x", "through_file");
    for path in ["link", "chain", "deep", "through_file", "link/x", "chain/x/y"] {
        let nothing = "it is a symbolic link to nothing";
        assert_eq!(project.text(path), unreadable(nothing), "{path}");
        assert_eq!(project.list(path, ALL), unreadable(nothing), "{path}");
    }
}

#[test]
fn circular_links_are_error() {
    let project = DiskProject::new();
    project.link("b", "a");
    project.link("a", "b");
    for path in ["a", "b/c"] {
        let circle = "its symbolic links form a loop";
        assert_eq!(project.text(path), unreadable(circle), "{path}");
        assert_eq!(project.list(path, ALL), unreadable(circle), "{path}");
    }
}

#[test]
fn unreadable_file_is_error() {
    as_user(|| {
        let project = DiskProject::new();
        project.write("file", "text");
        project.write("dir/file", "text");
        project.write("z", "");
        let forbid = |path: &str, mode| {
            fs::set_permissions(project.beside(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        forbid("project/file", 0);
        forbid("project/dir", 0);
        let denied = "Permission denied (os error 13)";
        assert_eq!(project.text("file"), unreadable(denied));
        assert_eq!(project.text("dir/file"), unreadable(denied));
        assert_eq!(read_file(&project.path().join("file"), 100), unreadable(denied));
        assert_eq!(project.list("dir", ALL), unreadable(denied));
        let whole = project.list(".", ALL).unwrap().unwrap();
        assert_eq!(names(&whole), ["dir/", "file", "z"]);
        assert_eq!((whole.left_out, whole.not_entered), (0, 1));
        forbid("project/dir", 0o700);
    });
}

#[test]
fn explicit_file_may_lie_anywhere() {
    let project = DiskProject::new();
    project.write("file", "text");
    symlink("../project/file", project.beside("outside/link")).unwrap();
    symlink("missing", project.beside("outside/dangling")).unwrap();
    project.create_fifo("outside/fifo");
    project.write_beside("outside/latin1", b"caf\xE9");
    let read = |path: &str| {
        let path = project.beside(path);
        within_ten_seconds(move || read_file(&path, 6))
    };
    assert_eq!(read("project/file"), some("text"));
    assert_eq!(read("outside/link"), some("text"));
    assert_eq!(read("outside/secret"), some("secret"));
    assert_eq!(read("outside/missing"), Ok(None));
    assert_eq!(read("outside/secret/x"), Ok(None));
    assert_eq!(read("outside/dangling"), unreadable("it is a symbolic link to nothing"));
    assert_eq!(read("outside"), Err(SourceError::NotAFile("directory")));
    assert_eq!(read("outside/fifo"), Err(SourceError::NotAFile("FIFO")));
    assert_eq!(read("/dev/zero"), Err(SourceError::NotAFile("device")));
    assert_eq!(read("outside/latin1"), Err(SourceError::NotUtf8 { offset: 3, byte: 0xE9 }));
    assert_eq!(
        read_file(&project.beside("outside/secret"), 5),
        Err(SourceError::TooLarge { size: 6, limit: 5 })
    );
}
