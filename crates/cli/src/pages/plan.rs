//! Renders a run before its start: what would be started, and within which limits.

use callsheet::output::RunPlanOutput;
use callsheet::paths::shell_word;
use callsheet::run::cost::dollars;
use callsheet_core::delivery::DeliveryAction;
use callsheet_core::diag::escape_invisible;

use super::result::duration_words;
use super::{counted, parts_line};

/// Renders a run before its start.
pub(crate) fn plan_page(plan: &RunPlanOutput) -> String {
    let launch = &plan.launch;
    let mut page = String::from("dry run: nothing is started or recorded\n");
    let mut row = |name: &str, text: &str| page += &format!("  {name:<10} {}\n", escape_invisible(text));
    for action in &plan.actions {
        match action {
            DeliveryAction::Write { path, .. } => row("write", path),
            DeliveryAction::Spawn { argv, .. } => row("start", &command_line(argv)),
            DeliveryAction::Open { argv, .. } => {
                row("start", &format!("{} (in a terminal)", command_line(argv)))
            }
            DeliveryAction::Await { .. } => row("wait", "until the agent accepts a line"),
            DeliveryAction::Type { line, .. } => row("type", line),
        }
    }
    row("in", &launch.worktree);
    let tokens = &plan.tokens;
    let about = if tokens.estimated { "about " } else { "" };
    row("prompt", &format!("{}, {about}{}", counted(tokens.bytes, "byte"), counted(tokens.total, "token")));
    if !launch.parts.is_empty() {
        row("in parts", &parts_line(&launch.parts));
    }
    row("permits", launch.permit.name());
    for command in &launch.allowed {
        row("allows", command);
    }
    row("may write", &launch.scope.write.join(" "));
    if !launch.scope.exclude.is_empty() {
        row("never", &launch.scope.exclude.join(" "));
    }
    if launch.no_scope {
        row("note", "the scope is not checked");
    }
    for check in &launch.checks {
        row("check", &format!("{}: {}", check.name, command_line(&check.argv)));
    }
    if launch.checks.is_empty() {
        row("checks", "none");
    }
    if let Some(limit) = launch.timeout_ms {
        row("timeout", &duration_words(limit));
    }
    if let Some(limit) = launch.max_cost_microusd {
        row("max cost", &dollars(limit));
    }
    page
}

fn command_line(words: &[String]) -> String {
    words.iter().map(|word| shorten_word(word)).collect::<Vec<_>>().join(" ")
}

/// The most bytes of an argument that are shown; the shared part of a prompt may be one.
const WORD: usize = 400;

fn shorten_word(word: &str) -> String {
    if word.len() <= WORD {
        return shell_word(word);
    }
    let start = &word[..word.floor_char_boundary(WORD / 10)];
    format!("{} … ({})", shell_word(start), counted(word.len(), "byte"))
}
