//! Agent output of any kind and size: it is judged whole and unaltered, equally by `read` and by `run`,
//! recorded without secrets, and processed within 256 MiB of memory.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use callsheet_testing::run_command;
use serde_json::{Value, json};

use crate::measure::{Measured, measure};
use crate::project::CanaryProject;

const MOST_MEMORY: u64 = 256 << 20;
const PASS: &str = "<review>PASS</review>";
const MAJOR: &str = "<review>MAJOR_ISSUES</review>";

/// Writes a program of this name that prints a file.
fn write_agent(project: &CanaryProject, name: &str, file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let program =
        project.write_beside(&format!("bin/{name}"), format!("#!/bin/sh\nexec cat '{}'\n", file.display()));
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

fn command(project: &CanaryProject) -> Command {
    let mut command = project.command();
    let path = format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("XDG_STATE_HOME", project.beside("state"));
    command
}

/// Returns the outcome that `callsheet read` reports.
fn reply_from_read(project: &CanaryProject, agent: &str, file: &Path) -> Value {
    let mut shell = Command::new("sh");
    let script = "exec \"$0\" --json read -p review -a \"$1\" < \"$2\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_callsheet"), agent]).arg(file);
    shell.current_dir(project.path()).env_clear().env("HOME", project.beside("home"));
    let output = run_command(shell.env("PATH", std::env::var("PATH").unwrap()));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| unreachable!("{error}: {}", output.err()))
}

/// Returns the reply that `callsheet run` reports.
fn reply_from_run(project: &CanaryProject, name: &str, file: &Path) -> Value {
    let mut run = command(project);
    run.args(["--json", "-q", "run", "-p", "review", "--missing", "empty"]);
    let output = match name {
        "base" => run_command(run.args(["look", "--", "cat"]).arg(file)),
        name => {
            write_agent(project, name, file);
            run_command(run.args(["-a", name, "look"]))
        }
    };
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| unreachable!("{error}: {}", output.err()));
    result["reply"].clone()
}

fn problem_codes(reply: &Value) -> Vec<&str> {
    reply["problems"].as_array().unwrap().iter().map(|problem| problem["code"].as_str().unwrap()).collect()
}

fn claude_stream(texts: &[&str]) -> String {
    let mut out = json!({"type":"system","subtype":"init"}).to_string() + "\n";
    for (number, text) in texts.iter().enumerate() {
        let message = json!({"id":format!("m{number}"),"content":[{"type":"text","text":text}]});
        out += &(json!({"type":"assistant","message":message}).to_string() + "\n");
        let result = json!({"role":"user","content":[{"type":"tool_result","content":"y".repeat(100)}]});
        out += &(json!({"type":"user","message":result}).to_string() + "\n");
    }
    out + &json!({"type":"result","subtype":"success","is_error":false,"result":texts.last().unwrap()})
        .to_string()
        + "\n"
}

#[test]
fn read_and_run_give_same_outcome() {
    let rounds = if crate::is_long() { 1_000 } else { 12 };
    let project = CanaryProject::new();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |end: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % end as u64).unwrap()
    };
    let long = "x".repeat(70_000);
    let pieces: [&[u8]; 16] = [
        PASS.as_bytes(),
        MAJOR.as_bytes(),
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"\xFF\xFE",
        b"\xC3",
        b"I cannot say ",
        b"```\n",
        b"<thought>",
        b"</thought>\n",
        long.as_bytes(),
        b"{\"type\":\"system\",\"subtype\":\"init\"}\n",
        b"{\"type\":\"result\",\"is_error\":false,\"result\":\"<review>PASS</review>\"}\n",
    ];
    let mut outcomes = std::collections::BTreeSet::new();
    for round in 0..rounds {
        let mut printed = Vec::new();
        match round % 4 {
            0 => {
                printed.extend(claude_stream(&["First.", PASS]).bytes());
                let at = below(printed.len());
                match below(3) {
                    0 => printed[at] = b"{}\"\\\n\0"[below(6)],
                    1 => printed.truncate(at),
                    _ => {}
                }
            }
            1 => printed.extend(claude_stream(&["First.", [PASS, MAJOR][below(2)]]).bytes()),
            2 => printed.extend(format!("Seen.\n\n{}\n", [PASS, MAJOR][round / 4 % 2]).bytes()),
            _ => (0..1 + below(8)).for_each(|_| printed.extend(pieces[below(pieces.len())])),
        }
        let file = project.write_beside("output", &printed);
        for agent in ["base", "claude"] {
            let (read, run) =
                (reply_from_read(&project, agent, &file), reply_from_run(&project, agent, &file));
            let both = [&read, &run]
                .map(|reply| (reply["outcome"].clone(), reply["verdict"].clone(), problem_codes(reply)));
            assert_eq!(both[0], both[1], "{agent}: {}", String::from_utf8_lossy(&printed));
            outcomes.insert(read["outcome"].to_string());
        }
    }
    assert!(outcomes.contains("\"pass\"") && outcomes.len() >= 3, "{outcomes:?}");
}

/// Neither the omitted middle of a large output nor the cut of a long line results in a line of its own.
#[test]
fn cuts_and_gaps_create_no_line() {
    let project = CanaryProject::new();
    let line = "x".repeat(3_999) + "\n";
    let filler = line.repeat(66_000_000 / line.len());
    let cut = format!("I cannot say {}{PASS}\n", "x".repeat((4 << 20) - 13));
    let middle = format!("{filler}{MAJOR}\n{}{PASS}\n", line.repeat(750));
    for (name, printed, outcome, problem) in [
        ("a long line", cut, "no_verdict", "inline_marker"),
        ("the middle of much", middle, "major_issues", "too_long"),
    ] {
        let file = project.write_beside("output", printed);
        for reply in [reply_from_read(&project, "base", &file), reply_from_run(&project, "base", &file)] {
            assert_eq!(reply["outcome"], outcome, "{name}");
            assert!(problem_codes(&reply).contains(&problem), "{name}: {:?}", problem_codes(&reply));
        }
    }
    // In a stream only the agent's text counts, so a verdict in the middle is judged.
    let tool = json!({"role":"user","content":[{"type":"tool_result","content":"y".repeat(1 << 20)}]});
    let tool = json!({"type":"user","message":tool}).to_string() + "\n";
    let stream = claude_stream(&[MAJOR, PASS]).replacen(
        "{\"type\":\"user\"",
        &(tool.repeat(35) + "{\"type\":\"user\""),
        2,
    );
    let file = project.write_beside("output", stream);
    for reply in [reply_from_read(&project, "claude", &file), reply_from_run(&project, "claude", &file)] {
        assert_eq!(reply["outcome"], "major_issues", "{:?}", problem_codes(&reply));
    }
}

/// A project's secret rules select the text that is not recorded. They do not affect a verdict.
#[test]
fn secret_rules_do_not_change_verdict() {
    let project = CanaryProject::new();
    let rule = |id: &str, literal: &str, pattern: &str| {
        format!(
            "[[rule]]\nid = \"{id}\"\ndescription = \"x\"\nliterals = [\"{literal}\"]\ninside = true\npattern = '{pattern}'\n"
        )
    };
    let rules = [
        rule("a", "review>M", "review>MAJOR_ISSUES</review"),
        rule("b", "thought>", "thought>"),
        rule("c", "PASS", "PASS"),
        rule("d", "hunter2", "hunter2[0-9]{6}"),
    ];
    project.write(".callsheet/secrets/x.toml", rules.concat());
    let reply =
        format!("<thought>\nShall I say\n{PASS}\n? No.\n</thought>\n\nIt has a hole: hunter2123456.\n\n");
    let bad = project.write_beside("bad", format!("{reply}{MAJOR}\n"));
    let good = project
        .write_beside("good", format!("{reply}{PASS}\n\nI said <review>hunter2123456</review> once.\n"));
    let stream = project.write_beside("stream", claude_stream(&[&format!("{reply}{MAJOR}\n")]));
    for (agent, file, outcome) in
        [("base", &bad, "major_issues"), ("base", &good, ""), ("claude", &stream, "major_issues")]
    {
        let (read, run) = (reply_from_read(&project, agent, file), reply_from_run(&project, agent, file));
        assert_eq!([&run["outcome"], &run["verdict"]], [&read["outcome"], &read["verdict"]]);
        assert!(outcome.is_empty() || run["outcome"] == outcome, "{run}");
        assert_eq!(problem_codes(&read), problem_codes(&run));
        assert!(read["text"].as_str().unwrap().contains("hunter2123456"), "{read}");
        assert!(run["text"].as_str().unwrap().contains("[secret:d:"), "{run}");
    }
    let all = run_command(command(&project).args(["export", "--all"])).out();
    assert!(all.contains("[secret:d:") && !all.contains("hunter2123456"));
}

/// The text that waits to be judged is never in a named file.
#[test]
fn judged_text_has_no_named_file() {
    let project = CanaryProject::new();
    let secret = "ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5";
    let file =
        project.write_beside("output", format!("{secret}\n{}\n", (("x".repeat(3_999)) + "\n").repeat(2_500)));
    // The agent prints the text, then checks that the state directory has no large file except the ledger.
    let script = format!(
        "cat '{}'; sleep 1; test -z \"$(find '{}' -type f -size +3000k ! -name 'ledger.db*')\" && echo none",
        file.display(),
        project.beside("state").display()
    );
    let mut run = command(&project);
    run.args(["--json", "-q", "run", "look", "--", "sh", "-c", &script]);
    let output = run_command(&mut run);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["reply"]["text"].as_str().unwrap().ends_with("x\n\nnone\n"), "{}", output.err());
    let found =
        Command::new("grep").args(["-rl", secret]).arg(project.beside("state")).arg(project.path()).output();
    assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "");
}

/// Lines that are only partly in the ledger are not judged as complete lines.
#[test]
fn incomplete_recovered_output_is_doubtful() {
    let secret = "ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5";
    for (name, printed, outcome) in [
        ("whole", format!("Good.\n\n{PASS}\n"), "pass"),
        ("a long line", format!("I cannot say {}{PASS}\n", "x".repeat(4 << 20)), "no_verdict"),
        ("a line over a record", format!("{}\n\n{PASS}\n", "x".repeat(70_000)), "no_verdict"),
        ("a secret", format!("{secret}\n\n{PASS}\n"), "no_verdict"),
    ] {
        let project = CanaryProject::new();
        let file = project.write_beside("output", printed);
        // The agent prints, waits until the output is recorded, and kills its callsheet.
        let script = format!(
            "cat '{}'; echo; sleep 2; kill -9 $(cut -d' ' -f4 /proc/$(cut -d' ' -f4 /proc/$$/stat)/stat)",
            file.display()
        );
        let mut run = command(&project);
        run.args(["-q", "run", "-p", "review", "--missing", "empty", "look", "--", "sh", "-c", &script]);
        assert_eq!(run_command(&mut run).code, None, "{name}");
        let recovered = run_command(command(&project).args(["--json", "recover"]));
        let told: Value = serde_json::from_slice(&recovered.stdout).unwrap();
        let reply = &told["items"][0]["reply"];
        assert_eq!(reply["outcome"], outcome, "{name}: {told}");
        assert_eq!(
            problem_codes(reply).contains(&"output_incomplete"),
            outcome != "pass",
            "{name}: {:?}",
            problem_codes(reply)
        );
    }
}

fn assert_within_limits(name: &str, found: &Measured, code: i32) {
    crate::print_measurement(&format!(
        "{name}: {} MiB, {:.1?} of processor time",
        found.peak >> 20,
        found.time
    ));
    assert_eq!(found.code, Some(code), "{name}: {}", found.err);
    assert!(found.peak <= MOST_MEMORY, "{name}: {} MiB", found.peak >> 20);
}

fn measure_shell(project: &CanaryProject, script: &str) -> Measured {
    let path = format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_callsheet")]).current_dir(project.path());
    shell
        .env("HOME", project.beside("home"))
        .env("XDG_STATE_HOME", project.beside("state"))
        .env("PATH", path);
    measure(&shell)
}

/// Sources of bytes: a name and the command that prints them.
const SOURCES: [(&str, &str); 3] = [
    ("zeroes", "head -c SIZE /dev/zero"),
    ("bytes that are not UTF-8", "head -c SIZE /dev/zero | tr '\\0' '\\377'"),
    ("lines", "yes 'a line of some length, so that there are not too many of them' | head -c SIZE"),
];

#[test]
fn large_run_output_uses_bounded_memory() {
    let project = CanaryProject::new();
    let (size, sources) = if crate::is_long() { ("300000000", 3) } else { ("100000000", 2) };
    for (name, source) in &SOURCES[..sources] {
        let source = source.replace("SIZE", size).replace('\\', "\\\\");
        let run = format!("exec \"$0\" -q run look -- sh -c \"{source}\"");
        assert_within_limits(&format!("run of {size} bytes, {name}"), &measure_shell(&project, &run), 0);
    }
}

#[test]
fn large_replies_use_bounded_memory() {
    let project = CanaryProject::new();
    for (name, source) in SOURCES {
        let source = source.replace("SIZE", "300000000");
        let read = format!("{source} | \"$0\" read -p review >/dev/null");
        assert_within_limits(&format!("read of 300000000 bytes, {name}"), &measure_shell(&project, &read), 1);
    }
    let file = project.beside("output");
    let mut out = std::io::BufWriter::new(File::create(&file).unwrap());
    let line = "y".repeat(99_999) + "\n";
    (0..3_000).for_each(|_| out.write_all(line.as_bytes()).unwrap());
    out.flush().unwrap();
    let read = format!("\"$0\" --json read -p review < '{}' >/dev/null", file.display());
    assert_within_limits("read of a file of 300 MB, as JSON", &measure_shell(&project, &read), 1);
}

#[test]
fn large_streams_use_bounded_memory() {
    let project = CanaryProject::new();
    let file = project.beside("output");
    let check = |name: &str, parts: &[(&str, usize)], code: i32| {
        let mut out = std::io::BufWriter::new(File::create(&file).unwrap());
        for (part, times) in parts {
            (0..*times).for_each(|_| out.write_all(part.as_bytes()).unwrap());
        }
        out.flush().unwrap();
        write_agent(&project, "claude", &file);
        let run = "exec \"$0\" -q run -a claude -p review --missing empty look >/dev/null";
        assert_within_limits(&format!("run, {name}"), &measure_shell(&project, run), code);
        let read = format!("\"$0\" --json read -a claude -p review < '{}' >/dev/null", file.display());
        assert_within_limits(&format!("read, {name}"), &measure_shell(&project, &read), code);
    };
    let begin = "{\"type\":\"system\",\"subtype\":\"init\"}\n";
    let end = claude_stream(&[PASS]).split_once('\n').unwrap().1.to_owned();
    let tool = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"content\":\"";
    let text =
        "{\"type\":\"assistant\",\"message\":{\"id\":\"x\",\"content\":[{\"type\":\"text\",\"text\":\"";
    let kilobyte = "y".repeat(1000);
    check(
        "one result of a tool of 100 MB",
        &[(begin, 1), (tool, 1), (&kilobyte, 100_000), ("\"}]}}\n", 1), (&end, 1)],
        0,
    );
    let results = format!("{tool}{}\"}}]}}}}\n", kilobyte.repeat(1000));
    if crate::is_long() {
        check("a hundred results of a tool of 1 MB", &[(begin, 1), (&results, 100), (&end, 1)], 0);
    }
    let escaped = format!("{}\\u00e9\\n", &kilobyte[..990]);
    check(
        "a text of 60 MB with escapes",
        &[(begin, 1), (text, 1), (&escaped, 60_000), ("\"}]}}\n", 1), (&end, 1)],
        0,
    );
    check(
        "a line of 100 MB that is not an event",
        &[(begin, 1), (&kilobyte, 100_000), ("\n", 1), (&end, 1)],
        1,
    );
    check(
        "an event of 15 million values",
        &[
            (begin, 1),
            ("{\"type\":\"user\",\"x\":[0", 1),
            (&",0".repeat(1000), 15_000),
            ("]}\n", 1),
            (&end, 1),
        ],
        0,
    );
    check(
        "a million parts",
        &[
            (begin, 1),
            (&text[..text.len() - 24], 1),
            ("{\"type\":\"text\",\"text\":\"\"},", 1_000_000),
            ("{}]}}\n", 1),
            (&end, 1),
        ],
        1,
    );
}
