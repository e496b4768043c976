//! Checks of an agent's file that a schema cannot express.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use crate::library::agent::{
    Agent, AgentArgument, ArgHole, ArgSpec, DeliveryMethod, EventPattern, FaultPattern, ProbeSpec,
    StreamSpec, TerminalSpec, ToolPattern, UsagePattern,
};
use crate::text::name::{NAME_HINT, is_name};

/// A problem and its hint.
type AgentProblem = (String, &'static str);

pub(crate) fn find_problems(agent: &Agent) -> Vec<AgentProblem> {
    let mut found = Vec::new();
    let mut bad = |message: String, hint: &'static str| found.push((message, hint));
    let start = agent.start.iter();
    for program in start.clone().filter_map(|start| start.program.as_ref()) {
        if program.trim().is_empty() || program.starts_with('-') || program.contains(char::is_control) {
            bad(format!("invalid program `{program}`"), "give its name, or its path");
        }
    }
    let headless = start.flat_map(|start| &start.args).map(|arg| ("start.args", arg));
    let terminal = agent.terminal.iter().flat_map(|terminal| &terminal.args);
    let terminal = terminal.map(|arg| ("terminal.args", arg));
    let env = agent.env.values().map(|arg| ("env", arg));
    for (place, arg) in headless.chain(terminal).chain(env) {
        if let AgentArgument::Spec(spec) = arg {
            check_argument(agent, place, spec, &mut bad);
        }
    }
    for (name, value) in &agent.files {
        if !is_name(name.strip_suffix(".toml").unwrap_or(name)) {
            bad(format!("invalid file name `{name}`"), NAME_HINT);
        }
        visit_holes(value, &mut |spec| match spec {
            Ok(spec) => check_argument(agent, "files", &spec, &mut bad),
            Err(error) => bad(format!("`files.{name}`: {error}"), "a hole is `{ hole = \"model\" }`"),
        });
    }
    let takes = |way: DeliveryMethod| agent.prompt.by.contains(&way);
    let in_arguments = agent.start.iter().flat_map(|start| &start.args).any(has_prompt_hole);
    if takes(DeliveryMethod::Argument) != in_arguments {
        bad(
            "`prompt.by` and `start.args` disagree about the prompt as an argument".to_string(),
            "`argument` in the one needs `{ hole = \"prompt\" }` in the other",
        );
    }
    if agent.prompt.split && !agent.can_split() {
        bad(
            "`prompt.split` is set, but no argument takes the shared part".to_string(),
            "add `{ hole = \"shared_file\" }` or `{ hole = \"shared\" }` to `start.args`",
        );
    }
    if takes(DeliveryMethod::Terminal) && agent.terminal.is_none() {
        bad("`prompt.by` has `terminal`, but there is no `[terminal]`".to_string(), "describe its screen");
    }
    if let Some(terminal) = &agent.terminal {
        check_terminal(terminal, &mut bad);
    }
    check_patterns(agent, &mut bad);
    let has_commands = has_commands_hole(agent);
    found.extend(agent.commands.iter().flat_map(|commands| commands.find_problems(has_commands)));
    found.extend(agent.probe.iter().flat_map(ProbeSpec::find_problems));
    found.extend(agent.output.stream.iter().flat_map(StreamSpec::find_problems));
    found
}

fn has_commands_hole(agent: &Agent) -> bool {
    let is_hole = |hole: Option<ArgHole>| hole == Some(ArgHole::Commands);
    let mut found = false;
    for value in agent.files.values() {
        visit_holes(value, &mut |spec| found |= spec.is_ok_and(|spec| is_hole(spec.hole)));
    }
    let args = agent.start.iter().flat_map(|start| &start.args);
    found || args.into_iter().any(|arg| matches!(arg, AgentArgument::Spec(spec) if is_hole(spec.hole)))
}

fn has_prompt_hole(arg: &AgentArgument) -> bool {
    matches!(arg, AgentArgument::Spec(ArgSpec { hole: Some(ArgHole::Prompt), .. }))
}

fn check_argument(agent: &Agent, place: &str, spec: &ArgSpec, bad: &mut impl FnMut(String, &'static str)) {
    let value = spec.hole.is_some() || spec.file.is_some();
    if spec.hole.is_some() && spec.file.is_some() {
        bad(format!("`{place}`: an argument has a hole and a file"), "give only one of them");
    }
    if !value && spec.words.is_empty() {
        bad(format!("`{place}`: an argument is empty"), "give `words`, a `hole` or a `file`");
    }
    if !value && (spec.json || !spec.prefix.is_empty() || !spec.suffix.is_empty()) {
        bad(format!("`{place}`: an argument has a form but no value"), "give a `hole` or a `file`");
    }
    if let Some(file) = spec.file.as_ref().filter(|file| !agent.files.contains_key(*file)) {
        bad(format!("`{place}`: unknown file `{file}`"), "describe it in `[files]`");
    }
}

fn check_terminal(terminal: &TerminalSpec, bad: &mut impl FnMut(String, &'static str)) {
    let blank = |words: &[String]| words.is_empty() || words.iter().any(|word| word.trim().is_empty());
    if blank(&terminal.ready) || terminal.composer.trim().is_empty() {
        bad(
            "`terminal`: no screen text shows that the agent is ready".to_string(),
            "give `ready` and `composer`",
        );
    }
    for dialog in terminal.dialogs.iter().filter(|dialog| blank(&dialog.shows)) {
        bad(
            format!("the dialog `{}` matches every screen", dialog.name),
            "add the text of its screen to `shows`",
        );
    }
    for line in
        terminal.lines_before(true).filter(|line| line.trim().is_empty() || line.contains(char::is_control))
    {
        bad(format!("`{line}` is not one line"), "give one line without control characters");
    }
}

fn check_patterns(agent: &Agent, bad: &mut impl FnMut(String, &'static str)) {
    let events = &agent.events;
    let of_transcript =
        agent.transcript.iter().flat_map(|transcript| transcript.echoed.iter().chain(&transcript.shared));
    let all =
        [&events.accepted, &events.echoed, &events.acting, &events.ended, &events.answered, &events.results];
    let places =
        all.into_iter().flatten().chain(of_transcript).flat_map(|EventPattern(places)| places.keys());
    let pointers = [
        &events.session,
        &events.input_tokens,
        &events.output_tokens,
        &events.cached_tokens,
        &events.cost_usd,
        &events.cache_written_tokens,
        &events.total_tokens,
        &events.model,
        &events.version,
    ];
    let tools = events.tools.iter().chain(&events.denied).flat_map(ToolPattern::places);
    let usage = events.usage.iter().flat_map(UsagePattern::places);
    let faults = events.faults.iter().flat_map(FaultPattern::places);
    let all = places.chain(pointers.into_iter().flatten()).chain(tools).chain(usage).chain(faults);
    for place in all.filter(|place| !place.starts_with('/')) {
        bad(format!("`{place}` is not a JSON pointer"), "a pointer begins with a slash, such as `/type`");
    }
    for problem in events.faults.iter().filter_map(FaultPattern::find_problem) {
        bad(
            format!("`events.faults`: {problem}"),
            "a form is such as `Attempt {attempt} failed with status {status}`",
        );
    }
    if let Some(transcript) = &agent.transcript {
        for path in [&transcript.home, &transcript.folder] {
            if path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..") {
                bad(format!("`transcript`: `{path}` is not below the home"), "give a path below it");
            }
        }
    }
}

/// Calls `each` with every hole in a file.
fn visit_holes(value: &Value, each: &mut impl FnMut(serde_json::Result<ArgSpec>)) {
    match value {
        Value::Object(map) if map.contains_key("hole") => {
            each(serde_json::from_value(value.clone()));
        }
        Value::Object(map) => map.values().for_each(|value| visit_holes(value, each)),
        Value::Array(values) => values.iter().for_each(|value| visit_holes(value, each)),
        _ => {}
    }
}
