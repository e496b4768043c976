//! Tests the merge of a lane: it replaces only the files that the lane found.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use callsheet_run::{Git, ensure_lane_worktree, merge_lane};
use callsheet_testing::{TestProject, git};

use crate::support::create_repository;

/// Returns every file below a folder, with its mode and text, or with the target of a link.
fn read_tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            let what = if meta.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if meta.is_dir() {
                if path.file_name() != Some(OsStr::new(".git")) {
                    open.push(path);
                }
                continue;
            } else {
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                format!("{:o} {text}", meta.permissions().mode() & 0o777)
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), what);
        }
    }
    found
}

/// A repository, and the folders `lanes` and `outside` next to it.
struct LaneProject(TestProject);

impl Deref for LaneProject {
    type Target = TestProject;

    fn deref(&self) -> &TestProject {
        &self.0
    }
}

impl LaneProject {
    fn new() -> Self {
        let project = create_repository();
        for folder in ["lanes", "outside"] {
            fs::create_dir(project.beside(folder)).unwrap();
        }
        Self(project)
    }

    fn lanes(&self) -> PathBuf {
        self.beside("lanes")
    }

    fn outside(&self) -> PathBuf {
        self.beside("outside")
    }

    fn open_git(&self) -> Git {
        Git::open(self.path()).unwrap().unwrap()
    }

    fn create_lane(&self, name: &str) -> PathBuf {
        let lanes = self.lanes();
        ensure_lane_worktree(&self.open_git(), &lanes.join("lock"), &lanes, name).unwrap().path
    }

    fn merge(&self, name: &str) -> Vec<String> {
        let lanes = self.lanes();
        merge_lane(&self.open_git(), &lanes, name, &lanes.join(name)).unwrap()
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The operations of a lane on a file.
const DOES: [&str; 6] = ["change", "add", "delete", "chmod", "link", "change executable"];

/// The state of the same file in the project meanwhile.
const MEANWHILE: [&str; 8] = [
    "untouched",
    "changed",
    "deleted",
    "the same",
    "a link",
    "a folder",
    "its folder is a link",
    "another mode",
];

fn change_file(what: &str, file: &Path) {
    match what {
        "delete" => fs::remove_file(file).unwrap(),
        "chmod" => set_mode(file, 0o755),
        "link" => {
            fs::remove_file(file).unwrap();
            symlink("elsewhere", file).unwrap();
        }
        _ => fs::write(file, "lane\n").unwrap(),
    }
}

#[test]
fn lane_replaces_only_found_files() {
    let project = LaneProject::new();
    let top = project.path();
    let mut tried = 0;
    for (at, what) in DOES.into_iter().enumerate() {
        for (nth, meanwhile) in MEANWHILE.into_iter().enumerate() {
            let absent = what == "add";
            if absent && matches!(meanwhile, "deleted" | "another mode") {
                continue;
            }
            tried += 1;
            let told = format!("{what}, meanwhile {meanwhile}");
            let folder = top.join(format!("d{at}{nth}"));
            let file = folder.join("f");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("beside"), "b\n").unwrap();
            if !absent {
                fs::write(&file, "one\n").unwrap();
                set_mode(&file, if what == "change executable" { 0o755 } else { 0o644 });
            }
            let (name, path) = (format!("lane-{at}{nth}"), format!("d{at}{nth}/f"));
            let lane = project.create_lane(&name);
            change_file(what, &lane.join(&path));
            let secret = project.outside().join(&name);
            fs::write(&secret, "one\n").unwrap();
            match meanwhile {
                "changed" => fs::write(&file, "mine\n").unwrap(),
                "deleted" => fs::remove_file(&file).unwrap(),
                "the same" => change_file(what, &file),
                "a link" => {
                    let _ = fs::remove_file(&file);
                    symlink(&secret, &file).unwrap();
                }
                "a folder" => {
                    let _ = fs::remove_file(&file);
                    fs::create_dir(&file).unwrap();
                    fs::write(file.join("x"), "x\n").unwrap();
                }
                "its folder is a link" => {
                    let moved = project.outside().join(format!("folder-{name}"));
                    fs::rename(&folder, &moved).unwrap();
                    symlink(&moved, &folder).unwrap();
                }
                "another mode" => set_mode(&file, if what == "change executable" { 0o644 } else { 0o755 }),
                _ => {}
            }
            let is_same = meanwhile == "the same"
                || (what, meanwhile) == ("delete", "deleted")
                || (what, meanwhile) == ("chmod", "another mode");
            let conflicts = meanwhile != "untouched" && !is_same;
            let (before, before_outside) = (read_tree(top), read_tree(&project.outside()));
            let expected: Vec<String> = conflicts.then(|| path.clone()).into_iter().collect();
            for _ in 0..2 {
                assert_eq!(project.merge(&name), expected, "{told}");
                let mut after = before.clone();
                if !conflicts {
                    after.remove(Path::new(&path));
                    let done = read_tree(&lane).remove(Path::new(&path));
                    after.extend(done.map(|done| (PathBuf::from(&path), done)));
                }
                assert_eq!(read_tree(top), after, "{told}");
                assert_eq!(read_tree(&project.outside()), before_outside, "{told}");
            }
        }
    }
    assert_eq!(tried, 46);
}

#[test]
fn one_conflict_merges_nothing() {
    let project = LaneProject::new();
    let top = project.path();
    for name in ["a", "b", "c"] {
        fs::write(top.join(name), "one\n").unwrap();
    }
    let lane = project.create_lane("l");
    fs::write(lane.join("a"), "lane\n").unwrap();
    fs::remove_file(lane.join("b")).unwrap();
    fs::write(lane.join("c"), "lane\n").unwrap();
    fs::write(lane.join("new"), "lane\n").unwrap();
    fs::write(top.join("b"), "mine\n").unwrap();
    let before = read_tree(top);
    assert_eq!(project.merge("l"), ["b"]);
    assert_eq!(read_tree(top), before);
    // Once the person has resolved the conflict, all of it is merged.
    fs::write(top.join("b"), "one\n").unwrap();
    assert_eq!(project.merge("l"), [""; 0]);
    let text = |name: &str| fs::read_to_string(top.join(name)).ok();
    let lanes = Some("lane\n".to_owned());
    assert_eq!([text("a"), text("b"), text("c"), text("new")], [lanes.clone(), None, lanes.clone(), lanes]);
}

#[test]
fn uncopyable_file_is_a_conflict() {
    let project = LaneProject::new();
    let top = project.path();
    let lane = project.create_lane("l");
    let nested = lane.join("nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    fs::write(nested.join("x"), "x\n").unwrap();
    git(&nested, &["add", "-A"]);
    git(&nested, &["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "x"]);
    fs::write(lane.join("new"), "lane\n").unwrap();
    let before = read_tree(top);
    assert_eq!(project.merge("l"), ["nested"]);
    assert_eq!(read_tree(top), before);
    let other = project.create_lane("m");
    fs::write(other.join(OsStr::from_bytes(b"\xff.txt")), "lane\n").unwrap();
    fs::write(other.join("new"), "lane\n").unwrap();
    assert_eq!(project.merge("m"), ["\u{fffd}.txt"]);
    assert_eq!(read_tree(top), before);
}

#[test]
fn permission_of_others_does_not_conflict() {
    let project = LaneProject::new();
    let file = project.path().join("f");
    fs::write(&file, "before\n").unwrap();
    set_mode(&file, 0o645);
    project.commit();
    fs::write(project.create_lane("l").join("f"), "lane\n").unwrap();
    assert_eq!(project.merge("l"), Vec::<String>::new());
    assert_eq!(fs::read_to_string(&file).unwrap(), "lane\n");
}
