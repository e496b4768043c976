//! Git settings of a repository, a worktree, a submodule and the environment that name programs, tried with
//! every command that calls git. Git never starts any of the programs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use callsheet_run::{Git, ensure_lane_worktree, merge_lane};
use callsheet_testing::{CommandOutput, run_command};

use crate::project::{CanaryProject, run_in_parallel};

/// Settings that make git start a program, each with the value that does so. `@` is a program that leaves a
/// note.
const KEYS: [(&str, &str); 47] = [
    ("filter.x.clean", "@"),
    ("filter.x.smudge", "@"),
    ("filter.x.process", "@"),
    ("filter.lfs.clean", "@"),
    ("filter.lfs.smudge", "@"),
    ("filter.lfs.process", "@"),
    ("diff.x.textconv", "@"),
    ("diff.x.command", "@"),
    ("diff.external", "@"),
    ("merge.x.driver", "@"),
    ("core.fsmonitor", "@"),
    ("core.pager", "@"),
    ("pager.diff", "@"),
    ("pager.ls-files", "@"),
    ("pager.config", "@"),
    ("pager.worktree", "@"),
    ("core.editor", "@"),
    ("sequence.editor", "@"),
    ("core.askPass", "@"),
    ("core.sshCommand", "@"),
    ("core.gitProxy", "@"),
    ("core.alternateRefsCommand", "@"),
    ("credential.helper", "!@"),
    ("credential.https://example.com.helper", "!@"),
    ("alias.diff", "!@"),
    ("alias.ls-files", "!@"),
    ("alias.worktree", "!@"),
    ("gpg.program", "@"),
    ("gpg.ssh.program", "@"),
    ("gpg.x509.program", "@"),
    ("gpg.ssh.defaultKeyCommand", "@"),
    ("commit.gpgSign", "true"),
    ("log.showSignature", "true"),
    ("trailer.x.command", "@"),
    ("trailer.x.cmd", "@"),
    ("interactive.diffFilter", "@"),
    ("uploadpack.packObjectsHook", "@"),
    ("remote.origin.url", "ext::@"),
    ("remote.origin.uploadpack", "@"),
    ("remote.origin.vcs", "x"),
    ("remote.origin.promisor", "true"),
    ("extensions.partialClone", "origin"),
    ("submodule.sub.update", "!@"),
    ("submodule.recurse", "true"),
    ("hook.x.command", "@"),
    ("hook.x.event", "post-checkout"),
    ("hook.x.event", "reference-transaction"),
];

/// Environment variables with the same effect.
const VARIABLES: [&str; 15] = [
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "SSH_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_TEMPLATE_DIR",
];

/// Location of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Repository,
    Worktree,
    Included,
    IncludedIf,
    Submodule,
    Environment,
    Parameters,
    Variables,
    /// The agent writes the settings while it works.
    Meanwhile,
    /// The agent writes the settings into the files of its user.
    UserMeanwhile,
}

const PLACES: [Place; 10] = [
    Place::Repository,
    Place::Worktree,
    Place::Included,
    Place::IncludedIf,
    Place::Submodule,
    Place::Environment,
    Place::Parameters,
    Place::Variables,
    Place::Meanwhile,
    Place::UserMeanwhile,
];

struct Scene {
    project: CanaryProject,
}

fn git(dir: &Path, home: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(dir).env_clear().env("HOME", home).env("PATH", std::env::var("PATH").unwrap());
    command.args(["-c", "user.name=T", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Scene {
    /// Creates a repository in which every attribute names a driver, with a submodule and uncommitted work.
    fn new() -> Self {
        let project = CanaryProject::new();
        let scene = Self { project };
        fs::create_dir(scene.notes_dir()).unwrap();
        for hook in
            ["post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-commit"]
        {
            let path = scene.project.write_beside(&format!("hooks/{hook}"), scene.program(hook));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let inner = scene.project.beside("inner");
        fs::create_dir(&inner).unwrap();
        for (dir, file) in [(inner.as_path(), "deep.txt"), (scene.project.path(), "src/a.txt")] {
            scene.git(dir, &["init", "-q", "."]);
            fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
            fs::write(dir.join(file), "one\n").unwrap();
            fs::write(dir.join("big.bin"), "blob\n").unwrap();
            fs::write(dir.join(".gitattributes"), "*.txt filter=x diff=x merge=x\n*.bin filter=lfs\n")
                .unwrap();
            scene.git(dir, &["add", "-A"]);
            scene.git(dir, &["commit", "-qm", "one"]);
        }
        let url = inner.display().to_string();
        scene.git(scene.project.path(), &["submodule", "--quiet", "add", &url, "sub"]);
        scene.git(scene.project.path(), &["commit", "-qm", "sub"]);
        fs::write(scene.project.path().join("src/a.txt"), "two\n").unwrap();
        fs::write(scene.project.path().join("sub/deep.txt"), "two\n").unwrap();
        scene
    }

    fn git(&self, dir: &Path, args: &[&str]) {
        git(dir, &self.project.beside("home"), args);
    }

    fn notes_dir(&self) -> PathBuf {
        self.project.beside("fired")
    }

    fn program(&self, key: &str) -> String {
        let note = self.notes_dir().join(key.replace(['/', ':'], "_"));
        format!("#!/bin/sh\ntouch {}\ncat\n", note.display())
    }

    /// Returns the settings, each with a program of its own.
    fn settings(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (number, (key, value)) in KEYS.iter().enumerate() {
            let path = self.project.write_beside(&format!("programs/{number}"), self.program(key));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            all.push(((*key).to_owned(), value.replace('@', &path.display().to_string())));
        }
        all.push(("core.hooksPath".into(), self.project.beside("hooks").display().to_string()));
        all
    }

    /// Appends the settings to a configuration file of git.
    fn write(&self, file: &Path, settings: &[(String, String)]) {
        let mut text = fs::read_to_string(file).unwrap_or_default();
        for (key, value) in settings {
            let (section, name) = key.rsplit_once('.').unwrap();
            let section = match section.split_once('.') {
                Some((section, sub)) => format!("{section} \"{sub}\""),
                None => section.to_owned(),
            };
            text += &format!("[{section}]\n\t{name} = \"{value}\"\n");
        }
        fs::write(file, text).unwrap();
    }

    /// Puts the settings in their place. Returns the environment variables and the script of the agent.
    fn arm(&self, place: Place, settings: &[(String, String)]) -> (Vec<(String, String)>, String) {
        let top = self.project.path();
        let config = top.join(".git/config");
        let mut env = Vec::new();
        let mut agent = "echo three > src/a.txt; echo four > sub/deep.txt; echo new > new.txt".to_owned();
        let spare = self.project.beside("spare.config");
        match place {
            Place::Repository => self.write(&config, settings),
            Place::Worktree => {
                self.git(top, &["config", "extensions.worktreeConfig", "true"]);
                self.write(&top.join(".git/config.worktree"), settings);
            }
            Place::Included | Place::IncludedIf => {
                self.write(&spare, settings);
                let key = if place == Place::Included { "include.path" } else { "includeIf.gitdir:/.path" };
                self.git(top, &["config", key, &spare.display().to_string()]);
            }
            Place::Submodule => self.write(&top.join(".git/modules/sub/config"), settings),
            Place::Environment => {
                env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string()));
                for (number, (key, value)) in settings.iter().enumerate() {
                    env.push((format!("GIT_CONFIG_KEY_{number}"), key.clone()));
                    env.push((format!("GIT_CONFIG_VALUE_{number}"), value.clone()));
                }
            }
            Place::Parameters => {
                let all: Vec<String> =
                    settings.iter().map(|(key, value)| format!("'{key}'='{value}'")).collect();
                env.push(("GIT_CONFIG_PARAMETERS".into(), all.join(" ")));
            }
            Place::Variables => {
                self.write(&spare, settings);
                for name in VARIABLES {
                    let path = self.project.write_beside(&format!("programs/{name}"), self.program(name));
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
                    let value = match name {
                        "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" => spare.display().to_string(),
                        "GIT_TEMPLATE_DIR" => self.project.beside("hooks").display().to_string(),
                        _ => path.display().to_string(),
                    };
                    env.push((name.into(), value));
                }
                let trace = self.notes_dir().join("GIT_TRACE").display().to_string();
                env.push(("GIT_TRACE".into(), trace.clone()));
                env.push(("GIT_TRACE2_EVENT".into(), trace));
            }
            Place::Meanwhile | Place::UserMeanwhile => {
                self.write(&spare, settings);
                let file =
                    if place == Place::Meanwhile { config } else { self.project.beside("home/.gitconfig") };
                let modules = top.join(".git/modules/sub/config");
                agent += &format!("; cat {} >> {}", spare.display(), file.display());
                if place == Place::Meanwhile {
                    agent += &format!("; cat {} >> {}", spare.display(), modules.display());
                }
            }
        }
        (env, agent)
    }

    fn run(&self, env: &[(String, String)], args: &[&str]) -> CommandOutput {
        run_command(self.project.command().envs(env.iter().cloned()).args(args))
    }

    /// Returns the names of the programs that were started.
    fn list_started(&self) -> BTreeSet<String> {
        let names = fs::read_dir(self.notes_dir()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }
}

/// All commands that call git, or could.
const COMMANDS: [&[&str]; 10] = [
    &["run", "-q", "--dry-run", "x", "--", "true"],
    &["run", "-q", "--task-id", "T", "x", "--", "sh", "-c", "AGENT"],
    &["retry", "-q", "--force", "last"],
    &["run", "-q", "--worktree", "--task-id", "W", "x", "--", "sh", "-c", "AGENT"],
    &["run", "-q", "--worktree", "--task-id", "W", "y", "--", "sh", "-c", "AGENT"],
    &["status"],
    &["recover"],
    &["compose", "-q", "--record", "-f", "src", "x"],
    &["flow", "start", "sdd", "x", "--", "sh", "-c", "AGENT"],
    &["flow", "status"],
];

fn attack(place: Place, only: Option<usize>) -> (usize, BTreeSet<String>) {
    let scene = Scene::new();
    let mut settings = scene.settings();
    if let Some(only) = only {
        settings = vec![settings[only].clone()];
    }
    let (env, agent) = scene.arm(place, &settings);
    let mut tried = 0;
    for command in COMMANDS {
        let args: Vec<&str> =
            command.iter().map(|word| if *word == "AGENT" { &agent } else { *word }).collect();
        if place == Place::UserMeanwhile {
            // Settings that exist before a run belong to the user.
            let _ = fs::remove_file(scene.project.beside("home/.gitconfig"));
        }
        let output = scene.run(&env, &args);
        let code = output.code;
        // The command ended by itself, and the observation of the run completed.
        assert!(code.is_some_and(|code| code < 100), "{place:?} {args:?}: {code:?} {}", output.err());
        tried += settings.len();
    }
    (tried, scene.list_started())
}

#[test]
fn hostile_settings_start_no_program() {
    // All settings at once; the long form also tries each setting alone.
    let mut attacks: Vec<(Place, Option<usize>)> = PLACES.map(|place| (place, None)).into();
    if crate::is_long() {
        attacks.extend(PLACES.iter().flat_map(|place| (0..=KEYS.len()).map(|only| (*place, Some(only)))));
    }
    let counts = run_in_parallel(&attacks, |part| {
        let mut tried = 0;
        for (place, only) in part {
            let (count, started) = attack(*place, *only);
            assert_eq!(started, BTreeSet::new(), "{place:?} {only:?}");
            tried += count;
        }
        tried
    });
    let tried: usize = counts.into_iter().sum();
    crate::print_measurement(&format!("{tried} settings that name programs, none started"));
}

#[test]
fn lanes_start_no_program() {
    for place in [Place::Repository, Place::Worktree, Place::Included, Place::Submodule] {
        let scene = Scene::new();
        scene.arm(place, &scene.settings());
        let git = Git::open(scene.project.path()).unwrap().unwrap();
        let home = scene.project.beside("lanes");
        let lane = ensure_lane_worktree(&git, &home.join("lock"), &home, "one").unwrap();
        assert_eq!(fs::read_to_string(lane.path.join("src/a.txt")).unwrap(), "two\n", "{place:?}");
        fs::write(lane.path.join("src/a.txt"), "three\n").unwrap();
        fs::write(lane.path.join("new.txt"), "new\n").unwrap();
        assert_eq!(merge_lane(&git, &home, "one", &lane.path).unwrap(), [""; 0], "{place:?}");
        assert_eq!(fs::read_to_string(scene.project.path().join("src/a.txt")).unwrap(), "three\n");
        assert_eq!(fs::read_to_string(scene.project.path().join("new.txt")).unwrap(), "new\n");
        assert_eq!(scene.list_started(), BTreeSet::new(), "{place:?}");
    }
}

/// A git that is called without precautions obeys the same settings.
#[test]
fn plain_git_obeys_hostile_settings() {
    let scene = Scene::new();
    scene.arm(
        Place::Repository,
        &scene.settings().into_iter().filter(|(key, _)| !key.starts_with("remote.")).collect::<Vec<_>>(),
    );
    for args in [&["add", "-A"][..], &["diff", "HEAD"], &["log", "-p"], &["worktree", "add", "../w"]] {
        let mut command = Command::new("git");
        command.current_dir(scene.project.path()).env("HOME", scene.project.beside("home")).args(args);
        command.output().unwrap();
    }
    let started = scene.list_started();
    for key in ["filter.x.process", "core.fsmonitor", "reference-transaction", "diff.x.command"] {
        assert!(started.contains(key), "{key}: {started:?}");
    }
}

/// A clone can contain a folder that is a bare repository. It is treated as a folder.
#[test]
fn embedded_bare_repository_is_ignored() {
    let scene = Scene::new();
    let sub = scene.project.path().join("bare");
    let bare = sub.display().to_string();
    scene.git(scene.project.path(), &["init", "-q", "--bare", &bare]);
    scene.write(&sub.join("config"), &scene.settings());
    for (key, value) in [("core.bare", "false"), ("core.worktree", ".")] {
        scene.git(&sub, &["config", "--file", "config", key, value]);
    }
    fs::write(sub.join(".gitattributes"), "* filter=x\n").unwrap();
    fs::create_dir(sub.join(".callsheet")).unwrap();
    fs::write(sub.join("a.txt"), "one\n").unwrap();
    for dry in [true, false] {
        let mut command = scene.project.command();
        command.current_dir(&sub).args(["run", "--json"]).args(dry.then_some("--dry-run"));
        let output = run_command(command.args(["x", "--", "sh", "-c", "echo two > a.txt"]));
        assert_eq!(output.code, Some(0), "{}", output.err());
    }
    assert_eq!(scene.list_started(), BTreeSet::new());
}

/// A repository's settings can name any folder as its worktree.
#[test]
fn worktree_elsewhere_is_refused() {
    let scene = Scene::new();
    scene.git(
        scene.project.path(),
        &["config", "core.worktree", &scene.project.beside("outside").display().to_string()],
    );
    let output = scene.run(&[], &["run", "-q", "x", "--", "true"]);
    assert_eq!(output.code, Some(3), "{}", output.err());
    assert!(output.err().contains("the repository's settings name another worktree"), "{}", output.err());
}

/// Filters of the user's own configuration still work. Git LFS is such a filter.
#[test]
fn user_filters_still_work() {
    let scene = Scene::new();
    scene.project.write_beside(
        "home/.gitconfig",
        "[filter \"u\"]\n\tsmudge = tr a-z A-Z\n\tclean = tr A-Z a-z\n\trequired = true\n",
    );
    fs::write(scene.project.path().join(".gitattributes"), "*.up filter=u\n").unwrap();
    fs::write(scene.project.path().join("word.up"), "WORD\n").unwrap();
    scene.git(scene.project.path(), &["add", "-A"]);
    scene.git(scene.project.path(), &["commit", "-qm", "up"]);
    let args = ["run", "--json", "--worktree", "--task-id", "U", "x", "--", "cat", "word.up"];
    let output = scene.run(&[], &args);
    assert_eq!(output.code, Some(0), "{}", output.err());
    assert!(
        output.out().contains("WORD") || scene.run(&[], &["show", "last"]).out().contains("WORD"),
        "{}",
        output.out()
    );
    // A file that differs only because of its filter is not a change.
    let result: serde_json::Value = serde_json::from_str(&output.out()).unwrap();
    assert_eq!(result["changed"], serde_json::json!([]));
}

/// Git is started in one place only, and every command is built in one place.
#[test]
fn one_place_starts_git() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for (file, line) in
        crate::links::source_lines(crates, &["app", "cli", "core", "lint", "mcp", "run", "store", "web"])
    {
        if line.contains("Command::new(") || line.contains("= new_command(\"") {
            found.push(format!("{file}: {}", line.trim()));
        }
    }
    let wanted = [
        "run/src/git/mod.rs: let mut command = new_command(\"git\");",
        "run/src/process/environment.rs: let mut command = Command::new(name);",
        "run/src/tmux/mod.rs: let mut command = new_command(\"tmux\");",
    ];
    assert_eq!(found, wanted);
}
