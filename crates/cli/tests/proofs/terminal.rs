//! Terminal escapes: regardless of the contents of names, texts, values and files, no control sequence but
//! our own colours reaches a terminal. The judge is a parser of such sequences.
//!
//! `compose` and `templates show` print data: their standard output is exactly the requested bytes, so it is
//! not judged here. Everything else that they print is judged.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use callsheet_testing::{CommandOutput, run_command};
use vte::{Params, Parser, Perform};

use crate::project::{CanaryProject, run_in_parallel};

/// Sequences with an effect, cut into portions that fit into a file name, which cannot contain `/`.
const HOSTILE: [&str; 4] = [
    "\u{1b}[35;7mred\u{1b}[8m\u{1b}]0;title\u{7}\u{1b}]52;c;aGk=\u{7}\u{1b}]8;;x:y\u{1b}\\link\u{1b}]8;;\u{1b}\\",
    "\u{1b}[2J\u{1b}[H\u{1b}[?1049h\u{1b}[6n\u{1b}c\u{1b}(0\u{1b}P1$r0m\u{1b}\\\u{1b}_x\u{1b}\\\u{1b}^y\u{1b}\\\u{7}\u{8}\u{b}\u{c}\u{e}\u{f}\u{7f}",
    "\u{9b}31m\u{9d}0;t\u{9c}\u{90}q\u{9c}\u{85}\u{84}\u{8d}\u{80}\u{99}\u{2028}\u{2029}",
    "\u{202e}rtl\u{202c}\u{2066}iso\u{2069}\u{200e}\u{200f}\u{61c}\u{200b}\u{feff}\u{2060}\u{e0041}\u{e007f}\u{206a}\u{fff9}",
];

#[derive(Default)]
struct Judge {
    colours: bool,
    wrong: BTreeSet<String>,
}

impl Judge {
    fn object(&mut self, to: String) {
        self.wrong.insert(to);
    }
}

impl Perform for Judge {
    fn print(&mut self, c: char) {
        let hidden = matches!(c,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
        if hidden {
            self.object(format!("character U+{:04X}", u32::from(c)));
        }
    }

    fn execute(&mut self, byte: u8) {
        if byte != b'\n' {
            self.object(format!("control 0x{byte:02x}"));
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
        let numbers: Vec<u16> = params.iter().flatten().copied().collect();
        let ours: [&[u16]; 7] = [&[0], &[1], &[2], &[1, 31], &[1, 33], &[32], &[36]];
        let is_ours = action == 'm' && intermediates.is_empty() && ours.contains(&numbers.as_slice());
        if !(is_ours && self.colours) {
            self.object(format!("sequence {numbers:?} {action}"));
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        self.object(format!("command of the system {:?}", params.first()));
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, byte: u8) {
        self.object(format!("escape 0x{byte:02x}"));
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, action: char) {
        self.object(format!("string for a device {action}"));
    }
}

/// Returns an objection to everything in `bytes` that is not plain text.
fn find_objections(bytes: &[u8], colours: bool) -> BTreeSet<String> {
    let mut judge = Judge { colours, ..Judge::default() };
    let mut parser = Parser::new();
    parser.advance(&mut judge, bytes);
    // An unfinished sequence swallows the following text: then this newline is not printed as it is.
    parser.advance(&mut judge, b"\n");
    if std::str::from_utf8(bytes).is_err() {
        judge.object("bytes that are not UTF-8".into());
    }
    judge.wrong
}

/// Creates a project in which everything has a hostile name and a hostile text.
fn scene(hostile: &str) -> CanaryProject {
    let parent = std::env::temp_dir().join(format!("callsheet-{}-{hostile}", std::process::id()));
    fs::create_dir_all(&parent).unwrap();
    let project = CanaryProject::new_in(&parent);
    let header = format!(
        "---\nname: \"x\"\ndescription: '{}'\n---\n",
        hostile.replace(|c: char| c < ' ' || c == '\u{7f}', "")
    );
    project.write(".callsheet/templates/identity/fine.md", format!("{header}text {hostile} {{{{a}}}}\n"));
    project.write(".callsheet/templates/identity/task-agent.md", format!("own {hostile}\n"));
    project
        .write(".callsheet/templates/identity/unfilled.md", format!("{hostile} {{{{missing}}}} {hostile}"));
    project.write(".callsheet/templates/identity/lost.md", format!("{hostile} {{{{> nowhere}}}} {hostile}"));
    project.write(".callsheet/templates/identity/bad.md", format!("---\nvariables: [{hostile}\n---\nx"));
    project.write(".callsheet/templates/identity/field.md", "---\nvariables: ['not a name']\n---\nx");
    project.write(".callsheet/templates/agents/include.md", format!("[[include:{hostile}]]"));
    project.write(".callsheet/templates/agents/optional.md", format!("x [[include-optional:{hostile}]]"));
    project.write(".callsheet/templates/agents/marker.md", format!("{hostile}\n<review>PASS</review>\n"));
    for folder in
        ["templates/identity", "templates/system", "templates/shared", "prompts/agents", "templates"]
    {
        project.write(&format!(".callsheet/{folder}/{hostile}.md"), format!("{hostile} {{{{> {hostile}}}}}"));
    }
    project.write(&format!(".callsheet/recipes/{hostile}.toml"), format!("description = '{hostile}'"));
    project.write(
        ".callsheet/recipes/own.toml",
        format!("format = \"markdown\"\n# {hostile}\nsectoin = '{hostile}'\n"),
    );
    project.write(&format!(".callsheet/agents/{hostile}.toml"), "x = 1");
    project.write(&format!("src/{hostile}/{hostile}.rs"), format!("// {hostile}\n"));
    project.write("07_review/review.yaml", format!("verdict: {hostile}\n{hostile}: {hostile}\n"));
    project.write("nul.txt", format!("{hostile}\0{hostile}"));
    project.write("latin.txt", b"caf\xe9");
    project.write("fence.txt", format!("## {hostile}\n\n---\n\n</task> {hostile}\n"));
    project.write("README.md", hostile);
    project.write("request.json", format!("{{\"instructions\": 1, \"{}\": 2}}", escape(hostile)));
    project.write("broken.json", format!("{{\"instructions\": {hostile}"));
    project.write("broken.toml", format!("instructions = {hostile}"));
    project.write("documents.json", serde_json::json!({
        "recipe": "layers", "instructions": hostile, "role": "fine", "values": { "a": hostile, "unused": hostile },
        "context": [{ "name": "block", "text": format!("</block> {hostile}") }, { "name": "data", "data": { hostile: hostile } }],
        "documents": [{ "name": hostile, "content": format!("</file>{hostile}") }, { "type": "thought", "name": hostile, "content": hostile }],
        "memories": [{ "type": hostile, "content": hostile }],
    }).to_string());
    project.write("names.json", serde_json::json!({
        "recipe": hostile, "role": hostile, "values": { hostile: "x" }, "context": [{ "name": hostile }], "documents": [{ "path": hostile }],
    }).to_string());
    for (file, text) in [("one.probe", "one"), ("two.probe", hostile)] {
        project.write(file, hostile_probe(hostile, text).to_string());
    }
    project
}

/// Returns a probe whose texts are hostile.
fn hostile_probe(hostile: &str, text: &str) -> serde_json::Value {
    let sha256 = |text: &str| callsheet_core::record::sha256(&[text.as_bytes()]);
    serde_json::json!({
        "agent": hostile, "version": hostile, "model": hostile, "api": hostile, "isolated": true, "split": false, "run": null,
        "prompt_sha256": sha256(hostile), "bytes": 1, "tokens": 1, "token_method": hostile,
        "cache": { "is_marked": true, "part_count": 1, "bytes": 1, "tokens": 1 }, "price": null,
        "arrival": {
            "is_exact": true, "bytes_before": 0, "bytes_after": 0, "missing_start": 0, "missing_end": 0, "is_changed": false,
        },
        "parts": [{
            "kind": "tool", "name": hostile, "server": hostile, "bytes": 1, "tokens": 1, "share_percent": 100.0,
            "price_microusd": null, "cached_price_microusd": null, "is_cacheable": true, "ranges": [],
            "sha256": sha256(text), "origins": [], "text": text,
        }],
        "side_requests": [], "diagnostics": [],
    })
}

fn escape(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns commands that produce every output for a person, in a project that mostly works.
fn commands(hostile: &str) -> Vec<Vec<String>> {
    let with = |before: &str| format!("{before}{hostile}");
    let lines: Vec<Vec<String>> = vec![
        vec!["check".into()],
        vec!["agents".into()],
        vec!["doctor".into()],
        vec!["context".into(), "-a".into(), hostile.into(), "x".into()],
        vec!["context".into(), "diff".into(), hostile.into()],
        vec!["context".into(), "diff".into(), "one.probe".into(), "two.probe".into()],
        vec!["read".into(), "--contract".into(), hostile.into()],
        vec!["render".into(), hostile.into(), "--format".into(), "xml".into()],
        vec![
            "render".into(),
            "prompt.json".into(),
            "--api".into(),
            "openai".into(),
            "--model".into(),
            hostile.into(),
        ],
        vec!["compose".into(), "--sources".into(), hostile.into(), "x".into()],
        vec!["read".into(), "--contract".into(), "submit_review".into(), "--session".into(), ".".into()],
        vec!["read".into(), "-p".into(), "review".into(), "--prompt".into(), hostile.into()],
        vec!["read".into(), "-p".into(), "implement".into(), "--tasks".into(), hostile.into()],
        vec!["prefs".into(), "add".into(), hostile.into(), hostile.into()],
        vec!["prefs".into(), "add".into(), "coder".into(), hostile.into()],
        vec!["prefs".into(), "list".into()],
        vec!["prefs".into(), "remove".into(), "coder".into(), with("no such ")],
        vec!["mcp".into(), "--session".into(), hostile.into()],
        vec!["mcp".into(), "--role".into(), hostile.into()],
        vec![
            "mcp".into(),
            "install".into(),
            "--client".into(),
            "codex".into(),
            "--role".into(),
            hostile.into(),
        ],
        vec!["templates".into(), "list".into()],
        vec!["templates".into(), "show".into(), hostile.into()],
        vec!["templates".into(), "show".into(), "identity/fine".into()],
        vec!["templates".into(), "where".into(), hostile.into()],
        vec!["templates".into(), "where".into(), with("identity/")],
        vec!["templates".into(), "diff".into(), "identity/task-agent".into()],
        vec!["templates".into(), "diff".into(), with("identity/")],
        vec!["templates".into(), "eject".into(), hostile.into()],
        vec!["templates".into(), "eject".into(), "identity/task-agent".into()],
        vec!["fuzz".into(), hostile.into()],
        vec!["fuzz".into(), "identity/fine".into()],
        vec!["config".into(), "show".into()],
        vec!["init".into()],
        vec!["demo".into(), "--keep".into(), with("/dev/null/")],
        vec!["man".into(), hostile.into()],
        vec!["schema".into(), hostile.into()],
        vec!["completions".into(), hostile.into()],
        vec![hostile.into()],
        vec![with("--")],
        vec!["-C".into(), hostile.into(), "check".into()],
        vec!["--color".into(), hostile.into(), "check".into()],
    ];
    let asks: Vec<Vec<String>> = vec![
        vec!["-r".into(), "layers".into(), "--role".into(), "fine".into(), with("-sa="), hostile.into()],
        vec!["-r".into(), "layers".into(), "--role".into(), "unfilled".into(), "x".into()],
        vec![
            "-r".into(),
            "layers".into(),
            "--role".into(),
            "unfilled".into(),
            "--missing".into(),
            "empty".into(),
            "x".into(),
        ],
        vec!["-r".into(), "layers".into(), "--role".into(), "lost".into(), "x".into()],
        vec!["-r".into(), "layers".into(), "--role".into(), "bad".into(), "x".into()],
        vec!["-r".into(), "layers".into(), "--role".into(), "field".into(), "x".into()],
        vec!["-r".into(), "layers".into(), "--role".into(), hostile.into(), "x".into()],
        vec!["-r".into(), "staged".into(), "--role".into(), "include".into(), "x".into()],
        vec!["-r".into(), "staged".into(), "--role".into(), "optional".into(), "x".into()],
        vec!["-r".into(), "own".into(), "x".into()],
        vec!["-r".into(), hostile.into(), "x".into()],
        vec!["-a".into(), hostile.into(), "x".into()],
        vec!["-p".into(), hostile.into(), "x".into()],
        vec!["--command".into(), hostile.into(), "x".into()],
        vec!["-p".into(), "plan".into(), "-f".into(), "src".into(), "x".into()],
        vec!["-p".into(), "plan".into(), "-f".into(), with("src/"), "x".into()],
        vec!["-p".into(), "plan".into(), "-f".into(), "nul.txt".into(), "x".into()],
        vec!["-p".into(), "plan".into(), "-f".into(), "latin.txt".into(), "x".into()],
        vec!["-p".into(), "plan".into(), "-f".into(), hostile.into(), "x".into()],
        vec!["-p".into(), "plan".into(), "-f".into(), with("["), "x".into()],
        vec!["-p".into(), "plan".into(), "-f".into(), "../outside/canary.md".into(), "x".into()],
        vec!["-p".into(), "plan".into(), "--detail".into(), with("a="), "x".into()],
        vec!["-p".into(), "plan".into(), "--detail".into(), format!("{hostile}=path"), "x".into()],
        vec!["-p".into(), "plan".into(), "--tools".into(), "fence.txt".into(), "x".into()],
        vec!["-p".into(), "plan".into(), "--session".into(), hostile.into(), "x".into()],
        vec!["-p".into(), "plan".into(), format!("--set={hostile}=1"), "x".into()],
        vec!["-p".into(), "plan".into(), with("--set="), "x".into()],
        vec!["-p".into(), "plan".into(), with("--set-file=a="), "x".into()],
        vec!["-p".into(), "plan".into(), with("--read-first=/"), "x".into()],
        vec!["-p".into(), "plan".into(), with("--format="), "x".into()],
        vec!["-p".into(), "plan".into(), with("--budget="), "x".into()],
        vec![
            "-p".into(),
            "plan".into(),
            "--budget=3000".into(),
            "-f".into(),
            "src".into(),
            with("--set=model="),
            "x".into(),
        ],
        vec![
            "--write".into(),
            hostile.into(),
            "--title".into(),
            hostile.into(),
            "--context-file=a=fence.txt".into(),
            hostile.into(),
        ],
        vec!["--request".into(), "request.json".into()],
        vec!["--request".into(), "broken.json".into()],
        vec!["--request".into(), "broken.toml".into()],
        vec!["--request".into(), "documents.json".into()],
        vec!["--request".into(), "names.json".into()],
        vec!["--request".into(), hostile.into()],
    ];
    let mut all = lines;
    all.extend(ledger_commands(hostile));
    for ask in asks {
        let counts = ask.contains(&"fine".into()) || ask.contains(&"documents.json".into()) || ask.len() > 6;
        for verb in [&["explain"][..], &["compose"], &["compose", "--count"]] {
            if verb.len() > 1 && !counts {
                continue;
            }
            let verb = verb.iter().map(ToString::to_string);
            all.push(verb.chain(ask.iter().cloned()).collect());
        }
    }
    all
}

/// Returns the same for the ledger: commands that record a hostile text, and every view of it.
fn ledger_commands(hostile: &str) -> Vec<Vec<String>> {
    let record = ["compose", "--record", "--request", "documents.json", "--task-id", hostile];
    let lines: &[&[&str]] = &[
        &record,
        &["log"],
        &["log", "--task", hostile],
        &["log", "--since", hostile],
        &["show", "last"],
        &["show", "last", "--origins"],
        &["show", "last", "--records"],
        &["show", "last", "--stream", "meta"],
        &["show", "last", "--diff"],
        &["show", "last", "--diff", hostile],
        &["diff", "last", "last", "--code"],
        &["revert", "last", hostile],
        &["apply", "last", hostile],
        &["show", hostile],
        &["diff", "last", hostile],
        &["verify", "--all"],
        &["verify", "--file", hostile],
        &["verify", "--file", "documents.json"],
        &["export", "last"],
        &["export", hostile],
        &["import", "documents.json"],
        &["gc", "--keep-last", "5", "--dry-run"],
        &["run", hostile, "--title", hostile, "--write", hostile, "--", "touch", hostile],
        &["run", hostile, "--", hostile],
        &["retry", "last", "--check", "x=false"],
        &["continue", "last", hostile],
        &["stop", hostile],
        &["status"],
        &["status", hostile],
        &["task", "close", hostile, "--reason", hostile, "--yes"],
        &["task", "reopen", "last", "--yes"],
        &["stats"],
        &["stats", "--by", "task,role"],
        &["stats", "--by", hostile],
        &["log", "--grep", hostile],
        &["log", "--flow", hostile],
        &["recover"],
        &["decide", "last", hostile, "--approve"],
        &["trust", "--show"],
        &["flow", "start", "sdd", hostile, "--", "echo", hostile],
        &["flow", "start", hostile, hostile],
        &["flow", "list"],
        &["flow", "status"],
        &["flow", "graph"],
        &["flow", "decide", "changes", hostile],
        &["flow", "resume", hostile],
        &["flow", "stop", hostile],
        &["watch", "--since", hostile],
        &["serve", "--port", hostile],
        &["show", "last", "--html", hostile],
        &["--ledger", hostile, "log"],
        &["ledger", "path"],
        &["ledger", "list"],
        &["ledger", "adopt"],
        &["ledger", "adopt", "--yes", hostile],
        &["ledger", "forget", "--yes", hostile],
    ];
    lines.iter().map(|line| line.iter().map(ToString::to_string).collect()).collect()
}

/// Returns whether standard output is the requested data, with any content.
fn is_data(args: &[String]) -> bool {
    let composed = args[0] == "compose" && !args.contains(&"--count".into());
    composed || args[0] == "export" || args.starts_with(&["templates".into(), "show".into()])
}

fn judge(args: &[String], output: &CommandOutput, colours: bool, json: bool, wrong: &mut Vec<String>) {
    let mut object = |stream: &str, bytes: &[u8], colours: bool| {
        for objection in find_objections(bytes, colours) {
            wrong.push(format!("{:?} ({colours}, {json}): {stream} holds a {objection}", args.join(" ")));
        }
    };
    object("standard error", &output.stderr, colours);
    // An export is always data in JSON's own notation.
    if json && args[0] != "export" || !is_data(args) {
        object("standard output", &output.stdout, colours);
    }
    assert!(output.code.is_some_and(|code| code != 101), "{args:?}: {}", output.err());
}

fn run(
    project: &CanaryProject,
    args: &[String],
    before: &[&str],
    variables: &[(&str, &str)],
) -> CommandOutput {
    let mut command: Command = project.command();
    // Without it the parser of the command line drops colours, and other sequences with them.
    command.env("CLICOLOR_FORCE", "1").envs(variables.iter().copied()).args(before).args(args);
    run_command(&mut command)
}

#[test]
fn views_print_no_escapes() {
    let mut wrong = Vec::new();
    let projects: Vec<(&str, CanaryProject)> =
        HOSTILE.iter().map(|hostile| (*hostile, scene(hostile))).collect();
    let found = run_in_parallel(&projects, |share| {
        let mut wrong = Vec::new();
        for (hostile, project) in share {
            for args in commands(hostile) {
                judge(&args, &run(project, &args, &["--color=always", "-v"], &[]), true, false, &mut wrong);
                judge(&args, &run(project, &args, &["--json"], &[]), false, true, &mut wrong);
            }
        }
        wrong
    });
    wrong.extend(found.concat());
    // Without colours none of our own sequences can be confused with theirs: one portion is enough.
    let (hostile, project) = &projects[0];
    for args in commands(hostile) {
        judge(&args, &run(project, &args, &["--color=never"], &[]), false, false, &mut wrong);
    }
    for (hostile, project) in projects {
        let parent = project.beside("..").canonicalize().unwrap();
        drop(project);
        assert!(parent.to_str().unwrap().ends_with(hostile));
        fs::remove_dir_all(parent).unwrap();
    }
    assert!(wrong.is_empty(), "{} times:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hostile_configuration_prints_no_escapes() {
    let mut wrong = Vec::new();
    for hostile in HOSTILE {
        let quoted = format!("\"{}\"", escape(hostile));
        let project = CanaryProject::new();
        let show = ["config".to_string(), "show".into()];
        let eject = ["templates".to_string(), "eject".into(), "identity/task-agent".into()];
        let views = [show.to_vec(), eject.to_vec(), vec!["check".into()], vec!["explain".into(), "x".into()]];
        for config in [
            format!("recipe = {quoted}\nagent = {quoted}\nrole = {quoted}\n"),
            format!("[layout]\ntemplates = [{quoted}]\nprompts = {quoted}\nproject_context = {quoted}\n"),
            format!("[layout]\ntemplates = [\"/{}\"]\n", escape(hostile)),
            format!("{quoted} = 1\n"),
            format!("recipe = {hostile}\n"),
            format!("recipe = 1 # {}\n", hostile.replace(|c: char| c < ' ' || c == '\u{7f}', "")),
        ] {
            project.write(".callsheet/config.toml", config);
            for args in &views {
                judge(args, &run(&project, args, &["--color=always"], &[]), true, false, &mut wrong);
                judge(args, &run(&project, args, &["--json"], &[]), false, true, &mut wrong);
            }
        }
        fs::remove_file(project.path().join(".callsheet/config.toml")).unwrap();
        for variable in
            ["CALLSHEET_MAX_FILE_BYTES", "CALLSHEET_PROJECT_CONTEXT", "CALLSHEET_RECIPE", "CALLSHEET_AGENT"]
        {
            for args in &views {
                let variables = [(variable, hostile)];
                judge(args, &run(&project, args, &["--color=always"], &variables), true, false, &mut wrong);
                judge(args, &run(&project, args, &["--json"], &variables), false, true, &mut wrong);
            }
        }
    }
    assert!(wrong.is_empty(), "{} times:\n{}", wrong.len(), wrong.join("\n"));
}

/// A new command needs lines in [`commands`].
#[test]
fn every_command_is_tested() {
    let help = CanaryProject::new().run(["--help"]).out();
    let section =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let there: BTreeSet<String> = section
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect();
    assert!(there.contains("compose") && there.contains("check"), "{there:?}");
    let mut tried: BTreeSet<String> = commands("x").into_iter().map(|args| args[0].clone()).collect();
    tried.insert("help".into());
    assert_eq!(there.difference(&tried).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Text that was made visible can still be identified, and data stays unchanged.
#[test]
fn escaping_loses_no_data() {
    for hostile in HOSTILE {
        let project = CanaryProject::new();
        let file = project.write(
            "request.json",
            serde_json::json!({ "recipe": "layers", "instructions": hostile }).to_string(),
        );
        let ask = ["--request", file.to_str().unwrap()];
        let composed = project.run([&["compose"], &ask[..]].concat());
        assert!(composed.out().ends_with(hostile), "{composed:?}");
        let explained = project.run([&["--json", "explain"], &ask[..]].concat());
        let json: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
        assert_eq!(json["text"].as_str().unwrap().as_bytes(), composed.stdout);
    }
}

/// The judge objects to every one of the sequences, and to nothing that we print.
#[test]
fn escape_is_detected() {
    for hostile in HOSTILE {
        for c in hostile.char_indices().filter(|(_, c)| c.is_control()) {
            let from_here = &hostile[c.0..];
            assert!(!find_objections(from_here.as_bytes(), true).is_empty(), "{from_here:?}");
        }
        assert!(
            find_objections(hostile.as_bytes(), true).len() > 5,
            "{:?}",
            find_objections(hostile.as_bytes(), true)
        );
    }
    for fine in ["plain\ntext ┌─ │ ^ → ü 中文 🦀", "\u{1b}[1;31merror\u{1b}[0m", "\u{1b}[32mx\u{1b}[0m"]
    {
        assert_eq!(find_objections(fine.as_bytes(), true), BTreeSet::new());
    }
    assert!(!find_objections(b"\x1b[32mx\x1b[0m", false).is_empty());
    assert!(!find_objections(b"caf\xe9", true).is_empty());
}
