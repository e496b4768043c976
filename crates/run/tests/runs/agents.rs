//! Tests the shipped agents with the real CLIs, headless, on the mock model: the model gets the delivered
//! prompt.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callsheet_core::delivery::receipt::{DeliveryReceipt, ReceiptWatcher};
use callsheet_core::delivery::{DeliveryContext, McpServerCommand, by_file_line, plan_delivery};
use callsheet_core::library::agent::{Agent, DeliveryMethod, PermissionLevel};
use callsheet_core::library::layout::Layout;
use callsheet_core::request::fact::{ChangeKind, EndReason, ViolationReason};
use callsheet_core::request::scope::Scope;
use callsheet_core::{Builtin, Library, find_agent};
use callsheet_run::{
    OutputStream, PerformOptions, PerformOutcome, ProcessEvent, ProcessLimits, WorktreeSnapshot,
    delivered_text, existing_at_paths, perform, transcript_has_prompt,
};
use callsheet_testing::{Cli, Room, Script, Step, git, on_loopback};
use serde_json::json;

use crate::support::{AGENT, assert_nothing_left};

/// The outcome of one run.
struct Run {
    by: DeliveryMethod,
    exit: (EndReason, Option<i32>),
    receipts: Vec<DeliveryReceipt>,
    session: Option<String>,
    said: String,
}

fn load_shipped(cli: Cli) -> Agent {
    find_agent(&Library::new(&Builtin), cli.name(), &Layout::default()).unwrap().1
}

/// Delivers `prompt` as `callsheet run` would.
fn deliver(room: &Room, cli: Cli, prompt: &str, how: DeliveryContext) -> Run {
    let agent = load_shipped(cli);
    let worktree = room.project();
    // Gemini reads no settings from below a world-writable folder.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(room.path().file_name().unwrap());
    let folder = folder.display().to_string();
    let by_file =
        by_file_line(&Library::new(&Builtin), &Layout::default(), &format!("{folder}/prompt.md")).unwrap();
    let mut env: BTreeMap<String, String> = room.env(cli).unwrap();
    let program: PathBuf = cli.program().unwrap();
    env.insert("PATH".into(), format!("{}:{}", program.parent().unwrap().display(), env["PATH"]));
    let found = existing_at_paths(prompt, &worktree);
    let model = (cli == Cli::Gemini).then(|| "gemini-2.5-pro".to_owned());
    let shown = worktree.display().to_string();
    let how = DeliveryContext {
        worktree: shown,
        folder: folder.clone(),
        by_file,
        env,
        at_paths: found,
        model,
        ..how
    };
    let delivery = plan_delivery(&agent, prompt, &how).unwrap();
    let with = PerformOptions {
        guard: Some(AGENT.into()),
        limits: ProcessLimits { deadline: Some(Duration::from_secs(120)), ..ProcessLimits::default() },
        ..PerformOptions::new("/".into())
    };
    let told = delivered_text(&delivery.acts, prompt);
    let mut watch = ReceiptWatcher::new(&agent, &told);
    let (mut receipts, mut said) = (Vec::new(), String::new());
    let performed = perform(&delivery.acts, prompt, &with, &mut |event| match event {
        ProcessEvent::Started { .. } => receipts.push(DeliveryReceipt::Spawned),
        ProcessEvent::Output { stream: OutputStream::Stdout, text, goes_on, .. } => {
            receipts.extend(watch.read_output(&text, goes_on))
        }
        ProcessEvent::Output { text, .. } => said.push_str(&format!("{text}\n")),
        ProcessEvent::Submitted(_) | ProcessEvent::Printed { .. } | ProcessEvent::LeftOut { .. } => {}
    });
    drop(fs::remove_dir_all(folder));
    let session = watch.report.session.clone();
    if let (Some(transcript), Some(session)) = (&agent.transcript, &session)
        && transcript_has_prompt(transcript, session, &how.env, &mut watch)
    {
        receipts.push(DeliveryReceipt::Echoed);
    }
    match performed {
        Ok(PerformOutcome::Ran(exit)) => Run {
            by: delivery.by,
            exit: (exit.ended, exit.code),
            receipts,
            session: watch.report.session,
            said,
        },
        other => panic!("{other:?}"),
    }
}

/// Checks whether the model got this text, in the form in which the agent is known to pass it on.
fn model_got(room: &Room, cli: Cli, text: &str) -> bool {
    let is = |said: &String| match cli {
        Cli::Copilot => {
            said.split_once("</current_datetime>\n\n").is_some_and(|(_, said)| said == text.trim_end())
        }
        _ => said == text,
    };
    room.mock.requests().iter().flat_map(callsheet_testing::Request::user_texts).any(|said| is(&said))
}

const ODD: &str = "  \tleading blanks\r\n\"quotes\" 'and' $HOME `date` \\n %s {{x}} <b>&amp;</b>\n\né 漢字 🙂\n# !x -y @nothere.md\nend \n\n ";

fn check_prompts_arrive(cli: Cli) {
    let long = format!("MARK {}", "0123456789 abcdef\n".repeat(1_000_000 / 18));
    let room = Room::new(Script::new().on_marker("MARK", [Step::text("I did.")])).unwrap();
    git(&room.project(), &["init", "-q"]);
    fs::write(room.project().join("README.md"), "what the readme says").unwrap();
    // `before` is the prefix without which an agent would not take the text as a prompt.
    let odd = format!("{ODD}MARK\n");
    let slash = "/help MARK me";
    let before = if cli == Cli::Claude { "\n" } else { "" };
    for (prompt, before) in
        [(odd.as_str(), ""), ("--version MARK", ""), ("!ls MARK", ""), (slash, before), (&long, "")]
    {
        let beginning: String = prompt.chars().take(20).collect();
        let run = deliver(&room, cli, prompt, DeliveryContext::default());
        assert_eq!((run.by, run.exit), (DeliveryMethod::Stdin, (EndReason::Exited, Some(0))), "{}", run.said);
        assert!(model_got(&room, cli, &format!("{before}{prompt}")), "{beginning:?}");
        assert!(
            run.receipts.contains(&DeliveryReceipt::Accepted)
                && !run.receipts.contains(&DeliveryReceipt::Acting)
        );
        // Gemini exits before all of its output is read, so a long echo can be lost.
        // opencode repeats no prompt.
        if cli != Cli::Opencode && (prompt.len() < 60_000 || cli != Cli::Gemini) {
            assert!(run.receipts.contains(&DeliveryReceipt::Echoed), "{beginning:?} {:?}", run.receipts);
        }
    }
}

fn check_files_not_inserted(cli: Cli, expected: DeliveryMethod) {
    let room = Room::new(Script::new().on_marker("instructions", [Step::text("I did.")])).unwrap();
    git(&room.project(), &["init", "-q"]);
    fs::write(room.project().join("README.md"), "what the readme says").unwrap();
    let run = deliver(&room, cli, "The instructions are in @README.md\n", DeliveryContext::default());
    assert_eq!((run.by, run.exit), (expected, (EndReason::Exited, Some(0))), "{}", run.said);
    assert!(
        room.mock.requests().iter().all(|request| !request.body.to_string().contains("what the readme says"))
    );
}

/// Tests files inside and outside the scope, a session that is resumed, and our server's tool.
fn check_work_and_resume(cli: Cli) {
    let write = |project: &Path, file: &str| {
        let path = project.join(file);
        Step::call(&["Write", "write_file"], json!({ "file_path": path, "content": "x" }))
            .or_call(&["create"], json!({ "path": path, "file_text": "x" }))
            .or_call(&["write"], json!({ "filePath": path, "content": "x" }))
            .or_call(&["exec_command"], json!({ "cmd": format!("echo x > {file}") }))
    };
    let room = Room::from_project(|project| {
        let steps = [write(project, "src/in.txt"), write(project, "out.txt"), Step::text("I did.")];
        Script::new().on("Write.", steps).on("Go on.", [Step::text("I went on.")])
    })
    .unwrap();
    let project = room.project();
    fs::create_dir(project.join("src")).unwrap();
    fs::write(project.join("src/a"), "a").unwrap();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    let before =
        WorktreeSnapshot::take(&project, &callsheet_run::OwnFiles::default(), &Arc::default()).unwrap();
    let scope = Scope { write: vec!["src/**".into()], exclude: vec!["secret/**".into()] };
    // A server that ends at once does no harm.
    let mcp = Some(McpServerCommand { command: "true".into(), args: vec!["mcp".into()] });
    let session = Some("11111111-1111-4111-8111-111111111111".to_owned());
    let how = DeliveryContext {
        scope: scope.clone(),
        permit: PermissionLevel::Edit,
        mcp,
        session,
        ..DeliveryContext::default()
    };
    let run = deliver(&room, cli, "Write.", how);
    assert_eq!(run.exit, (EndReason::Exited, Some(0)), "{}", run.said);
    assert!(run.receipts.contains(&DeliveryReceipt::Acting), "{:?}", run.receipts);
    let seen = before.diff(&scope, &[]);
    let changed: Vec<_> = seen.changed.iter().map(|file| (file.path.as_str(), file.change)).collect();
    assert_eq!(
        changed,
        [("out.txt", ChangeKind::Untracked), ("src/in.txt", ChangeKind::Untracked)],
        "{}",
        run.said
    );
    let violations: Vec<_> = seen.violations.iter().map(|file| (file.path.as_str(), file.reason)).collect();
    assert_eq!(violations, [("out.txt", ViolationReason::OutsideWrite)]);

    let how = DeliveryContext { resume: run.session, ..DeliveryContext::default() };
    let run = deliver(&room, cli, "Go on.", how);
    assert_eq!(run.exit, (EndReason::Exited, Some(0)), "{}", run.said);
    let requests = room.mock.requests();
    let texts = requests.last().unwrap().user_texts();
    let spoken = |wanted: &str| texts.iter().any(|text| text.ends_with(wanted));
    assert!(spoken("Write.") && spoken("Go on."), "{texts:?}");
    assert_nothing_left(&room.path().display().to_string());
}

/// Defines the same tests for each of the CLIs, so that they run in parallel.
macro_rules! for_each_cli {
    ($($name:ident: $cli:ident $by:ident,)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn prompts_arrive_unchanged() {
                on_loopback(&[Cli::$cli], || check_prompts_arrive(Cli::$cli));
            }

            #[test]
            fn uncomposed_files_are_not_sent() {
                on_loopback(&[Cli::$cli], || check_files_not_inserted(Cli::$cli, DeliveryMethod::$by));
            }

            #[test]
            fn agent_works_permitted_and_resumes() {
                on_loopback(&[Cli::$cli], || check_work_and_resume(Cli::$cli));
            }
        }
    )*};
}

for_each_cli! {
    claude: Claude File,
    codex: Codex Stdin,
    gemini: Gemini File,
    copilot: Copilot Stdin,
    opencode: Opencode Stdin,
}
