//! The same request and sources give the same bytes: in another directory, locale or time zone, as another
//! user, with files created in another order, with other ignore rules around, with other line endings in
//! templates.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use callsheet_testing::run_command;
use sha2::{Digest as _, Sha256};

use crate::project::{CanaryProject, run_in_parallel};
use crate::requests::request_by_number;

/// Returns all files of the project.
fn project_files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |path: &str, text: &str| files.push((path.into(), text.as_bytes().to_vec()));
    let header = "---\nname: mine\nvariables:\n  - {name: feature, default: \"a feature\"}\n  - name: audience\n    required: false\n---\n\n";
    add(
        ".callsheet/templates/identity/mine.md",
        &format!("{header}I am {{{{role}}}} of {{{{feature}}}}.\n\n{{{{> part}}}}\n"),
    );
    add(
        ".callsheet/templates/agents/mine.md",
        &format!(
            "{header}Do [[placeholder:feature]].\n\n[[shared:part]]\n\n[[include-optional:[[placeholder:plan_file]]]]\n[[include:tasks.md]]\n[[placeholder:project_instructions]]\n"
        ),
    );
    add(".callsheet/templates/commands/mine.md", "Run.\n\n[[shared:part]]\n[[placeholder:feature_dir]]\n");
    add(".callsheet/templates/shared/part.md", "A part\nof more\nlines.\n");
    add(
        ".callsheet/templates/system/CLAUDE-plan.md",
        "# Identity\nPlan.\n\n{{PROJECT_CONTEXT}}\n\n{{PROJECT_STRUCTURE}}\n\n{{ARTIFACTS}}\n{{SKELETON}}\n{{TASKS}}\n",
    );
    add(
        ".callsheet/recipes/own.toml",
        "format = \"markdown\"\nseparator = \"rule\"\nmissing = \"empty\"\n\n[[section]]\nname = \"role\"\npart = \"system\"\n\
         blocks = [{ template = \"templates/identity/mine.md\" }, { value = \"tree\" }]\n\n[[section]]\nname = \"task\"\npart = \"instructions\"\n\
         max_bytes = 400\nblocks = [{ value = \"instructions\" }, { context = true }, { documents = [\"file\", \"artifact\", \"thought\"] }]\n\n\
         [derive.tree]\nfrom = \"project-structure\"\ndepth = 5\nlimit = 30\neach = { dir = '{{indent}}{{name}}/', file = '{{indent}}{{name}}', rest = '({{count}} more)' }\n",
    );
    add(".callsheet/config.toml", "[layout]\nproject_context = \"docs/project.md\"\n");
    add(".callsheet/prompts/agents/mine.md", "Mind {{braces}} and [[placeholder:feature]].\nAlways.\n");
    add(".callsheet/prompts/agents/coder.md", "- be brief\n");
    // A prompt mentions whether it is for a repository.
    add(".git/HEAD", "ref: refs/heads/main\n");
    add(".gitignore", "*.log\n/target/\n!keep.log\n");
    add("docs/.gitignore", "secret.md\n");
    add("README.md", "# Shop\n\nA shop.\n");
    add("AGENTS.md", "Be kind.\n");
    add("CLAUDE.md", "Be brief.\n");
    add("docs/project.md", "A web shop.\n");
    add("docs/windows.md", "one\r\ntwo\r\n");
    add("docs/secret.md", "never\n");
    add("target/out.rs", "never\n");
    add("debug.log", "never\n");
    add("keep.log", "kept\n");
    add("src/lib.rs", "pub fn shop() {\n    open();\n}\n");
    add("src/ünïcode/ß.rs", "// ß\n");
    add("src/Zebra.rs", "struct Zebra;\n");
    add("src/apple.rs", "struct Apple {\n    core: u8,\n}\n");
    add("sessions/one/tasks.md", "1. Do it.\n");
    add("sessions/one/04_planning/plan.md", "The plan\n");
    add("sessions/one/04_planning/tasks_1.md", "- [ ] one\n");
    add("sessions/one/07_review/review.md", "fine\n");
    for at in 0..40 {
        add(&format!("src/many/f{}.rs", at * 7919 % 1000), "fn f() {}\n");
    }
    files.push(("src/logo.png".into(), b"\x89PNG\r\n\x1a\n\0\0".to_vec()));
    files
}

/// An environment in which prompts are composed.
struct Place {
    name: &'static str,
    project: CanaryProject,
    folder: PathBuf,
    /// The directory in which the command starts, below the project.
    here: &'static str,
    /// The path from there back to the project.
    back: &'static str,
    /// Changes the command that composes.
    alter: Box<dyn Fn(&mut Command) + Sync>,
}

/// Returns whether a file is read by its lines and words, so that its line endings do not matter.
fn is_parsed(path: &str) -> bool {
    path.contains("/templates/") || path.ends_with(".toml") || path.contains("/prompts/")
}

/// Returns a place for `project`.
fn place(name: &'static str, project: CanaryProject, alter: impl Fn(&mut Command) + Sync + 'static) -> Place {
    let folder = project.path().to_owned();
    Place { name, project, folder, here: ".", back: "", alter: Box::new(alter) }
}

fn write_all(root: &Path, files: impl Iterator<Item = (String, Vec<u8>)>) {
    for (path, bytes) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn leave_unchanged(_: &mut Command) {}

fn set_variables(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&mut Command) + Sync {
    move |command| {
        command.envs(pairs.iter().copied());
    }
}

/// Runs the same command below another program: `taskset`, or a shell that sets something first.
fn run_through(program: &'static str, before: &'static [&'static str]) -> impl Fn(&mut Command) + Sync {
    move |command| {
        let mut outer = Command::new(program);
        outer.args(before).arg(command.get_program()).args(command.get_args());
        outer.current_dir(command.get_current_dir().unwrap()).env_clear();
        outer.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        *command = outer;
    }
}

fn open_to_all(path: &Path, dirs: u32, others: u32) {
    let is_dir = path.is_dir();
    if is_dir {
        for entry in fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path(), dirs, others);
        }
    }
    let mode = if is_dir { dirs } else { others };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns all places. The first one is the reference for all others.
fn create_places() -> Vec<Place> {
    let plain = || {
        let project = CanaryProject::new();
        write_all(project.path(), project_files().into_iter());
        project
    };
    let mut places = vec![
        place("usual", plain(), leave_unchanged),
        place("again: another hash seed, another layout of memory", plain(), leave_unchanged),
        place(
            "a Turkish locale",
            plain(),
            set_variables(&[("LANG", "tr_TR.UTF-8"), ("LC_ALL", "tr_TR.UTF-8")]),
        ),
        place(
            "no locale",
            plain(),
            set_variables(&[("LANG", "C"), ("LC_ALL", "C"), ("LC_COLLATE", "ja_JP.SJIS")]),
        ),
        place(
            "another time zone",
            plain(),
            set_variables(&[("TZ", "Pacific/Kiritimati"), ("SOURCE_DATE_EPOCH", "0")]),
        ),
        place(
            "noise in the environment",
            plain(),
            set_variables(&[
                ("CLICOLOR_FORCE", "1"),
                ("TERM", "xterm-256color"),
                ("COLUMNS", "20"),
                ("PWD", "/"),
                ("GIT_DIR", "/nowhere"),
                ("GIT_WORK_TREE", "/"),
                ("RUST_BACKTRACE", "full"),
                ("USER", "nobody"),
                ("EDITOR", "x"),
                ("TMPDIR", "/nowhere"),
            ]),
        ),
        place("no mask", plain(), run_through("sh", &["-c", "umask 000; exec \"$0\" \"$@\""])),
        place("a strict mask", plain(), run_through("sh", &["-c", "umask 777; exec \"$0\" \"$@\""])),
        place("no home", plain(), |command| {
            command.env_remove("HOME");
        }),
    ];
    places.push(other_directory());
    places.push(other_order());
    places.push(other_ignores());
    places.push(other_line_ends());
    places.push(from_below());
    places.push(through_a_link());
    places.push(read_only());
    places.extend(other_user());
    places.extend(other_file_system());
    let single = Command::new("taskset").args(["-c", "0", "true"]).status();
    if single.is_ok_and(|status| status.success()) {
        places.push(place("one processor", plain(), run_through("taskset", &["-c", "0"])));
    } else {
        crate::not_tested("prompts on one processor: no `taskset` here");
    }
    places
}

fn other_directory() -> Place {
    let project = CanaryProject::new();
    let folder = project.beside("another/ ünd [*] {x} 'deep'/..name");
    write_all(&folder, project_files().into_iter());
    Place { folder, ..place("another directory", project, leave_unchanged) }
}

fn other_order() -> Place {
    let project = CanaryProject::new();
    write_all(project.path(), project_files().into_iter().rev());
    // Old times, all the same, and then a file that is created and removed.
    for (path, _) in project_files() {
        let status = Command::new("touch").args(["-d", "1999-12-31"]).arg(project.path().join(path)).status();
        assert!(status.unwrap().success());
    }
    project.write("src/aaaa.rs", "");
    fs::remove_file(project.path().join("src/aaaa.rs")).unwrap();
    place("files made in another order and at another time", project, leave_unchanged)
}

fn other_ignores() -> Place {
    let project = CanaryProject::new();
    write_all(project.path(), project_files().into_iter());
    project.write_beside("home/.config/git/ignore", "*\n");
    project.write_beside("home/.gitignore", "*\n");
    let excludes = project.beside("home/.gitignore");
    project.write_beside("home/.gitconfig", format!("[core]\n\texcludesFile = {}\n", excludes.display()));
    project.write_beside(".gitignore", "*\n");
    project.write_beside(".ignore", "*\n");
    project.write(".git/info/exclude", "*\n");
    project.write(".git/HEAD", "ref: refs/heads/main\n");
    project.write(".ignore", "*\n");
    project.write(".rgignore", "*\n");
    place("ignore rules that are not the project's", project, leave_unchanged)
}

fn other_line_ends() -> Place {
    let project = CanaryProject::new();
    let crlf = project_files().into_iter().map(|(path, bytes)| {
        let bytes = if is_parsed(&path) { with_crlf(&bytes) } else { bytes };
        (path, bytes)
    });
    write_all(project.path(), crlf);
    place("templates with carriage returns", project, leave_unchanged)
}

fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8(bytes.to_vec()).unwrap().replace('\n', "\r\n").into_bytes()
}

fn from_below() -> Place {
    let project = CanaryProject::new();
    write_all(project.path(), project_files().into_iter());
    Place { here: "src/many", back: "../../", ..place("started below the project", project, leave_unchanged) }
}

fn through_a_link() -> Place {
    let project = CanaryProject::new();
    write_all(project.path(), project_files().into_iter());
    let alias = project.beside("alias");
    std::os::unix::fs::symlink("project", &alias).unwrap();
    Place { folder: alias, ..place("reached through a link", project, leave_unchanged) }
}

fn read_only() -> Place {
    let project = CanaryProject::new();
    write_all(project.path(), project_files().into_iter());
    open_to_all(project.path(), 0o555, 0o444);
    place("nothing may be written", project, leave_unchanged)
}

fn other_user() -> Option<Place> {
    const NOBODY: u32 = 65534;
    let project = CanaryProject::new();
    write_all(project.path(), project_files().into_iter());
    open_to_all(&project.beside("."), 0o755, 0o644);
    // Only its owner may have access to the directory of the binary.
    let binary = project.beside("callsheet");
    // `cp` copies the binary: a file that this process holds open for writing could be inherited by a child
    // that was just forked, and then cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_callsheet")).arg(&binary).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let as_nobody = move |command: &mut Command| {
        let mut other = Command::new(&binary);
        other.args(command.get_args()).current_dir(command.get_current_dir().unwrap()).env_clear();
        other.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        other.uid(NOBODY).gid(NOBODY);
        *command = other;
    };
    let place = place("another user", project, as_nobody);
    let mut version = place.project.command();
    version.arg("--version");
    (place.alter)(&mut version);
    if version.output().is_ok_and(|output| output.status.success()) {
        return Some(place);
    }
    crate::not_tested("prompts as another user: only root can become one");
    None
}

fn other_file_system() -> Option<Place> {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        crate::not_tested("prompts on another file system: there is no /dev/shm here");
        return None;
    }
    let project = CanaryProject::new_in(memory);
    write_all(project.path(), project_files().into_iter());
    Some(place("another file system", project, leave_unchanged))
}

/// The compared result: the exit code, and a hash of every byte on standard output.
type Result = (Option<i32>, String);

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn compose_results(place: &Place, numbers: &[u64]) -> Vec<Result> {
    let request = place.project.beside("request.json");
    let run = |number: &u64| {
        let order = request_by_number(*number);
        fs::write(&request, order.request.to_string()).unwrap();
        let mut command = place.project.command();
        command.current_dir(place.folder.join(place.here));
        command.args(["compose", "--request"]).arg(&request).args(&order.flags);
        command.args(order.files.iter().map(|file| format!("-f={}{file}", place.back)));
        command.args(order.details.iter().map(|path| format!("--detail={}{path}", place.back)));
        (place.alter)(&mut command);
        let output = run_command(&mut command);
        assert!(output.code.is_some(), "{}: request {number} was ended by a signal", place.name);
        (output.code, hash(&output.stdout))
    };
    numbers.iter().map(run).collect()
}

/// Returns the places and numbers with a different result.
fn find_differences(places: &[Place], numbers: &[u64]) -> Vec<String> {
    let all: Vec<(&str, Vec<Result>)> = run_in_parallel(places, |share| {
        share.iter().map(|place| (place.name, compose_results(place, numbers))).collect::<Vec<_>>()
    })
    .concat();
    let (_, usual) = &all[0];
    let mut wrong = Vec::new();
    for (name, results) in &all[1..] {
        for ((number, wanted), found) in numbers.iter().zip(usual).zip(results) {
            if wanted != found {
                wrong.push(format!("{name}: request {number} gives {found:?}, not {wanted:?}"));
            }
        }
    }
    wrong
}

#[test]
fn prompts_are_identical_everywhere() {
    let places = create_places();
    assert!(places.len() > 12, "only {} environments", places.len());
    let numbers: Vec<u64> = (0..if crate::is_long() { 1_000 } else { 100 }).collect();
    let wrong = find_differences(&places, &numbers);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), places.len() * numbers.len(), wrong.join("\n"));
}

/// The requests are worth composing: nearly all give a prompt, and hardly two give the same one.
#[test]
fn requests_give_different_prompts() {
    let project = CanaryProject::new();
    write_all(project.path(), project_files().into_iter());
    let numbers: Vec<u64> = (0..60).collect();
    let results = compose_results(&place("usual", project, leave_unchanged), &numbers);
    let mut prompts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, hash) in results.iter().filter(|(code, _)| *code == Some(0)) {
        *prompts.entry(hash).or_default() += 1;
    }
    assert!(prompts.len() >= 50, "{} prompts of {}: {results:?}", prompts.len(), numbers.len());
}

/// A different project does not give the same bytes, and the comparison detects that.
#[test]
fn changed_project_is_detected() {
    let changed = |change: fn(&CanaryProject)| {
        let project = CanaryProject::new();
        write_all(project.path(), project_files().into_iter());
        change(&project);
        place("changed", project, leave_unchanged)
    };
    let numbers: Vec<u64> = (0..40).collect();
    let changes: [fn(&CanaryProject); 3] = [
        |project| drop(project.write("src/new.rs", "")),
        |project| drop(project.write("docs/windows.md", "one\ntwo\n")),
        |project| drop(project.write(".callsheet/templates/shared/part.md", "Another part.\n")),
    ];
    for change in changes {
        assert_ne!(find_differences(&[changed(|_| {}), changed(change)], &numbers), Vec::<String>::new());
    }
}
