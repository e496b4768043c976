//! Tests packs: every file below a directory, read at once.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use callsheet_core::{
    Listing, ListingEntry, ListingLimits, NoTextReason, SharedText, SourceError, SourceRecorder, SourceRoot,
    Sources as _, TextlessDocument,
};
use callsheet_run::{
    Disk, FileBody, PackLimits, PackOptions, PackProgress, PackedFile, PackedTree, PrefetchedSources,
    WantedContent,
};

use callsheet_testing::{as_user, not_tested};

use crate::project::{DiskProject, id, names, pack, unreadable, within_ten_seconds};

fn text(path: &str, text: &str) -> PackedFile {
    PackedFile { path: path.into(), body: FileBody::Text(SharedText::from(text)) }
}

fn left_out(path: &str, why: NoTextReason, bytes: u64) -> PackedFile {
    PackedFile { path: path.into(), body: FileBody::LeftOut(TextlessDocument { why, bytes }) }
}

fn unread(path: &str) -> PackedFile {
    PackedFile { path: path.into(), body: FileBody::Unread }
}

/// Returns the files alone.
fn files(packed: Result<Option<PackedTree>, SourceError>) -> Result<Option<Vec<PackedFile>>, SourceError> {
    packed.map(|packed| packed.map(|packed| packed.files))
}

fn paths(packed: &PackedTree) -> Vec<&str> {
    packed.files.iter().map(|file| file.path.as_str()).collect()
}

#[test]
fn files_are_in_path_byte_order() {
    let project = DiskProject::new();
    for path in ["a/b/c", "a/b-c", "a-b", "a.b", "a0", "B", "ä", "z/1", "z/10", "z/2"] {
        project.write(path, path);
    }
    project.create_dir("project/empty");
    let all = ["B", "a-b", "a.b", "a/b-c", "a/b/c", "a0", "z/1", "z/10", "z/2", "ä"];
    let all = all.map(|path| text(path, path)).to_vec();
    assert_eq!(files(project.pack(".")), Ok(Some(all)));
    // Paths are relative to the packed directory.
    let below = vec![text("b-c", "a/b-c"), text("b/c", "a/b/c")];
    assert_eq!(files(project.pack("a")), Ok(Some(below)));
    assert_eq!(project.pack("empty"), Ok(Some(PackedTree::default())));
    assert_eq!(project.pack("missing"), Ok(None));
    assert_eq!(project.pack("a-b"), Ok(None));
}

#[test]
fn pack_has_files_of_listing() {
    let project = DiskProject::new();
    project.write(".gitignore", "*.log\n/build/\n!keep.log\nsub/only_here\n");
    project.write("sub/.gitignore", "!wanted.log\nkeep.log\n/local\n");
    project.write("sub/deep/.gitignore", "*\n!*.rs\n");
    for path in ["a.log", "keep.log", "build/out", "other/build/in", ".hidden", ".config/x", "only_here"] {
        project.write(path, path);
    }
    for path in ["a.log", "wanted.log", "keep.log", "local", "more/local", "deep/a.rs", "deep/a.txt"] {
        project.write(&format!("sub/{path}"), path);
    }
    let shown =
        ["keep.log", "only_here", "other/build/in", "sub/deep/a.rs", "sub/more/local", "sub/wanted.log"];
    let whole = project.pack(".").unwrap().unwrap();
    assert_eq!(paths(&whole), shown);
    let mut listed: Vec<String> = project.tree().into_iter().filter(|name| !name.ends_with('/')).collect();
    listed.sort();
    assert_eq!(paths(&whole), listed);
    // The rules above the packed directory apply as well; an ignored directory is packed if it is named.
    assert_eq!(paths(&project.pack("sub").unwrap().unwrap()), ["deep/a.rs", "more/local", "wanted.log"]);
    assert_eq!(paths(&project.pack("build").unwrap().unwrap()), ["out"]);
    assert_eq!(paths(&project.pack(".config").unwrap().unwrap()), ["x"]);
    project.write("sub/.gitignore", vec![b'#'; 2 * 1024 * 1024]);
    assert_eq!(
        project.pack("."),
        unreadable(
            "cannot read the ignore rules in `sub/.gitignore`: it has 2097152 bytes; the limit is 1048576"
        )
    );
}

#[test]
fn textless_files_have_a_reason() {
    let project = DiskProject::new();
    let head = "x".repeat(8 * 1024);
    project.write("a-nul", "text\0");
    project.write("b-late-nul", format!("{head}\0"));
    project.write("c-nul-at-the-end-of-the-head", format!("{}\0rest", &head[1..]));
    project.write("d-latin", b"caf\xe9");
    project.write("e-late-latin", [head.as_bytes(), b"\xe9"].concat());
    project.write("f-at-the-limit", "y".repeat(10_000));
    project.write("g-too-large", "y".repeat(10_001));
    project.write("h-empty", "");
    project.write("i-mark", "\u{feff}text\r\n");
    let disk = Disk::new(&project.roots(), 10_000);
    let late_nul = format!("{head}\0");
    let large = "y".repeat(10_000);
    let expected = vec![
        left_out("a-nul", NoTextReason::Binary, 5),
        text("b-late-nul", &late_nul),
        left_out("c-nul-at-the-end-of-the-head", NoTextReason::Binary, 8196),
        left_out("d-latin", NoTextReason::Binary, 4),
        left_out("e-late-latin", NoTextReason::Binary, 8193),
        text("f-at-the-limit", &large),
        left_out("g-too-large", NoTextReason::TooLarge, 10_001),
        text("h-empty", ""),
        text("i-mark", "\u{feff}text\r\n"),
    ];
    assert_eq!(files(pack(&disk, ".", None)), Ok(Some(expected)));
}

#[test]
fn irregular_files_are_not_opened() {
    let project = DiskProject::new();
    project.write("file", "text");
    project.write("dir/inner", "text");
    project.link("file", "link");
    project.link("dir", "link-to-dir");
    project.link("../outside/secret", "link-to-secret");
    project.link("nowhere", "link-to-nothing");
    project.create_fifo("project/pipe");
    let _socket = UnixListener::bind(project.path().join("socket")).unwrap();
    let disk = project.disk();
    let expected = vec![
        text("dir/inner", "text"),
        text("file", "text"),
        left_out("link", NoTextReason::Link, 0),
        left_out("link-to-dir", NoTextReason::Link, 0),
        left_out("link-to-nothing", NoTextReason::Link, 0),
        left_out("link-to-secret", NoTextReason::Link, 0),
        left_out("pipe", NoTextReason::Unreadable, 0),
        left_out("socket", NoTextReason::Unreadable, 0),
    ];
    assert_eq!(files(within_ten_seconds(move || pack(&disk, ".", None))), Ok(Some(expected)));
}

/// A directory that is named explicitly may be a link, as long as it stays inside.
#[test]
fn packed_directory_may_be_link() {
    let project = DiskProject::new();
    project.write("dir/inner", "text");
    project.link("dir", "alias");
    project.link("../outside", "out");
    assert_eq!(files(project.pack("alias")), Ok(Some(vec![text("inner", "text")])));
    assert_eq!(project.pack("out"), Err(SourceError::Outside));
}

#[test]
fn unreadable_file_is_reported() {
    as_user(|| {
        let project = DiskProject::new();
        project.write("closed/file", "text");
        project.write("open/secret", "text");
        fs::set_permissions(project.path().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(project.path().join("open/secret"), fs::Permissions::from_mode(0o000)).unwrap();
        let whole = project.pack(".").unwrap().unwrap();
        assert_eq!(whole.files, [left_out("open/secret", NoTextReason::Unreadable, 0)]);
        assert_eq!((whole.listing.left_out, whole.listing.not_entered), (0, 1));
        fs::set_permissions(project.path().join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn non_utf8_names_are_counted() {
    let project = DiskProject::new();
    project.write("file", "text");
    let name = |bytes: &[u8]| project.path().join(OsStr::from_bytes(bytes));
    if fs::write(name(b"caf\xe9"), "text").is_err() {
        return not_tested("this file system takes no names that are not UTF-8");
    }
    fs::create_dir(name(b"\xff")).unwrap();
    fs::write(name(b"\xff/inner"), "text").unwrap();
    let whole = project.pack(".").unwrap().unwrap();
    assert_eq!(whole.files, [text("file", "text")]);
    assert_eq!((whole.listing.left_out, whole.listing.not_entered), (2, 0));
}

#[test]
fn thread_count_does_not_change_result() {
    let project = DiskProject::new();
    project.write(".gitignore", "*.skip\n");
    for dir in 0..40 {
        for file in 0..(dir * 7 % 90) {
            let path = format!("project/d{}/e{dir}/f{file}", dir % 6);
            let bytes = format!("{dir} {file}\n").repeat(file * 13);
            project.write_beside(&path, if file % 17 == 3 { bytes + "\0" } else { bytes });
            project.write_beside(&format!("{path}.skip"), "");
        }
    }
    let disk = project.disk();
    let one = pack(&disk, ".", Some(1)).unwrap().unwrap();
    let every = project.list(".", ListingLimits { depth: 9, entries: 99_999, ignored: false });
    let mut listed: Vec<String> =
        names(&every.unwrap().unwrap()).into_iter().filter(|name| !name.ends_with('/')).collect();
    listed.sort();
    assert_eq!(paths(&one), listed);
    for threads in [0, 2, 3, 8, 33] {
        assert_eq!(pack(&disk, ".", Some(threads)).unwrap().unwrap(), one, "{threads} threads");
    }
}

#[test]
fn only_wanted_files_are_read() {
    let project = DiskProject::new();
    for path in ["a.rs", "b.md", "c.bin", "d/e.rs"] {
        project.write(path, "text");
    }
    project.link("a.rs", "l.md");
    let progress = PackProgress::default();
    let want = |path: &str| match path.rsplit('.').next() {
        Some("rs") => WantedContent::Text,
        Some("md") => WantedContent::Path,
        _ => WantedContent::Nothing,
    };
    let packing =
        PackOptions { want: &want, limits: PackLimits::default(), threads: None, progress: &progress };
    let found = project.disk().pack(&id(SourceRoot::Project, "."), &packing);
    let expected = vec![text("a.rs", "text"), unread("b.md"), text("d/e.rs", "text"), unread("l.md")];
    assert_eq!(files(found), Ok(Some(expected)));
    assert_eq!((progress.files.into_inner(), progress.bytes.into_inner()), (2, 8));
}

#[test]
fn pack_over_limit_is_refused() {
    let project = DiskProject::new();
    for path in ["a", "b", "c/d", "c/e"] {
        project.write(path, "text");
    }
    let disk = project.disk();
    let packed = |files, bytes, threads| {
        let (limits, progress) = (PackLimits { files, bytes }, PackProgress::default());
        let packing = PackOptions {
            want: &|_| WantedContent::Text,
            limits,
            threads: Some(threads),
            progress: &progress,
        };
        disk.pack(&id(SourceRoot::Project, "."), &packing).map(|packed| packed.unwrap().files.len())
    };
    for threads in [1, 3] {
        assert_eq!(packed(4, 16, threads), Ok(4));
        assert_eq!(packed(3, 16, threads), unreadable("it holds more than 3 files"));
        assert_eq!(packed(4, 15, threads), unreadable("it holds more than 15 bytes of text"));
    }
}

#[test]
fn packed_listing_answers_like_disk() {
    let project = DiskProject::new();
    project.write(".gitignore", "ignored\n");
    for path in ["a/b/c/d", "a/b/e", "a/f", "g", "h/ignored", "h-h/i/.hidden", "j/k/l", "j/m", "n"] {
        project.write(path, path);
    }
    project.create_dir("project/a/empty");
    let disk = project.disk();
    let root = id(SourceRoot::Project, ".");
    let mut whole = pack(&disk, ".", None).unwrap().unwrap().listing;
    // To see which of the two answers: the disk does not have this entry.
    let made_up = ListingEntry { path: "z".into(), dir: false };
    for depth in 0..6 {
        for entries in 0..15 {
            let limits = ListingLimits { depth, entries, ignored: false };
            let on_disk = disk.list(&root, limits).unwrap();
            let listings = [(root.clone(), whole.clone())].into();
            let prefetched = PrefetchedSources { inner: &disk, texts: [].into(), listings };
            assert_eq!(prefetched.list(&root, limits).unwrap(), on_disk, "{limits:?}");
        }
    }
    whole.entries.push(made_up);
    let names_with = |listing: &Listing, limits| {
        let listings = [(root.clone(), listing.clone())].into();
        let prefetched = PrefetchedSources { inner: &disk, texts: [].into(), listings };
        names(&prefetched.list(&root, limits).unwrap().unwrap())
    };
    let shown = ListingLimits { depth: 1, entries: 99, ignored: false };
    assert_eq!(names_with(&whole, shown), ["a/", "g", "h/", "h-h/", "j/", "n", "z"]);
    // The disk is asked if the listing cannot answer.
    let on_disk = ["a/", "g", "h/", "h-h/", "j/", "n"];
    assert_eq!(names_with(&Listing { left_out: 1, ..whole.clone() }, shown), on_disk);
    assert_eq!(names_with(&Listing { not_entered: 1, ..whole.clone() }, shown), on_disk);
    let all = ListingLimits { ignored: true, ..shown };
    assert_eq!(names_with(&whole, all), [".gitignore", "a/", "g", "h/", "h-h/", "j/", "n"]);
}

#[test]
fn prefetched_texts_are_recorded() {
    let project = DiskProject::new();
    project.write("a", "changed since");
    project.write("b", "on disk");
    let texts = [(id(SourceRoot::Project, "a"), SharedText::from("read before"))].into();
    let recorder =
        SourceRecorder::new(PrefetchedSources { inner: project.disk(), texts, listings: [].into() });
    let asked = ["a", "b", "c"].map(|path| recorder.text(&id(SourceRoot::Project, path)).unwrap());
    assert_eq!(asked, [Some("read before".into()), Some("on disk".into()), None]);
    let listed = recorder.list(&id(SourceRoot::Project, "."), crate::project::ALL).unwrap().unwrap();
    assert_eq!(names(&listed), ["a", "b"]);
    let snapshot = recorder.finish();
    assert_eq!(snapshot.texts.into_values().collect::<Vec<_>>(), asked);
}
