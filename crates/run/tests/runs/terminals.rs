//! Tests lines typed into tmux terminals: with programs that only look like agents, and with the real ones on
//! the mock model.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use callsheet_core::delivery::{DeliveryAction, DeliveryContext, by_file_line, plan_delivery};
use callsheet_core::library::agent::{Agent, DeliveryMethod, TerminalDialog, TerminalSpec};
use callsheet_core::library::layout::Layout;
use callsheet_core::{Builtin, Library, find_agent};
use callsheet_run::{
    PerformError, PerformOptions, PerformOutcome, StopFlag, TerminalError, TerminalOptions, Tmux, TmuxPane,
    TmuxServer, perform,
};
use callsheet_testing::{Cli, Room, Script, Step, git, on_loopback, report_missing};

use crate::support::{AGENT, assert_nothing_left, new_mark};

pub(crate) fn has_tmux() -> bool {
    let there = Command::new("tmux").arg("-V").output().is_ok();
    if !there {
        report_missing("terminals: tmux is not installed");
    }
    there
}

/// Describes a program that has an input field and prints each line that it gets.
fn screen() -> TerminalSpec {
    TerminalSpec {
        ready: vec!["ready".into()],
        composer: ">".into(),
        settle_ms: 200,
        dialogs: vec![TerminalDialog {
            name: "trust".into(),
            shows: vec!["Trust?".into()],
            todo: "answer".into(),
        }],
        ..TerminalSpec::default()
    }
}

struct Own {
    tmux: Tmux,
    pane: TmuxPane,
}

impl Own {
    fn open(name: &str, script: &str) -> Self {
        let tmux = Tmux::new(TmuxServer::Own(format!("callsheet-test-{name}-{}", std::process::id())));
        let argv = ["sh", "-c", script, name].map(str::to_owned);
        let pane = tmux.open(&argv, &BTreeMap::new(), Path::new("/")).unwrap();
        Self { tmux, pane }
    }

    fn ready(&self, within_ms: u64) -> Result<(), TerminalError> {
        self.tmux.wait_until_ready(
            &self.pane,
            &screen(),
            Duration::from_millis(within_ms),
            &StopFlag::default(),
        )
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.tmux.close(&self.pane, Duration::from_millis(300)));
    }
}

const LINE: &str = "Read and follow the instructions in /tmp/a b/$(touch x)/C-c/prompt_1.md";

#[test]
fn line_is_sent_with_one_enter() {
    if !has_tmux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log").display().to_string();
    let script = format!(
        "echo ready; while printf '> '; read -r line; do printf '%s|' \"$line\" >> '{log}'; printf '\\033[2J\\033[Hready\\n'; done"
    );
    let own = Own::open("line", &script);
    own.ready(10_000).unwrap();
    let wide = format!("{LINE} {}", "x".repeat(300));
    for line in [LINE, &wide] {
        assert_eq!(own.tmux.type_line(&own.pane, &screen(), line), Ok(1));
    }
    assert_eq!(fs::read_to_string(log).unwrap(), format!("{LINE}|{wide}|"));
    // Anything but one line is not typed.
    for line in ["a\nb", "a\rb", "x\u{1b}[201~", ""] {
        assert!(own.tmux.type_line(&own.pane, &screen(), line).is_err());
    }
}

#[test]
fn dialogs_get_no_keys() {
    if !has_tmux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log").display().to_string();
    // The input field is drawn first, as Codex does it.
    let script = format!(
        "echo ready; printf '> '; sleep 0.1; echo; echo 'Trust? 1. Yes 2. Quit'; printf '> '; cat > '{log}'"
    );
    let own = Own::open("dialog", &script);
    let dialog = Err(TerminalError::Dialog { name: "trust".into(), todo: "answer".into() });
    assert_eq!(own.ready(10_000), dialog);
    assert_eq!(own.tmux.type_line(&own.pane, &screen(), LINE), dialog.map(|()| 1));
    assert_eq!(fs::read_to_string(log).unwrap(), "");
}

/// A dialog can appear after the line was pasted: then it would get the Enter.
#[test]
fn dialog_after_paste_gets_no_enter() {
    if !has_tmux() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log").display().to_string();
    let script = format!(
        "stty -icanon -echo min 1; printf 'ready\\n> '; while :; do c=$(dd bs=1 count=1 2>/dev/null; echo x); c=${{c%x}}; \
         printf '%s' \"$c\"; [ \"$c\" = Z ] && break; done; printf '\\nTrust? 1. Yes 2. Quit\\n'; cat > '{log}'"
    );
    let own = Own::open("late", &script);
    own.ready(10_000).unwrap();
    let dialog = Err(TerminalError::Dialog { name: "trust".into(), todo: "answer".into() });
    assert_eq!(own.tmux.type_line(&own.pane, &screen(), "Read the file Z"), dialog);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(fs::read_to_string(log).unwrap(), "");
}

#[test]
fn unready_pane_gets_no_line() {
    if !has_tmux() {
        return;
    }
    let dead = Own::open("dead", "echo ready; printf '> '; exit 3");
    let begun = std::time::Instant::now();
    while dead.tmux.is_pane_alive(&dead.pane) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it ends");
    }
    assert!(matches!(dead.ready(5000), Err(TerminalError::Dead { .. })));
    assert!(matches!(dead.tmux.type_line(&dead.pane, &screen(), LINE), Err(TerminalError::Dead { .. })));
    let unknown = Own::open("unknown", "echo 'Pick a colour: 1. red 2. green'; cat");
    assert!(
        matches!(unknown.ready(800), Err(TerminalError::NotReady { screen }) if screen.contains("Pick a colour"))
    );
    let restless = Own::open("restless", "while :; do date +%N; echo ready; printf '> '; sleep 0.05; done");
    assert!(matches!(restless.ready(1000), Err(TerminalError::NotReady { .. })));
    // A deaf program shows nothing of the typed line.
    let deaf = Own::open("deaf", "stty -echo; echo ready; printf '> '; sleep 60");
    deaf.ready(10_000).unwrap();
    assert!(matches!(deaf.tmux.type_line(&deaf.pane, &screen(), LINE), Err(TerminalError::NotTyped { .. })));
}

#[test]
fn copy_mode_is_left_alone() {
    if !has_tmux() {
        return;
    }
    let name = format!("callsheet-test-copy-{}", std::process::id());
    let own = Own::open("copy", "echo ready; printf '> '; cat");
    own.ready(10_000).unwrap();
    let copy = Command::new("tmux").args(["-L", &name, "copy-mode", "-t", "%0"]).status().unwrap();
    assert!(copy.success());
    assert_eq!(own.ready(2000), Err(TerminalError::Scrolled));
    assert_eq!(own.tmux.type_line(&own.pane, &screen(), LINE), Err(TerminalError::Scrolled));
}

#[test]
fn lost_enter_is_pressed_again() {
    if !has_tmux() {
        return;
    }
    // It takes the first Enter for a part of the text, and sends at the second.
    let script = "stty -icanon -echo min 1; printf 'ready\\n> '; n=0; while :; do c=$(dd bs=1 count=1 2>/dev/null; echo x); \
                  if [ \"$c\" = '\nx' ]; then n=$((n+1)); [ $n = 2 ] && printf '\\033[2J\\033[Hready\\n> '; else printf '%s' \"${c%x}\"; fi; done";
    let own = Own::open("again", script);
    own.ready(10_000).unwrap();
    assert_eq!(own.tmux.type_line(&own.pane, &screen(), "Read the file"), Ok(2));
}

#[test]
fn pane_is_found_by_name_only() {
    if !has_tmux() {
        return;
    }
    let own = Own::open("find", "echo ready; printf '> '; cat");
    assert_eq!(own.tmux.find_pane("%0").unwrap(), own.pane);
    for target in ["no-such:pane", "-x", "%99", "; kill-server"] {
        assert!(own.tmux.find_pane(target).is_err(), "{target}");
    }
}

#[test]
fn close_ends_stubborn_processes() {
    if !has_tmux() {
        return;
    }
    let mark = new_mark("terminal");
    let own = Own::open(&mark, "trap '' HUP TERM; echo ready; printf '> '; while :; do sleep 1; done");
    own.ready(10_000).unwrap();
    drop(own);
    assert_nothing_left(&mark);
}

/// Returns an agent as it is shipped.
fn load_shipped(cli: Cli) -> Agent {
    find_agent(&Library::new(&Builtin), cli.name(), &Layout::default()).unwrap().1
}

fn plan_opening(room: &Room, cli: Cli, agent: &Agent, number: usize) -> (Vec<DeliveryAction>, String) {
    let folder = room.path().join(format!("run {number}")).display().to_string();
    let by_file =
        by_file_line(&Library::new(&Builtin), &Layout::default(), &format!("{folder}/prompt.md")).unwrap();
    let mut env: BTreeMap<String, String> = room.env(cli).unwrap();
    let program = cli.program().unwrap();
    let path = format!("{}:{}", program.parent().unwrap().display(), env["PATH"]);
    env.insert("PATH".into(), path);
    let worktree = room.project().display().to_string();
    let how = DeliveryContext {
        by: Some(DeliveryMethod::Terminal),
        worktree,
        folder,
        by_file: by_file.clone(),
        env,
        ..DeliveryContext::default()
    };
    (plan_delivery(agent, "Say something.\n", &how).unwrap().acts, by_file)
}

fn perform_options(server: &TmuxServer) -> PerformOptions {
    PerformOptions {
        guard: Some(AGENT.into()),
        terminal: Some(TerminalOptions { server: server.clone(), ready_within: Duration::from_secs(60) }),
        ..PerformOptions::new("/".into())
    }
}

/// Answers the questions that the CLI would ask at its first start.
fn answer_questions(room: &Room, cli: Cli) {
    let project = room.project().canonicalize().unwrap().display().to_string();
    match cli {
        Cli::Claude => {
            let answers = format!(
                r#"{{"hasCompletedOnboarding":true,"theme":"dark","projects":{{"{project}":{{"hasTrustDialogAccepted":true}}}},
                "customApiKeyResponses":{{"approved":["test-key"],"rejected":[]}}}}"#
            );
            fs::write(room.home().join(".claude.json"), answers).unwrap();
        }
        _ => {
            room.env(cli).unwrap();
            let config = room.home().join(".codex/config.toml");
            let text = fs::read_to_string(&config).unwrap();
            fs::write(&config, format!("{text}\n[projects.\"{project}\"]\ntrust_level = \"trusted\"\n"))
                .unwrap();
        }
    }
}

/// Returns how often the model got exactly this line at the beginning of a turn.
fn count_turns(room: &Room, line: &str) -> usize {
    let requests = room.mock.requests();
    let begun = requests.iter().filter(|request| request.answer == "step 0");
    begun.filter(|request| request.user_texts().iter().rev().any(|text| text == line)).count()
}

fn check_delivery(cli: Cli) {
    let deliveries = if env::var_os("CALLSHEET_LONG").is_some() { 50 } else { 5 };
    let room = Room::new(Script::new().on_marker("Read and follow", [Step::text("I did.")])).unwrap();
    let agent = load_shipped(cli);
    answer_questions(&room, cli);
    let server = TmuxServer::Own(format!("callsheet-test-{}-{}", cli.name(), std::process::id()));
    let mut pane: Option<TmuxPane> = None;
    let mut lines: Vec<String> = Vec::new();
    for number in 0..deliveries {
        let (mut acts, line) = plan_opening(&room, cli, &agent, number);
        if cli == Cli::Codex && number == 0 {
            // Writing its configuration again removed the answers.
            answer_questions(&room, cli);
        }
        if pane.is_some() {
            // The agent is running already: only the next prompt follows.
            acts.retain(|act| !matches!(act, DeliveryAction::Open { .. }));
            for act in &mut acts {
                if let DeliveryAction::Await { pane, .. } | DeliveryAction::Type { pane, .. } = act {
                    *pane = Some("%0".into());
                }
            }
        }
        match perform(&acts, "Say something.\n", &perform_options(&server), &mut |_| {}) {
            Ok(PerformOutcome::Typed { pane: typed, .. }) => pane = Some(typed),
            other => panic!("{number}: {other:?}"),
        }
        lines.push(line);
        let begun = Instant::now();
        while count_turns(&room, &lines[number]) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{number} did not arrive");
            thread::sleep(Duration::from_millis(50));
        }
    }
    let begun = room.mock.requests().iter().filter(|request| request.answer == "step 0").count();
    Tmux::new(server).close(&pane.unwrap(), Duration::from_secs(2)).unwrap();
    assert_eq!(begun, deliveries, "each line was sent once");
    assert_nothing_left(&room.path().display().to_string());
}

#[test]
fn claude_gets_every_line_once() {
    if has_tmux() {
        on_loopback(&[Cli::Claude], || check_delivery(Cli::Claude));
    }
}

#[test]
fn codex_gets_every_line_once() {
    if has_tmux() {
        on_loopback(&[Cli::Codex], || check_delivery(Cli::Codex));
    }
}

/// Checks that a CLI shows this dialog if it was not answered before, and that nothing is typed into it.
fn check_dialog(cli: Cli, prepare: impl FnOnce(&Room), expected: &str) {
    let room = Room::new(Script::new().on_marker("Read", [Step::text("I did.")])).unwrap();
    let agent = load_shipped(cli);
    let (acts, _) = plan_opening(&room, cli, &agent, 0);
    prepare(&room);
    let server = TmuxServer::Own(
        format!("callsheet-test-{}-{expected}-{}", cli.name(), std::process::id()).replace(' ', "-"),
    );
    let result = perform(&acts, "x", &perform_options(&server), &mut |_| {});
    match result {
        Err(PerformError::Terminal(TerminalError::Dialog { name, .. })) => assert_eq!(name, expected),
        other => panic!("{expected}: {other:?}"),
    }
    assert!(room.mock.requests().iter().all(|request| !request.answer.starts_with("step ")));
    assert_nothing_left(&room.path().display().to_string());
}

#[test]
fn dialogs_of_claude_are_known() {
    if !has_tmux() {
        return;
    }
    on_loopback(&[Cli::Claude], || {
        let answers = r#"{"hasCompletedOnboarding":true,"theme":"dark","customApiKeyResponses":{"approved":["test-key"],"rejected":[]}}"#;
        check_dialog(
            Cli::Claude,
            |room| fs::write(room.home().join(".claude.json"), answers).unwrap(),
            "trust",
        );
        let onboarded = |room: &Room| {
            let project = room.project().canonicalize().unwrap().display().to_string();
            let answers = format!(
                r#"{{"hasCompletedOnboarding":true,"theme":"dark","projects":{{"{project}":{{"hasTrustDialogAccepted":true}}}}}}"#
            );
            fs::write(room.home().join(".claude.json"), answers).unwrap();
        };
        check_dialog(Cli::Claude, onboarded, "API key");
    });
}

#[test]
fn dialogs_of_codex_are_known() {
    if !has_tmux() {
        return;
    }
    on_loopback(&[Cli::Codex], || {
        // Only a repository can name commands to run.
        check_dialog(Cli::Codex, |room| drop(git(&room.project(), &["init", "-q"])), "trust");
        let old_model = |room: &Room| {
            answer_questions(room, Cli::Codex);
            let config = room.home().join(".codex/config.toml");
            let text =
                fs::read_to_string(&config).unwrap().replace("model = \"mock-model\"", "model = \"gpt-5.5\"");
            fs::write(&config, text).unwrap();
        };
        check_dialog(Cli::Codex, old_model, "new model");
    });
}
