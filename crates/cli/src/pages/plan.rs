//! Renders a run before its start: what would be started, and within which limits.

use callsheet::output::RunPlanOutput;
use callsheet::paths::shell_word;
use callsheet::run::cost::dollars;
use callsheet_core::delivery::DeliveryAction;
use callsheet_core::diag::escape_invisible;

use super::counted;
use super::result::duration_words;

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
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}
