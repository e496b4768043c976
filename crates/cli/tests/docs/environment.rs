//! Regenerates the page of environment variables, and compares its table with the program's source.

use std::collections::BTreeSet;
use std::fs;

use crate::pages::{compare_page, root, tracked_files};
use crate::reference::setting_variables;

/// The variables that callsheet reads, beside those that set a key of the configuration.
const READ: [(&str, &str); 22] = [
    ("CALLSHEET_LEDGER_TIMEOUT", "a shorter time limit for every wait for the ledger, such as `5s`"),
    ("CALLSHEET_PAGER", "the pager of `show --diff` and `diff --code`; empty or `cat`: no pager"),
    ("CALLSHEET_RUN", "marks a process of a run: such a process cannot decide for a person"),
    ("CLAUDE_CONFIG_DIR", "the folder with the transcripts of Claude Code; default: `~/.claude`"),
    ("CLICOLOR_FORCE", "colours also without a terminal, if it is not empty and `--color` is `auto`"),
    ("CODEX_HOME", "the folder with Codex's transcripts and settings; default: `~/.codex`"),
    ("COLUMNS", "the width of tables, if it is set; default: the width of the terminal"),
    ("COPILOT_HOME", "the folder with Copilot's settings; default: `~/.copilot`"),
    ("GIT_*", "not passed on to git: these variables point elsewhere, or name programs"),
    ("HOME", "the home folder"),
    ("HOSTNAME", "the name of the machine in records, on systems without `/proc`"),
    ("LESS", "the options of `less`; default: `FRX`"),
    ("NO_COLOR", "no colours, if it is not empty and `--color` is `auto`"),
    ("NO_PROXY", "the hosts without a proxy; `context` adds this machine for the CLI"),
    ("PAGER", "the pager, if `CALLSHEET_PAGER` is not set; default: `less`"),
    ("PATH", "the folders with the programs of agents and checks, and with git and tmux"),
    ("SSH_ASKPASS", "not passed on to git: it names a program"),
    ("TERM", "no lines that change during the work, if it is `dumb` or not set"),
    ("TMPDIR", "the folder for temporary files; default: `/tmp`"),
    ("TMUX_TMPDIR", "the folder of the sockets of tmux; default: `/tmp`"),
    (
        "XDG_CONFIG_HOME",
        "the folder with your own `callsheet/config.toml` and templates; default: `~/.config`",
    ),
    (
        "XDG_STATE_HOME",
        "the folder with ledgers, trust and locks, in `callsheet/`; default: `~/.local/state`",
    ),
];

/// The variables that callsheet sets for agents, checks and notifications.
const SET: [(&str, &str); 16] = [
    ("ALL_PROXY", "with `context --isolated`: the probe, which refuses every other host"),
    ("CALLSHEET_FLOW", "the id of the flow"),
    ("CALLSHEET_GUARDED", "the mark by which callsheet finds the processes of a run"),
    ("CALLSHEET_GUARD_START", "marks the guard between callsheet and an agent; the agent does not get it"),
    ("CALLSHEET_LANE", "the name of the lane of a flow"),
    ("CALLSHEET_NAME", "for a notification: the task of the run, or the name of the flow"),
    ("CALLSHEET_OUTCOME", "for a notification: the outcome of the run, or the condition of the flow"),
    ("CALLSHEET_PHASE", "the phase"),
    ("CALLSHEET_ROLE", "the role"),
    ("CALLSHEET_RUN", "the id of the run"),
    ("CALLSHEET_SESSION", "the folder of the session or of the change"),
    ("CALLSHEET_TASK", "the task"),
    ("HTTPS_PROXY", "with `context --isolated`: the probe, which refuses every other host"),
    ("HTTP_PROXY", "with `context --isolated`: the probe, which refuses every other host"),
    ("XDG_CACHE_HOME", "with `context --isolated`: a folder in the empty home"),
    ("XDG_DATA_HOME", "with `context --isolated`: a folder in the empty home"),
];

/// The variables that only debug builds read, for tests.
const DEBUG: [(&str, &str); 3] = [
    ("CALLSHEET_TEST_GRACE_MS", "the time between SIGTERM and SIGKILL, in milliseconds"),
    ("CALLSHEET_TEST_HANDSHAKE_MS", "the time that a guard may take to answer, in milliseconds"),
    ("CALLSHEET_TEST_WITHOUT_CGROUP", "no cgroup for a run"),
];

/// Words in upper case that are not variables to read, in files that read the environment: words of git, and
/// variables that callsheet sets for it.
const OTHERS: [&str; 5] = ["AUTHOR", "COMMITTER", "GIT_CONFIG_NOSYSTEM", "HEAD", "LC_ALL"];

fn is_variable_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.len() > 3 && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(is_part)
}

/// Returns the names of variables in a source file: every string in upper case of a file that reads the
/// environment, and every string that begins like our own variables.
fn names_in_source(text: &str) -> BTreeSet<String> {
    let program = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String =
        program.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let reads =
        ["env::var(", "env::var_os(", "env::vars(", "env::vars_os("].iter().any(|call| code.contains(call));
    let strings = code.split('"').filter(|word| is_variable_name(word));
    let mut names: BTreeSet<String> =
        strings.filter(|word| reads || word.starts_with("CALLSHEET_")).map(str::to_owned).collect();
    if code.contains("env::temp_dir()") || code.contains("tempfile::") {
        names.insert("TMPDIR".to_owned());
    }
    // A prefix stands for all variables that begin with it.
    if reads && code.contains("b\"GIT_\"") {
        names.retain(|name| !name.starts_with("GIT_"));
        names.insert("GIT_*".to_owned());
    }
    names
}

/// Returns the names of variables in the program: its sources, and the data files of agents.
fn names_in_program() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in tracked_files().iter().filter(|path| !path.starts_with("crates/testing/")) {
        let is_source = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
        let is_agent = path.contains("/builtin/agents/");
        if is_source || is_agent {
            let text = fs::read_to_string(root().join(path)).unwrap();
            if is_source {
                names.extend(names_in_source(&text));
            } else {
                let lines = text.lines().filter_map(|line| line.strip_prefix("variable = \""));
                names.extend(lines.map(|line| line.trim_end_matches('"').to_owned()));
            }
        }
    }
    names.retain(|name| !OTHERS.contains(&name.as_str()));
    names
}

#[test]
fn environment_reference_is_complete() {
    let settings = setting_variables().into_iter().map(|(name, _)| name);
    let tables = READ.iter().chain(&SET).chain(&DEBUG).map(|(name, _)| (*name).to_owned());
    let documented: BTreeSet<String> = settings.chain(tables).collect();
    assert_eq!(documented, names_in_program());
}

#[test]
fn environment_reads_are_found() {
    let text = "// \"NOTED\"\nlet a = env::var_os(\"SHELL\");\nconst B: &str = \"MY_NAME\";\n#[cfg(test)]\n\"TESTED\"";
    assert_eq!(names_in_source(text), ["MY_NAME", "SHELL"].map(str::to_owned).into());
    let text = "const A: &str = \"CALLSHEET_X\";\nconst B: &str = \"MY_NAME\";\n";
    assert_eq!(names_in_source(text), ["CALLSHEET_X".to_owned()].into());
}

#[test]
fn environment_reference_is_generated() {
    let mut page = String::from(
        "# Environment variables\n\nA test compares this page with the program's source.\n\n\
         ## Settings\n\nEach sets a key of the [configuration](configuration.md), if it is not empty.\n\n\
         | variable | key |\n|---|---|\n",
    );
    for (name, key) in setting_variables() {
        page.push_str(&format!("| `{name}` | `{key}` |\n"));
    }
    for (title, lead, table) in [
        ("Read by callsheet", "They have no key.", &READ[..]),
        (
            "Set for agents and checks",
            "A variable without a value is set and empty. No program that callsheet starts gets `CALLSHEET_LEDGER`, which can \
             contain a\npassword.",
            &SET[..],
        ),
        ("For tests", "Only debug builds read them.", &DEBUG[..]),
    ] {
        page.push_str(&format!("\n## {title}\n\n{lead}\n\n| variable | meaning |\n|---|---|\n"));
        for (name, meaning) in table {
            page.push_str(&format!("| `{name}` | {meaning} |\n"));
        }
    }
    compare_page("docs/environment.md", &page);
}
