//! Tests the real CLIs with the mock: prompts, tools, MCP, permissions, exit codes.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use callsheet_testing::{
    Cli, Launch, McpServer, Permit, Ran, Room, Script, Step, Via, on_loopback, report_missing,
};
use serde_json::json;

/// Defines the same tests for each CLI, so that they run in parallel.
macro_rules! for_each_cli {
    ($($name:ident: $cli:ident,)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn receives_prompt_and_answers() {
                on_loopback(&[Cli::$cli], || check_prompt_and_answer(Cli::$cli));
            }

            #[test]
            fn writes_file() {
                on_loopback(&[Cli::$cli], || check_write_tool(Cli::$cli));
            }

            #[test]
            fn calls_mcp_tool() {
                on_loopback(&[Cli::$cli], || check_mcp_tool(Cli::$cli));
            }

            #[test]
            fn api_error_fails_run() {
                on_loopback(&[Cli::$cli], || check_api_error(Cli::$cli));
            }
        }
    )*};
}

for_each_cli! {
    claude: Claude,
    codex: Codex,
    gemini: Gemini,
    copilot: Copilot,
    opencode: Opencode,
}

/// Everything that shells, JSON and careless programs change.
const PROMPT: &str = "  \tleading blanks\r\n\"quotes\" 'and' $HOME `date` \\n %s {{x}} <b>&amp;</b>\n\né 漢字 🙂\n# !x -y\nend \n\n ";

/// Returns the exit code and the text that the CLI printed, without the line end that Copilot adds.
fn exit_and_text(ran: &Ran) -> (Option<i32>, String) {
    (ran.code, ran.out().trim_end_matches('\n').to_owned())
}

/// Returns the user text of the turn, as the model got it.
fn delivered_text(ran: &Ran) -> String {
    ran.turns()[0].user_texts().pop().unwrap()
}

/// Returns an argument as the CLI passes it on: opencode quotes one that has a space.
fn argument_text(cli: Cli) -> String {
    match cli {
        Cli::Opencode => format!("\"{}\"", PROMPT.replace('"', "\\\"")),
        _ => PROMPT.to_owned(),
    }
}

fn check_prompt_and_answer(cli: Cli) {
    // Longer than one argument can be.
    let long = PROMPT.repeat(2000);
    let argument = argument_text(cli);
    let script = Script::new().on(&argument, [Step::text("It came by argv.")]);
    let room = Room::new(script.on(&long, [Step::text("It came by stdin.")])).unwrap();
    for (via, prompt, passed_on, answer) in [
        (Via::Argv, PROMPT, &*argument, "It came by argv."),
        (Via::Stdin, &*long, &*long, "It came by stdin."),
    ] {
        let ran = room.run(cli, &Launch { via, ..Launch::new(prompt) }).unwrap();
        assert_eq!(exit_and_text(&ran), (Some(0), answer.to_owned()), "{}", ran.err());
        let delivered = delivered_text(&ran);
        if cli == Cli::Copilot {
            let (date, rest) = delivered.split_once("</current_datetime>\n\n").unwrap();
            assert!(date.starts_with("<current_datetime>"), "{date}");
            assert_eq!(rest, passed_on.trim_end());
        } else {
            assert_eq!(delivered, passed_on);
        }
    }
}

/// Returns a call that writes `content` to `note.txt` in the project, with whichever tool the CLI has for it.
fn write_note_step(project: &Path, content: &str) -> Step {
    let path = project.join("note.txt");
    Step::call(&["Write", "write_file"], json!({ "file_path": path, "content": content }))
        .or_call(&["create"], json!({ "path": path, "file_text": content }))
        .or_call(&["write"], json!({ "filePath": path, "content": content }))
        .or_call(&["exec_command"], json!({ "cmd": format!("printf '%s' '{content}' > note.txt") }))
}

fn check_write_tool(cli: Cli) {
    let room = Room::from_project(|project| {
        Script::new().on("Write it down.", [write_note_step(project, "from the mock"), Step::text("written")])
    })
    .unwrap();
    let ran = room.run(cli, &Launch::new("Write it down.")).unwrap();
    assert_eq!(exit_and_text(&ran), (Some(0), "written".to_owned()), "{}", ran.err());
    assert_eq!(fs::read_to_string(room.project().join("note.txt")).unwrap(), "from the mock");
}

fn check_mcp_tool(cli: Cli) {
    let arguments = json!({ "verdict": "pass", "summary": "\"quoted\" and\nlong" });
    let call = Step::call(&[&cli.mcp_tool("submit_review")], arguments.clone());
    let room = Room::new(Script::new().on("Submit.", [call, Step::text("submitted")])).unwrap();
    let submissions = room.path().join("submissions.jsonl");
    let server = McpServer {
        command: env!("CARGO_BIN_EXE_review-server").to_owned(),
        args: vec!["submit review".to_owned()],
        env: vec![("SUBMISSIONS".to_owned(), submissions.display().to_string())],
    };
    let ran = room.run(cli, &Launch { mcp: Some(server), ..Launch::new("Submit.") }).unwrap();
    assert_eq!(exit_and_text(&ran), (Some(0), "submitted".to_owned()), "{}", ran.err());
    let got = json!({ "args": ["submit review"], "tool": "submit_review", "arguments": arguments });
    assert_eq!(fs::read_to_string(submissions).unwrap(), format!("{got}\n"));
}

fn check_api_error(cli: Cli) {
    for stream in [true, false] {
        let room = Room::new(Script::new().on("Go.", [Step::error(400, "the mock refuses")])).unwrap();
        let ran = room.run(cli, &Launch { stream, ..Launch::new("Go.") }).unwrap();
        // Gemini ends its stream with the status as its exit code, of which a system keeps one byte.
        let code = if cli == Cli::Gemini && stream { 400 % 256 } else { 1 };
        // Claude Code asks again before it gives up.
        let is_asked_once = ran.turns().len() == 1 || cli == Cli::Claude && !ran.turns().is_empty();
        assert_eq!((ran.code, is_asked_once), (Some(code), true), "{}", ran.err());
    }
}

#[test]
fn denied_write_leaves_exit_zero() {
    let clis = [Cli::Claude, Cli::Copilot];
    on_loopback(&clis, || {
        for cli in clis {
            let room = Room::from_project(|project| {
                Script::new().on("Write it down.", [write_note_step(project, "x"), Step::text("not allowed")])
            })
            .unwrap();
            let launch = Launch { permit: Permit::Default, ..Launch::new("Write it down.") };
            let ran = room.run(cli, &launch).unwrap();
            assert_eq!(exit_and_text(&ran), (Some(0), "not allowed".to_owned()), "{}", ran.err());
            assert!(!room.project().join("note.txt").exists());
        }
    });
}

#[test]
fn room_sessions_can_be_continued() {
    on_loopback(&[Cli::Claude], || {
        let script = Script::new().on("One.", [Step::text("first")]).on("Two.", [Step::text("second")]);
        let room = Room::new(script).unwrap();
        let first = room.run(Cli::Claude, &Launch::new("One.")).unwrap();
        let more = Launch { extra: vec!["--continue".to_owned()], ..Launch::new("Two.") };
        let second = room.run(Cli::Claude, &more).unwrap();
        assert_eq!(
            (exit_and_text(&first).1, exit_and_text(&second).1),
            ("first".to_owned(), "second".to_owned())
        );
        let texts = second.turns()[0].user_texts();
        let spoken: Vec<_> = texts.iter().filter(|text| !text.starts_with('<')).collect();
        assert_eq!(spoken, ["One.", "Two."]);
    });
}

#[test]
fn deadline_kills_waiting_cli() {
    on_loopback(&[Cli::Codex], || {
        let room = Room::new(Script::new().on("Wait.", [Step::text("too late").after_ms(600_000)])).unwrap();
        let launch = Launch { deadline: Duration::from_secs(5), ..Launch::new("Wait.") };
        let ran = room.run(Cli::Codex, &launch).unwrap();
        assert_eq!((ran.code, ran.timed_out, ran.out()), (None, true, String::new()));
    });
}

#[test]
fn older_version_reads_no_agents_file() {
    let cli = Cli::Claude;
    let older = cli.versions()[1];
    if let Err(why) = cli.program_of(older) {
        return report_missing(&format!("{} {older}: {why}", cli.name()));
    }
    on_loopback(&[cli], || {
        let room = Room::new(Script::new().on("Go.", [Step::text("done")])).unwrap();
        fs::write(room.project().join("AGENTS.md"), "Text of the agents file.\n").unwrap();
        let has_file = |version: &'static str| {
            let launch = Launch { version: Some(version), ..Launch::new("Go.") };
            let ran = room.run(cli, &launch).unwrap();
            assert_eq!(exit_and_text(&ran), (Some(0), "done".to_owned()), "{}", ran.err());
            ran.turns()[0].body.to_string().contains("Text of the agents file.")
        };
        assert_eq!((has_file(older), has_file(cli.version())), (false, true));
    });
}
