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

use crate::world::{World, id, names, pack, unreadable, within_ten_seconds};

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
    let world = World::new();
    for path in ["a/b/c", "a/b-c", "a-b", "a.b", "a0", "B", "ä", "z/1", "z/10", "z/2"] {
        world.write(&format!("project/{path}"), path);
    }
    world.create_dir("project/empty");
    let all = ["B", "a-b", "a.b", "a/b-c", "a/b/c", "a0", "z/1", "z/10", "z/2", "ä"];
    let all = all.map(|path| text(path, path)).to_vec();
    assert_eq!(files(world.pack(".")), Ok(Some(all)));
    // Paths are relative to the packed directory.
    let below = vec![text("b-c", "a/b-c"), text("b/c", "a/b/c")];
    assert_eq!(files(world.pack("a")), Ok(Some(below)));
    assert_eq!(world.pack("empty"), Ok(Some(PackedTree::default())));
    assert_eq!(world.pack("missing"), Ok(None));
    assert_eq!(world.pack("a-b"), Ok(None));
}

#[test]
fn pack_has_files_of_listing() {
    let world = World::new();
    world.write("project/.gitignore", "*.log\n/build/\n!keep.log\nsub/only_here\n");
    world.write("project/sub/.gitignore", "!wanted.log\nkeep.log\n/local\n");
    world.write("project/sub/deep/.gitignore", "*\n!*.rs\n");
    for path in ["a.log", "keep.log", "build/out", "other/build/in", ".hidden", ".config/x", "only_here"] {
        world.write(&format!("project/{path}"), path);
    }
    for path in ["a.log", "wanted.log", "keep.log", "local", "more/local", "deep/a.rs", "deep/a.txt"] {
        world.write(&format!("project/sub/{path}"), path);
    }
    let shown =
        ["keep.log", "only_here", "other/build/in", "sub/deep/a.rs", "sub/more/local", "sub/wanted.log"];
    let whole = world.pack(".").unwrap().unwrap();
    assert_eq!(paths(&whole), shown);
    let mut listed: Vec<String> = world.tree().into_iter().filter(|name| !name.ends_with('/')).collect();
    listed.sort();
    assert_eq!(paths(&whole), listed);
    // The rules above the packed directory apply as well; an ignored directory is packed if it is named.
    assert_eq!(paths(&world.pack("sub").unwrap().unwrap()), ["deep/a.rs", "more/local", "wanted.log"]);
    assert_eq!(paths(&world.pack("build").unwrap().unwrap()), ["out"]);
    assert_eq!(paths(&world.pack(".config").unwrap().unwrap()), ["x"]);
    world.write("project/sub/.gitignore", vec![b'#'; 2 * 1024 * 1024]);
    assert_eq!(
        world.pack("."),
        unreadable(
            "its rules in `sub/.gitignore` cannot be used: it has 2097152 bytes, the limit is 1048576"
        )
    );
}

#[test]
fn textless_files_have_a_reason() {
    let world = World::new();
    let head = "x".repeat(8 * 1024);
    world.write("project/a-nul", "text\0");
    world.write("project/b-late-nul", format!("{head}\0"));
    world.write("project/c-nul-at-the-end-of-the-head", format!("{}\0rest", &head[1..]));
    world.write("project/d-latin", b"caf\xe9");
    world.write("project/e-late-latin", [head.as_bytes(), b"\xe9"].concat());
    world.write("project/f-at-the-limit", "y".repeat(10_000));
    world.write("project/g-too-large", "y".repeat(10_001));
    world.write("project/h-empty", "");
    world.write("project/i-mark", "\u{feff}text\r\n");
    let disk = Disk::new(&world.roots(), 10_000);
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
    let world = World::new();
    world.write("project/file", "text");
    world.write("project/dir/inner", "text");
    world.link("file", "project/link");
    world.link("dir", "project/link-to-dir");
    world.link("../outside/secret", "project/link-to-secret");
    world.link("nowhere", "project/link-to-nothing");
    world.create_fifo("project/pipe");
    let _socket = UnixListener::bind(world.at("project/socket")).unwrap();
    let disk = world.disk();
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
    let world = World::new();
    world.write("project/dir/inner", "text");
    world.link("dir", "project/alias");
    world.link("../outside", "project/out");
    assert_eq!(files(world.pack("alias")), Ok(Some(vec![text("inner", "text")])));
    assert_eq!(world.pack("out"), Err(SourceError::Outside));
}

#[test]
fn unreadable_file_is_reported() {
    as_user(|| {
        let world = World::new();
        world.write("project/closed/file", "text");
        world.write("project/open/secret", "text");
        fs::set_permissions(world.at("project/closed"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(world.at("project/open/secret"), fs::Permissions::from_mode(0o000)).unwrap();
        let whole = world.pack(".").unwrap().unwrap();
        assert_eq!(whole.files, [left_out("open/secret", NoTextReason::Unreadable, 0)]);
        assert_eq!((whole.listing.left_out, whole.listing.not_entered), (0, 1));
        fs::set_permissions(world.at("project/closed"), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn non_utf8_names_are_counted() {
    let world = World::new();
    world.write("project/file", "text");
    let name = |bytes: &[u8]| world.at("project").join(OsStr::from_bytes(bytes));
    if fs::write(name(b"caf\xe9"), "text").is_err() {
        return not_tested("this file system takes no names that are not UTF-8");
    }
    fs::create_dir(name(b"\xff")).unwrap();
    fs::write(name(b"\xff/inner"), "text").unwrap();
    let whole = world.pack(".").unwrap().unwrap();
    assert_eq!(whole.files, [text("file", "text")]);
    assert_eq!((whole.listing.left_out, whole.listing.not_entered), (2, 0));
}

#[test]
fn thread_count_does_not_change_result() {
    let world = World::new();
    world.write("project/.gitignore", "*.skip\n");
    for dir in 0..40 {
        for file in 0..(dir * 7 % 90) {
            let path = format!("project/d{}/e{dir}/f{file}", dir % 6);
            let bytes = format!("{dir} {file}\n").repeat(file * 13);
            world.write(&path, if file % 17 == 3 { bytes + "\0" } else { bytes });
            world.write(&format!("{path}.skip"), "");
        }
    }
    let disk = world.disk();
    let one = pack(&disk, ".", Some(1)).unwrap().unwrap();
    let every = world.list(".", ListingLimits { depth: 9, entries: 99_999, ignored: false });
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
    let world = World::new();
    for path in ["a.rs", "b.md", "c.bin", "d/e.rs"] {
        world.write(&format!("project/{path}"), "text");
    }
    world.link("a.rs", "project/l.md");
    let progress = PackProgress::default();
    let want = |path: &str| match path.rsplit('.').next() {
        Some("rs") => WantedContent::Text,
        Some("md") => WantedContent::Path,
        _ => WantedContent::Nothing,
    };
    let packing =
        PackOptions { want: &want, limits: PackLimits::default(), threads: None, progress: &progress };
    let found = world.disk().pack(&id(SourceRoot::Project, "."), &packing);
    let expected = vec![text("a.rs", "text"), unread("b.md"), text("d/e.rs", "text"), unread("l.md")];
    assert_eq!(files(found), Ok(Some(expected)));
    assert_eq!((progress.files.into_inner(), progress.bytes.into_inner()), (2, 8));
}

#[test]
fn pack_over_limit_is_refused() {
    let world = World::new();
    for path in ["a", "b", "c/d", "c/e"] {
        world.write(&format!("project/{path}"), "text");
    }
    let disk = world.disk();
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
    let world = World::new();
    world.write("project/.gitignore", "ignored\n");
    for path in ["a/b/c/d", "a/b/e", "a/f", "g", "h/ignored", "h-h/i/.hidden", "j/k/l", "j/m", "n"] {
        world.write(&format!("project/{path}"), path);
    }
    world.create_dir("project/a/empty");
    let disk = world.disk();
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
    let world = World::new();
    world.write("project/a", "changed since");
    world.write("project/b", "on disk");
    let texts = [(id(SourceRoot::Project, "a"), SharedText::from("read before"))].into();
    let recorder = SourceRecorder::new(PrefetchedSources { inner: world.disk(), texts, listings: [].into() });
    let asked = ["a", "b", "c"].map(|path| recorder.text(&id(SourceRoot::Project, path)).unwrap());
    assert_eq!(asked, [Some("read before".into()), Some("on disk".into()), None]);
    let listed = recorder.list(&id(SourceRoot::Project, "."), crate::world::ALL).unwrap().unwrap();
    assert_eq!(names(&listed), ["a", "b"]);
    let snapshot = recorder.finish();
    assert_eq!(snapshot.texts.into_values().collect::<Vec<_>>(), asked);
}
