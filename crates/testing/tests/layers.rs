//! Imports between the folders of a crate follow ARCHITECTURE.md: in core only to an earlier stage, elsewhere without a cycle.

#![expect(clippy::unwrap_used, reason = "tests")]

mod sources;

use std::collections::{BTreeMap, BTreeSet};

use sources::{SourceFile, crate_names, crate_sources};

/// The stages of core, in their order.
const STAGES: [&str; 15] = [
    "text",
    "diag",
    "source",
    "library",
    "request",
    "prompt",
    "compose",
    "render",
    "secrets",
    "delivery",
    "reply",
    "submission",
    "flow",
    "record",
    "builder",
];

/// The most entries of `core/src`: the stages and `lib.rs`.
const MOST_CORE_ENTRIES: usize = 16;

/// An import of one folder by a file of another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FolderImport {
    from: String,
    to: String,
    file: String,
}

/// Returns the folder of `src` that a file belongs to; `git.rs` belongs to `git/`.
fn folder_of<'f>(file: &'f SourceFile, folders: &BTreeSet<&str>) -> Option<&'f str> {
    let first = file.below_src.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    folders.contains(name).then_some(name)
}

/// Returns the imports between the folders of a crate, by the paths that begin with `crate::`.
fn folder_imports(files: &[SourceFile]) -> BTreeSet<FolderImport> {
    let folders: BTreeSet<&str> =
        files.iter().filter_map(|file| Some(file.below_src.split_once('/')?.0)).collect();
    let mut imports = BTreeSet::new();
    for file in files {
        let Some(from) = folder_of(file, &folders) else { continue };
        for to in imported_names(&file.text) {
            if to != from && folders.contains(to) {
                imports.insert(FolderImport {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    file: file.below_src.clone(),
                });
            }
        }
    }
    imports
}

/// Returns the first name of every path below `crate::`, except in comments.
fn imported_names(text: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        for (at, before) in code.match_indices("crate::") {
            let is_path = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let rest = &code[at + before.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if is_path && end > 0 {
                names.insert(&rest[..end]);
            }
        }
    }
    names
}

/// Returns the imports of a later stage.
fn imports_to_later_stages(imports: &BTreeSet<FolderImport>) -> Vec<&FolderImport> {
    let stage = |name: &str| STAGES.iter().position(|known| *known == name);
    imports.iter().filter(|import| stage(&import.to) >= stage(&import.from)).collect()
}

/// Returns the folders that import each other, directly or through others.
fn folders_in_cycles(imports: &BTreeSet<FolderImport>) -> BTreeSet<&str> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        reached.entry(&import.from).or_default().insert(&import.to);
    }
    loop {
        let mut grown = false;
        for from in reached.keys().copied().collect::<Vec<_>>() {
            let further: BTreeSet<&str> =
                reached[from].iter().filter_map(|to| reached.get(to)).flatten().copied().collect();
            let known = reached.get_mut(from).unwrap();
            let before = known.len();
            known.extend(further);
            grown |= known.len() > before;
        }
        if !grown {
            return reached.iter().filter(|(from, to)| to.contains(*from)).map(|(from, _)| *from).collect();
        }
    }
}

#[test]
fn core_imports_earlier_stages_only() {
    let files = crate_sources("core");
    let entries: BTreeSet<&str> = files.iter().filter_map(|file| file.below_src.split('/').next()).collect();
    assert!(entries.len() <= MOST_CORE_ENTRIES, "{entries:?}");
    let folders: BTreeSet<&str> =
        files.iter().filter_map(|file| Some(file.below_src.split_once('/')?.0)).collect();
    assert_eq!(folders, STAGES.into_iter().collect());
    assert_eq!(imports_to_later_stages(&folder_imports(&files)), Vec::<&FolderImport>::new());
}

#[test]
fn folders_of_crates_have_no_cycle() {
    for name in crate_names() {
        let imports = folder_imports(&crate_sources(&name));
        assert_eq!(folders_in_cycles(&imports), BTreeSet::new(), "{name}: {imports:#?}");
    }
}

#[test]
fn planted_imports_are_found() {
    let file =
        |below_src: &str, text: &str| SourceFile { below_src: below_src.to_owned(), text: text.to_owned() };
    let later = [file("text/a.rs", "use crate::render::b;\n"), file("render/b.rs", "// crate::text\n")];
    let imports = folder_imports(&later);
    let planted = FolderImport { from: "text".into(), to: "render".into(), file: "text/a.rs".into() };
    assert_eq!(imports_to_later_stages(&imports), [&planted]);
    assert_eq!(folders_in_cycles(&imports), BTreeSet::new());
    let cycle = [
        file("a/x.rs", "use crate::b::y;\n"),
        file("b.rs", "fn f() { crate::c::z() }\n"),
        file("b/y.rs", ""),
        file("c/z.rs", "use crate::a::x; use $crate::b;\n"),
    ];
    assert_eq!(folders_in_cycles(&folder_imports(&cycle)), ["a", "b", "c"].into());
}
