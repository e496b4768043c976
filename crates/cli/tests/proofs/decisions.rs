//! Deciding: no process below a guard decides for a person, regardless of changes to its environment,
//! session, terminal or program. A person decides at a terminal or with `--yes`, and the record shows which.

use std::fs;
use std::process::Command;

use callsheet_testing::{CommandOutput, run_command, wait_until};
use serde_json::Value;

use crate::not_tested;
use crate::project::CanaryProject;

const BIN: &str = env!("CARGO_BIN_EXE_callsheet");

/// Decisions of a person, and commands that change or remove such decisions. `$RUN` has a violation.
const DECISIONS: [&str; 12] = [
    "trust --yes",
    "trust",
    "trust --revoke",
    "decide $RUN leak.txt --approve --yes",
    "decide $RUN leak.txt --reject",
    "flow decide approve --yes",
    "flow decide changes more",
    "prefs add coder 'Approve everything'",
    "prefs remove coder 'Ask first'",
    "prefs approve --yes",
    "gc --keep-last 1",
    "import $T/export.jsonl",
];

/// The decisions that a ledger records.
const LEDGER_DECISIONS: [&str; 4] = [
    "decide $RUN leak.txt --approve --yes",
    "flow decide approve --yes",
    "gc --keep-last 1",
    "import $T/export.jsonl",
];

/// Ways in which a process below an agent starts the decisions: `$T/all.sh NAME`. Those in the background end
/// later.
const WAYS: [(&str, &str); 18] = [
    ("plain", "sh $T/all.sh plain"),
    ("unset", "env -u CALLSHEET_RUN -u CALLSHEET_GUARDED sh $T/all.sh unset"),
    ("clean", "env -i HOME=\"$HOME\" PATH=\"$PATH\" T=\"$T\" BIN=\"$BIN\" RUN=\"$RUN\" sh $T/all.sh clean"),
    ("session", "setsid -w sh $T/all.sh session"),
    ("hangup", "nohup sh $T/all.sh hangup"),
    ("orphan", "(setsid sh -c 'sh $T/all.sh orphan' > /dev/null 2>&1 &)"),
    ("twice", "(setsid sh -c '(setsid sh $T/all.sh twice &) ; exit' > /dev/null 2>&1 &)"),
    ("copy", "cp $BIN $T/editor; BIN=$T/editor sh $T/all.sh copy"),
    ("hardlink", "ln $T/editor $T/other; BIN=$T/other sh $T/all.sh hardlink"),
    ("renamed", "bash -c 'exec -a init sh $T/all.sh renamed'"),
    ("linked-home", "ln -s \"$HOME\" $T/linked; HOME=$T/linked sh $T/all.sh linked-home"),
    ("dotted-home", "HOME=\"$HOME/.config/..\" sh $T/all.sh dotted-home"),
    ("proc-home", "HOME=\"/proc/self/root$HOME\" sh $T/all.sh proc-home"),
    ("state", "env XDG_STATE_HOME=\"$HOME/.local/../.local/state\" HOME=$T/nowhere sh $T/all.sh state"),
    ("new-home", "HOME=\"$HOME/made/..\" sh $T/all.sh new-home"),
    ("tmux-variables", "TMUX=/tmp/x,1,0 TMUX_PANE=%0 sh $T/all.sh tmux-variables"),
    ("elsewhere", "cd / && env OLDPWD=/ sh $T/all.sh elsewhere"),
    ("no-streams", "sh $T/all.sh no-streams < /dev/null > /dev/null 2> /dev/null"),
];

/// Further ways, by programs that not every machine has: the name, a probe that checks whether it works here,
/// and the way.
const MORE_WAYS: [(&str, &str, &str); 4] = [
    ("script", "script -qec true /dev/null", "script -qec \"sh $T/all.sh script\" /dev/null"),
    ("tmux", "tmux -V", "tmux -L own-$$ -f /dev/null new-session -d 'sh $T/all.sh tmux'"),
    (
        "pid-namespace",
        "unshare -rpf --mount-proc true",
        "unshare -rpf --mount-proc sh $T/all.sh pid-namespace",
    ),
    ("user-namespace", "unshare -r true", "unshare -r sh $T/all.sh user-namespace"),
];

fn git(project: &CanaryProject, args: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(project.path()).args(["-c", "user.name=T", "-c", "user.email=t@t"]).args(args);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    assert!(command.status().unwrap().success(), "{args:?}");
}

fn json(output: &CommandOutput) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| unreachable!("{} {}", output.out(), output.err()))
}

fn exit_and_error_code(output: &CommandOutput) -> (Option<i32>, String) {
    let err = output.err();
    let line = err.lines().rev().find(|line| line.starts_with('{')).unwrap_or("{}");
    let error: Value = serde_json::from_str(line).unwrap();
    (output.code, error["code"].as_str().unwrap_or_default().to_owned())
}

/// Creates a project with a violation to decide about, a flow that waits, and a preference.
fn create_open_decisions() -> (CanaryProject, String) {
    let project = CanaryProject::new();
    git(&project, &["init", "-q", "-b", "main"]);
    project.write("src/a", "a");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-qm", "first"]);
    let ran = project.run(["--json", "-q", "run", "--write", "src/**", "x", "--", "touch", "leak.txt"]);
    let run = json(&ran)["run"].as_str().unwrap().to_owned();
    assert_eq!(project.run(["-q", "flow", "start", "sdd", "Add", "--", "true"]).code, Some(1));
    assert_eq!(project.run(["-q", "prefs", "add", "coder", "Ask first"]).code, Some(0));
    let exported = project.run(["export"]);
    fs::create_dir_all(project.beside("t")).unwrap();
    fs::write(project.beside("t/export.jsonl"), &exported.stdout).unwrap();
    let mut all = String::from("cd \"$P\" 2> /dev/null || cd \"$(cat $T/project)\"\n");
    for (number, decision) in DECISIONS.iter().enumerate() {
        all += &format!(
            "\"$BIN\" --json {decision} < /dev/null > /dev/null 2> $T/err.$1.{number}; echo $? > $T/rc.$1.{number}\n"
        );
    }
    all += "echo > $T/done.$1\n";
    fs::write(project.beside("t/all.sh"), all).unwrap();
    fs::write(project.beside("t/project"), project.path().display().to_string()).unwrap();
    (project, run)
}

/// Returns a command with the variables that the scripts use.
fn command(project: &CanaryProject, run: &str) -> Command {
    let mut command = project.command();
    command.env("T", project.beside("t")).env("BIN", BIN).env("RUN", run).env("P", project.path());
    command.env("TMUX_TMPDIR", project.beside("t"));
    command
}

/// Asserts that every decision started in this way was refused.
fn assert_refused(project: &CanaryProject, way: &str) {
    wait_until(way, || project.beside(&format!("t/done.{way}")).exists());
    for (number, decision) in DECISIONS.iter().enumerate() {
        assert_decision_refused(project, way, number, decision);
    }
}

fn assert_decision_refused(project: &CanaryProject, way: &str, number: usize, decision: &str) {
    let read = |name: &str| fs::read_to_string(project.beside(&format!("t/{name}.{way}.{number}"))).unwrap();
    let (rc, err) = (read("rc"), read("err"));
    let refused = rc == "9\n" && err.contains("\"person/below-guard\"");
    assert!(refused, "{way}: {decision}: {rc}{err}");
}

/// Asserts that nothing was decided.
fn assert_undecided(project: &CanaryProject, run: &str) {
    assert_eq!(json(&project.run(["--json", "trust", "--show"]))["trusted"], false);
    let shown = json(&project.run(["--json", "show", run]));
    assert_eq!(shown["result"]["violations"][0]["decision"], "pending", "{shown}");
    assert_eq!(json(&project.run(["--json", "flow", "status"]))["items"][0]["state"], "waiting");
    assert_eq!(project.run(["prefs", "list"]).out(), "coder: Ask first\n");
}

/// Returns the ways that work on this machine.
fn list_working_ways() -> Vec<(&'static str, &'static str)> {
    let mut ways = WAYS.to_vec();
    for (name, probe, way) in MORE_WAYS {
        let works =
            Command::new("sh").args(["-c", probe]).output().is_ok_and(|output| output.status.success());
        if works {
            ways.push((name, way));
        } else {
            not_tested(&format!("deciding below a guard through {name}: `{probe}` does not work here"));
        }
    }
    ways
}

#[test]
fn agent_decides_nothing() {
    let (project, run) = create_open_decisions();
    let ways = list_working_ways();
    let mut agent = String::from("printf '[checks]\\nbuild = \"true\"\\n' > $P/.callsheet/config.toml\n");
    for (name, way) in &ways {
        agent += &format!("{way}\nwhile ! [ -e $T/done.{name} ]; do sleep 0.02; done\n");
    }
    // The same ledger from another home that tries to adopt it first, and without a home.
    agent +=
        "HOME=$T/someone $BIN -C $P --ledger \"$LEDGER\" ledger adopt --yes \"$ID\" > $T/adopt.out 2>&1\n";
    for (name, home) in
        [("other-home", "env -u CALLSHEET_RUN HOME=$T/someone"), ("no-home", "env -u CALLSHEET_RUN -u HOME")]
    {
        for (number, decision) in LEDGER_DECISIONS.iter().enumerate() {
            agent += &format!(
                "{home} $BIN -C $P --json --ledger \"$LEDGER\" {decision} 2> $T/err.{name}.{number}; \
                 echo $? > $T/rc.{name}.{number}\n"
            );
        }
    }
    // Another state directory belongs to another user.
    agent += "HOME=$T/someone $BIN -C $P trust --yes > $T/someone.out 2>&1; echo $? > $T/someone.rc\n";
    fs::write(project.beside("t/agent.sh"), agent).unwrap();
    let script = project.beside("t/agent.sh").display().to_string();
    let ledger = json(&project.run(["--json", "ledger", "path"]));
    let mut started = command(&project, &run);
    started.env("LEDGER", ledger["place"].as_str().unwrap()).env("ID", ledger["ledger"].as_str().unwrap());
    started.args(["--json", "-q", "run", "x", "--", "sh", &script]);
    let ran = run_command(&mut started);
    assert_eq!(ran.code, Some(0), "{} {}", ran.out(), ran.err());
    for (name, _) in &ways {
        assert_refused(&project, name);
    }
    let adopted = fs::read_to_string(project.beside("t/adopt.out")).unwrap();
    assert!(adopted.contains("error[PersonBelowGuard]"), "{adopted}");
    for (number, decision) in LEDGER_DECISIONS.iter().enumerate() {
        let read = |name: &str| fs::read_to_string(project.beside(&format!("t/{name}.{number}"))).unwrap();
        let (rc, err) = (read("rc.other-home"), read("err.other-home"));
        assert!(rc == "10\n" && err.contains("\"ledger/foreign\""), "other-home: {decision}: {rc}{err}");
        // Without a state directory, no ledger is known.
        let rc = read("rc.no-home");
        assert!(["8\n", "9\n", "10\n"].contains(&rc.as_str()), "no-home: {decision}: {rc}");
    }
    assert_undecided(&project, &run);
    assert_eq!(fs::read_to_string(project.beside("t/someone.rc")).unwrap(), "0\n");
}

#[test]
fn killed_guard_still_counts() {
    let (project, run) = create_open_decisions();
    project.write(".callsheet/config.toml", "");
    let agent = "printf '[checks]\\nbuild = \"true\"\\n' > $P/.callsheet/config.toml\n\
                 (env -i HOME=\"$HOME\" PATH=\"$PATH\" T=\"$T\" BIN=\"$BIN\" RUN=\"$RUN\" P=\"$P\" \
                 setsid sh -c 'sleep 1; sh $T/all.sh killed' > /dev/null 2>&1 &)\n\
                 read -r _ _ _ ours _ < /proc/$PPID/stat; kill -STOP $ours; kill -9 $PPID $ours; sleep 60\n";
    fs::write(project.beside("t/agent.sh"), agent).unwrap();
    let script = project.beside("t/agent.sh").display().to_string();
    // callsheet is killed too: otherwise it ends the processes that the guard leaves behind.
    let ran = run_command(command(&project, &run).args(["--json", "-q", "run", "x", "--", "sh", &script]));
    assert_eq!(ran.code, None, "{}", ran.out());
    assert_refused(&project, "killed");
    assert_undecided(&project, &run);
}

#[test]
fn pane_decides_nothing() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return not_tested("deciding in a terminal: tmux is not installed");
    }
    let (project, run) = create_open_decisions();
    let ways: [(&str, &str); 5] = [
        ("plain", "sh $T/all.sh plain"),
        (
            "clean",
            "env -i HOME=\"$HOME\" PATH=\"$PATH\" T=\"$T\" BIN=\"$BIN\" RUN=\"$RUN\" sh $T/all.sh clean",
        ),
        ("orphan", "(setsid sh -c 'sh $T/all.sh orphan' > /dev/null 2>&1 &)"),
        ("untold", "env -u TMUX -u TMUX_PANE -u CALLSHEET_RUN sh $T/all.sh untold"),
        ("window", "tmux -L callsheet-$CALLSHEET_RUN new-window -d 'sh $T/all.sh window'"),
    ];
    let mut agent = String::from("echo ready\nprintf '> '\nread -r line\nprintf '\\033[2J\\033[Hworks\\n'\n");
    agent += "printf '[checks]\\nbuild = \"true\"\\n' > $P/.callsheet/config.toml\n";
    for (name, way) in ways {
        agent += &format!("{way}\nwhile ! [ -e $T/done.{name} ]; do sleep 0.02; done\n");
    }
    agent += "sleep 600\n";
    fs::write(project.beside("t/agent.sh"), agent).unwrap();
    let script = project.beside("t/agent.sh").display().to_string();
    project.write_beside(
        "home/.config/callsheet/agents/shell.toml",
        format!(
            "name = \"Shell\"\n[start]\nprogram = \"sh\"\nargs = [\"{script}\"]\n[prompt]\nby = [\"terminal\"]\n\
             [terminal]\nargs = [\"{script}\"]\nready = [\"ready\"]\ncomposer = \">\"\nsettle_ms = 200\n"
        ),
    );
    let ran =
        run_command(command(&project, &run).args(["--json", "-q", "run", "-a", "shell", "--terminal", "x"]));
    assert_eq!(ran.code, Some(0), "{} {}", ran.out(), ran.err());
    for (name, _) in ways {
        assert_refused(&project, name);
    }
    assert_undecided(&project, &run);
    let typed = json(&ran)["run"].as_str().unwrap().to_owned();
    let stopped = run_command(command(&project, &run).args(["--json", "stop", &typed]));
    assert_eq!(json(&stopped)["end"], "stopped", "{}", stopped.err());
}

#[test]
fn decision_record_shows_method() {
    let (project, run) = create_open_decisions();
    project.write(".callsheet/config.toml", "[checks]\nbuild = \"true\"\n");
    // Without a terminal, only with `--yes`.
    let required = (Some(9), "person/required".to_owned());
    assert_eq!(
        exit_and_error_code(&project.run(["--json", "decide", &run, "leak.txt", "--approve"])),
        required
    );
    assert_eq!(exit_and_error_code(&project.run(["--json", "flow", "decide", "approve"])), required);
    assert_eq!(
        exit_and_error_code(&project.run(["--json", "trust"])),
        (Some(10), "trust/required".to_owned())
    );
    assert_undecided(&project, &run);
    let decided = json(&project.run(["--json", "decide", &run, "leak.txt", "--approve", "--yes"]));
    assert_eq!(decided["by"], "yes");
    assert_eq!(json(&project.run(["--json", "trust", "--yes"]))["trusted"], true);
    assert_eq!(json(&project.run(["--json", "show", &run]))["decisions"][0]["by"], "yes");
    let told = project.run(["flow", "decide", "reject", "--yes", "-q"]);
    assert_eq!(told.code, Some(1), "{}", told.err());
    let status = json(&project.run(["--json", "flow", "list"]))["items"][0].clone();
    assert_eq!(status["decisions"].as_array().unwrap().last().unwrap()["by"], "yes", "{status}");
    assert!(project.run(["flow", "status", status["name"].as_str().unwrap()]).out().contains("(yes)"));
    // At a terminal, without `--yes`.
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return not_tested("deciding at a terminal: `script` is not installed");
    }
    let ran = project.run(["--json", "-q", "run", "--write", "src/**", "x", "--", "touch", "leak2.txt"]);
    let second = json(&ran)["run"].as_str().unwrap().to_owned();
    let mut typed = Command::new("script");
    let line = format!("{BIN} decide {second} leak2.txt --reject");
    typed.args(["-qec", &line, "/dev/null"]).current_dir(project.path()).env("HOME", project.beside("home"));
    assert_eq!(run_command(&mut typed).code, Some(0));
    assert_eq!(json(&project.run(["--json", "show", &second]))["decisions"][0]["by"], "terminal");
}
