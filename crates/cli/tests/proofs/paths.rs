//! Hostile paths in every place that accepts the name of a file: nothing outside the project is opened, and a
//! path that is not a regular file is refused at once.
//!
//! Two judges watch: the text of the files outside must not be printed, and (on Linux) the system must not
//! report that anything outside was opened.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use callsheet_testing::{CommandOutput, run_for_bytes};
use serde_json::{Value, json};

use crate::project::{CANARY, CanaryProject, has_leak, run_in_parallel};

/// A text in the files that may be read.
const INSIDE: &str = "INSIDE-fine";

/// A project full of traps.
struct Scene {
    project: CanaryProject,
    watch: Watch,
    _socket: UnixListener,
}

impl Scene {
    fn new() -> Self {
        let project = CanaryProject::new();
        project.write("in/ok.md", INSIDE);
        project.write(".git/config", "[core]\n");
        project.write("in/.hidden", INSIDE);
        let outside = project.beside("outside");
        for (name, target) in [
            ("rel", "../../outside/canary.md"),
            ("dir", "../../outside"),
            ("up", ".."),
            ("upup", "../.."),
            ("root", "/"),
            ("self", "self"),
            ("ring-a", "ring-b"),
            ("ring-b", "ring-a"),
            ("gone", "../../outside/missing"),
            ("back", "../../project/in/ok.md"),
            ("fifo-link", "fifo"),
            ("zero", "/dev/zero"),
            ("null", "/dev/null"),
            ("tty", "/dev/tty"),
            ("stdin", "/dev/stdin"),
            ("environ", "/proc/self/environ"),
            ("cmdline", "/proc/self/cmdline"),
            ("procroot", "/proc/self/root"),
            ("cwd", "/proc/self/cwd"),
            ("fd", "/proc/self/fd"),
            ("chain-0", "../../outside/canary.md"),
        ] {
            project.link(target, &format!("links/{name}"));
        }
        project.link(outside.join("canary.md"), "links/abs");
        project.link(&outside, "links/absdir");
        project.link(project.path().join("in/ok.md"), "links/absin");
        for at in 1..45 {
            project.link(format!("chain-{}", at - 1), &format!("links/chain-{at}"));
        }
        fs::hard_link(project.path().join("in/ok.md"), project.path().join("links/hard")).unwrap();
        let made = |program: &str, args: &[&str]| {
            Command::new(program).args(args).current_dir(project.path()).status().unwrap().success()
        };
        assert!(made("mkfifo", &["links/fifo"]));
        if !made("mknod", &["links/device", "c", "1", "5"]) {
            crate::not_tested("a device inside the project: this user may not make one");
        }
        let _socket = UnixListener::bind(project.path().join("links/socket")).unwrap();
        project.write(".callsheet/templates/agents/value.md", "got: [[include:[[placeholder:p]]]]");
        project
            .write(".callsheet/templates/agents/optional.md", "got: [[include-optional:[[placeholder:p]]]]");
        project.write(
            ".callsheet/templates/agents/session.md",
            "[[include-optional:ok.md]][[include-optional:canary.md]]",
        );
        let watch = Watch::new(&outside);
        Self { project, watch, _socket }
    }

    fn compose(&self, request: &Value) -> CommandOutput {
        let file = self.project.write("request.json", request.to_string());
        self.project.run(["compose", "--request", file.to_str().unwrap()])
    }
}

/// Reports accesses outside the project.
#[cfg(target_os = "linux")]
struct Watch(nix::sys::inotify::Inotify);

#[cfg(target_os = "linux")]
impl Watch {
    fn new(outside: &Path) -> Self {
        use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
        let watch = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap();
        for dir in [outside.to_path_buf(), outside.join("dir")] {
            let about = AddWatchFlags::IN_OPEN | AddWatchFlags::IN_ACCESS | AddWatchFlags::IN_MODIFY;
            watch.add_watch(&dir, about | AddWatchFlags::IN_CREATE).unwrap();
        }
        Self(watch)
    }

    /// Returns whether anything outside was accessed since the last call.
    fn has_seen_access(&self) -> bool {
        let mut any = false;
        while self.0.read_events().is_ok_and(|events| !events.is_empty()) {
            any = true;
        }
        any
    }
}

#[cfg(not(target_os = "linux"))]
struct Watch;

#[cfg(not(target_os = "linux"))]
impl Watch {
    fn new(_: &Path) -> Self {
        Self
    }

    fn saw_something(&self) -> bool {
        false
    }
}

/// Returns known ways out of a project, and ways that only look like one.
fn hostile_paths(project: &CanaryProject) -> Vec<String> {
    let outside = project.beside("outside").to_str().unwrap().to_owned();
    let path = project.path().to_str().unwrap().to_owned();
    let canary = format!("{outside}/canary.md");
    let mut all: Vec<String> = serde_json::from_str(include_str!("paths.json")).unwrap();
    all.extend(SPECIAL.map(String::from));
    for (before, after) in
        [("", ""), ("/", ""), ("", "/"), ("./", "/."), ("file://", ""), ("/proc/self/root", "")]
    {
        all.push(format!("{before}{canary}{after}"));
    }
    all.push(format!("{path}/in/ok.md"));
    all.push(format!("{path}/../outside/canary.md"));
    for nul in
        ["in/ok.md\0", "\0", "\0/etc/passwd", "../outside/canary.md\0.md", "in/\0/../../outside/canary.md"]
    {
        all.push(nul.into());
    }
    for control in ["\n", "\r", "\r\n", "\u{b}", "\u{1b}[31m", "\u{7f}", "\u{85}", "\u{2028}"] {
        all.push(format!("in/ok.md{control}"));
        all.push(format!("in{control}/../../outside/canary.md"));
    }
    for levels in 1..=12 {
        let up = "../".repeat(levels);
        all.push(format!("{up}outside/canary.md"));
        all.push(format!("in/{up}outside/canary.md"));
        all.push(format!("{}{}", up, canary.trim_start_matches('/')));
    }
    for links in [1, 5, 20, 38, 39, 40, 44] {
        all.push(format!("links/chain-{links}"));
    }
    all.push("x".repeat(300));
    all.push("x".repeat(5000));
    all.push("d/".repeat(3000) + "x");
    all.push("../".repeat(1500) + "etc/passwd");
    all.push("in/../".repeat(800) + "in/ok.md");
    all
}

/// Paths that are not regular files. Callsheet never waits for them.
const SPECIAL: [&str; 8] = [
    "links/fifo",
    "links/fifo-link",
    "links/device",
    "links/zero",
    "links/null",
    "links/tty",
    "links/stdin",
    "links/socket",
];

/// Passes a path in one place and returns the program's answer.
type Naming<S> = fn(&Scene, &str) -> S;

/// The places whose paths must stay inside the project. Each returns `None` if the path cannot be written
/// there at all.
const CONFINED: [(&str, Naming<Option<CommandOutput>>); 12] = [
    ("include, by a value", |scene, path| {
        Some(scene.compose(&json!({ "recipe": "staged", "role": "value", "values": { "p": path } })))
    }),
    ("optional include, by a value", |scene, path| {
        Some(scene.compose(
            &json!({ "recipe": "staged", "role": "optional", "values": { "p": path }, "instructions": "x" }),
        ))
    }),
    ("include, in the template", |scene, path| {
        let template = format!("[[include:{path}]]\n[[include-optional:{path}]]");
        scene.project.write(".callsheet/templates/agents/literal.md", template);
        Some(scene.compose(&json!({ "recipe": "staged", "role": "literal", "instructions": "x" })))
    }),
    ("document of a request", |scene, path| {
        let documents = json!([{ "path": path }, { "type": "artifact", "path": path }]);
        Some(scene.compose(
            &json!({ "recipe": "unified", "phase": "plan", "instructions": "x", "documents": documents }),
        ))
    }),
    ("session of a request", |scene, path| {
        Some(
            scene.compose(
                &json!({ "recipe": "staged", "role": "session", "instructions": "x", "session": path }),
            ),
        )
    }),
    ("path to read first", |scene, path| {
        Some(scene.compose(&json!({ "recipe": "run", "instructions": "x", "read_first": [path] })))
    }),
    ("role, phase, command, agent", |scene, path| {
        let request = json!({ "recipe": "staged", "instructions": "x", "missing": "empty" });
        let with = |fields: &[&str]| {
            let mut request = request.clone();
            fields.iter().for_each(|field| request[*field] = path.into());
            scene.compose(&request)
        };
        let fields = ["role", "phase", "command", "agent"];
        // An invalid name is refused in every field; a valid name gets as far as a search.
        let alone = fields.iter().filter(|_| callsheet_core::is_name(path)).map(|field| with(&[field]));
        alone
            .chain([with(&fields)])
            .find(|output| has_leak(output) || output.code.is_none_or(|code| code > 4))
            .or_else(|| Some(with(&fields)))
    }),
    ("recipe", |scene, path| Some(scene.compose(&json!({ "recipe": path, "instructions": "x" })))),
    ("fragment", |scene, path| {
        let template = format!("[[shared:{path}]] {{{{> {path}}}}}");
        scene.project.write(".callsheet/templates/agents/fragment.md", &template);
        scene.project.write(".callsheet/templates/identity/fragment.md", &template);
        let brackets = scene.compose(&json!({ "recipe": "staged", "role": "fragment", "missing": "empty" }));
        if has_leak(&brackets) {
            return Some(brackets);
        }
        Some(scene.compose(&json!({ "recipe": "layers", "role": "fragment", "missing": "empty" })))
    }),
    ("template and wording of a recipe", |scene, path| {
        let quoted = Value::from(path).to_string();
        let recipe = format!(
            "format = \"markdown\"\n[[section]]\nname = \"task\"\npart = \"instructions\"\n\
             blocks = [{{ template = {quoted} }}, {{ value = \"task\" }}, {{ value = \"instructions\" }}]\n\
             [derive.task]\nfrom = \"task\"\neach = {quoted}\nwrap = {quoted}\n"
        );
        scene.project.write(".callsheet/recipes/own.toml", recipe);
        let output =
            scene.compose(&json!({ "recipe": "own", "instructions": "x", "task": { "title": "t" } }));
        fs::remove_file(scene.project.path().join(".callsheet/recipes/own.toml")).unwrap();
        Some(output)
    }),
    ("folders of the configuration", |scene, path| {
        let quoted = Value::from(path).to_string();
        let config =
            format!("[layout]\ntemplates = [{quoted}]\nprompts = {quoted}\nproject_context = {quoted}\n");
        scene.project.write(".callsheet/config.toml", config);
        let output = scene
            .compose(&json!({ "recipe": "unified", "phase": "plan", "role": "canary", "instructions": "x" }));
        fs::remove_file(scene.project.path().join(".callsheet/config.toml")).unwrap();
        Some(output)
    }),
    ("name of a template on the command line", |scene, path| {
        if path.contains('\0') {
            return None;
        }
        // All four commands search for the name in the same way: in the short form each path is tried with
        // one of them.
        let commands = ["show", "where", "diff", "eject"];
        let share = if crate::is_long() { &commands[..] } else { &commands[path.len() % 4..][..1] };
        let mut all = share.iter().map(|command| scene.project.run(["templates", command, "--", path]));
        let first = all.next();
        all.find(has_leak).or(first)
    }),
];

/// The places in which a person names a file explicitly. It may be anywhere, but must be a file, and
/// callsheet warns about one from outside.
const OUTRIGHT: [(&str, Naming<CommandOutput>); 4] = [
    ("-f", |scene, path| scene.project.run(["compose", "-p", "plan", "x", &format!("-f={path}")])),
    ("--artifact", |scene, path| {
        scene.project.run(["compose", "-p", "plan", "x", &format!("--artifact={path}")])
    }),
    ("--detail", |scene, path| {
        scene.project.run(["compose", "-p", "plan", "x", "-f", "in", &format!("--detail={path}=outline")])
    }),
    ("--session", |scene, path| {
        scene.project.run([
            "compose",
            "--role",
            "optional",
            "-s",
            "p=missing.md",
            "x",
            &format!("--session={path}"),
        ])
    }),
];

/// Returns an objection to the handling of a path, if there is one.
fn find_objection(place: &str, path: &str, output: &CommandOutput, opened: bool) -> Option<String> {
    let shown: String = path.chars().take(80).collect();
    if has_leak(output) {
        Some(format!("{place}: {shown:?} shows what stands outside"))
    } else if opened {
        Some(format!("{place}: {shown:?} opens something outside"))
    } else if !output.code.is_some_and(|code| (0..=4).contains(&code)) {
        Some(format!("{place}: {shown:?} ends with {:?}: {}", output.code, output.err()))
    } else {
        None
    }
}

#[test]
fn hostile_paths_lead_nowhere() {
    let number = hostile_paths(&CanaryProject::new()).len();
    assert!(number >= 200, "only {number} paths");
    let numbers: Vec<usize> = (0..number).collect();
    let wrong: Vec<String> = run_in_parallel(&numbers, |share| {
        let scene = Scene::new();
        let paths = hostile_paths(&scene.project);
        let mut wrong = Vec::new();
        for path in share.iter().map(|at| &paths[*at]) {
            for (place, name) in CONFINED {
                let Some(output) = name(&scene, path) else { continue };
                wrong.extend(find_objection(place, path, &output, scene.watch.has_seen_access()));
            }
            for (place, name) in OUTRIGHT.iter().filter(|_| !path.contains('\0')) {
                let output = name(&scene, path);
                let told = output.err().contains("warning[InputOutside]");
                if told {
                    assert!(["-f", "--artifact"].contains(place), "{place}: {path:?}");
                } else {
                    wrong.extend(find_objection(place, path, &output, false));
                }
            }
            // A person may have asked for the access in these places.
            scene.watch.has_seen_access();
        }
        wrong
    })
    .concat();
    assert!(wrong.is_empty(), "{} escapes:\n{}", wrong.len(), wrong.join("\n"));
}

/// The same places read files inside the project, so a search without a result means something.
#[test]
fn harmless_paths_are_read() {
    let scene = Scene::new();
    let read: BTreeSet<&str> = CONFINED
        .iter()
        .filter(|(_, name)| name(&scene, "in/ok.md").is_some_and(|output| output.out().contains(INSIDE)))
        .map(|(place, _)| *place)
        .collect();
    let wanted = [
        "include, by a value",
        "optional include, by a value",
        "include, in the template",
        "document of a request",
        "folders of the configuration",
    ];
    assert_eq!(read, BTreeSet::from(wanted));
    let session = CONFINED[4].1(&scene, "in").unwrap();
    assert_eq!((session.code, session.out()), (Some(0), format!("{INSIDE}\n\nx")));
    let hard = CONFINED[0].1(&scene, "links/hard").unwrap();
    assert_eq!((hard.code, hard.out()), (Some(0), format!("got: {INSIDE}")));
    let outright = OUTRIGHT[0].1(&scene, "../outside/canary.md");
    assert!(has_leak(&outright) && outright.err().contains("warning[InputOutside]"), "{outright:?}");
    #[cfg(target_os = "linux")]
    assert!(scene.watch.has_seen_access());
}

/// Waiting for any of these would take forever, so the end of the command is the proof. The time is reported.
#[test]
fn non_files_are_refused_at_once() {
    let scene = Scene::new();
    let mut slowest = Duration::ZERO;
    let mut refused = |what: String, output: CommandOutput, error: &str| {
        slowest = slowest.max(output.took);
        let line = output.err().lines().next().unwrap_or_default().to_owned();
        assert!(output.code == Some(3) && line.starts_with(error), "{what}: {:?} {line}", output.code);
    };
    for path in SPECIAL.into_iter().filter(|path| scene.project.path().join(path).symlink_metadata().is_ok())
    {
        for (place, name) in &CONFINED[..4] {
            refused(format!("{place}: {path}"), name(&scene, path).unwrap(), "error[SourceUnreadable]");
        }
        for (flag, name) in &OUTRIGHT[..2] {
            // Inside the project the path is a source, outside it is an explicitly named file.
            let output = name(&scene, path);
            let named = output.err().starts_with("error[InputUnreadable]");
            let error = if named { "error[InputUnreadable]" } else { "error[SourceUnreadable]" };
            refused(format!("{flag}: {path}"), output, error);
        }
    }
    for flag in ["--set-file=a=", "--context-file=a=", "--request=", "--tools="] {
        for path in ["links/fifo", "links/zero", "/dev/zero", "/dev/tty"] {
            let output = scene.project.run(["compose", "-p", "plan", "x", &format!("{flag}{path}")]);
            refused(format!("{flag}{path}"), output, "error[InputUnreadable]");
        }
    }
    crate::print_measurement(&format!(
        "FIFOs, devices and sockets: refused after {slowest:.0?} at most (wanted: 1 s)"
    ));
}

/// A repository whose own files and folders are links to places outside.
#[test]
fn links_of_repository_are_not_followed() {
    let linked = [
        ".callsheet",
        ".callsheet/config.toml",
        ".callsheet/templates",
        ".callsheet/templates/system",
        ".callsheet/templates/system/BASE-plan.md",
        ".callsheet/recipes",
        ".callsheet/recipes/unified.toml",
        ".callsheet/agents/claude.toml",
        ".callsheet/prompts/agents/coder.md",
        ".callsheet/memory/profile.md",
        ".gitignore",
        "README.md",
        "AGENTS.md",
        "agentd/project.md",
        "tasks.md",
        "src",
    ];
    let commands: [&[&str]; 9] = [
        &["compose", "-p", "plan", "-a", "claude", "x"],
        &["compose", "-r", "layers", "x"],
        &["compose", "--role", "coder", "--session", ".", "--missing", "empty", "x"],
        &["compose", "-p", "plan", "-f", ".", "x"],
        &["check"],
        &["templates", "list"],
        &["templates", "show", "system/BASE-plan"],
        &["templates", "eject", "system/BASE-plan"],
        &["init"],
    ];
    for path in linked {
        let project = CanaryProject::new();
        for name in [
            "system/BASE-plan.md",
            "BASE-plan.md",
            "unified.toml",
            "config.toml",
            "templates/system/BASE-plan.md",
        ] {
            project.write_beside(&format!("outside/{name}"), format!("{CANARY}\n"));
        }
        let is_dir = !path.rsplit('/').next().unwrap().contains('.') || path == ".callsheet";
        project.link(project.beside(if is_dir { "outside" } else { "outside/canary.md" }), path);
        let watch = Watch::new(&project.beside("outside"));
        for args in commands {
            let output = project.run(args);
            let wrong = find_objection(path, &args.join(" "), &output, watch.has_seen_access());
            // 70: the project's folder leads elsewhere, so nothing is written there.
            assert!(wrong.is_none() || output.code == Some(70), "{}", wrong.unwrap());
            assert!(!has_leak(&output));
        }
    }
}

/// The judges object to a program that opens any path that it is given.
#[test]
fn careless_program_is_detected() {
    let scene = Scene::new();
    let mut seen = (0, 0);
    for path in hostile_paths(&scene.project)
        .iter()
        .filter(|path| !SPECIAL.contains(&path.as_str()) && !path.contains("/dev/"))
    {
        let mut careless = Command::new("cat");
        careless.current_dir(scene.project.path()).arg("--").arg(path.replace('\0', ""));
        let output = run_for_bytes(&mut careless);
        let opened = scene.watch.has_seen_access();
        seen.0 += usize::from(has_leak(&output));
        seen.1 += usize::from(opened);
        assert!(!has_leak(&output) || find_objection("cat", path, &output, false).is_some());
    }
    let watched = if cfg!(target_os = "linux") { seen.1 } else { 30 };
    assert!(seen.0 >= 30 && watched >= 30, "{seen:?}");
}
