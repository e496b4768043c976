//! Calls of an agent that were denied, and the flags that would have let them pass.

use callsheet_core::AllowedCommand;
use callsheet_core::library::agent::{PermissionLevel, ToolCall};
use callsheet_core::record::RunSummary;
use schemars::JsonSchema;
use serde::Serialize;

use crate::paths::shell_word;

/// A call of a tool that was denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeniedCallOutput {
    /// The name of the tool.
    pub tool: String,
    /// What it was called with, such as a command or a path.
    pub detail: Option<String>,
    /// The command that has to be allowed, such as `pytest *`; `null` if no single command would do.
    pub allow: Option<String>,
}

impl From<&ToolCall> for DeniedCallOutput {
    fn from(call: &ToolCall) -> Self {
        let allow = missing_command(call).map(|command| command.to_string());
        Self { tool: call.tool.clone(), detail: call.detail.clone(), allow }
    }
}

/// Returns the command that has to be allowed. A record can contain anything, so it is parsed again.
fn missing_command(call: &ToolCall) -> Option<AllowedCommand> {
    AllowedCommand::parse(call.allow.as_ref()?).ok()
}

/// The most commands of one suggestion.
const MOST_COMMANDS: usize = 5;

/// Returns the flags with which the denied commands of a run pass, if there are any.
pub fn missing_flags(summary: &RunSummary) -> Option<String> {
    let launch = summary.launch.as_ref()?;
    let mut commands: Vec<AllowedCommand> = Vec::new();
    for command in summary.exit.iter().flat_map(|exit| &exit.report.denied).filter_map(missing_command) {
        if !commands.iter().any(|known| known.covers(&command)) {
            commands.retain(|known| !command.covers(known));
            commands.push(command);
        }
    }
    commands.truncate(MOST_COMMANDS);
    let flags = commands.iter().map(|command| format!("--allow {}", shell_word(&command.to_string())));
    // Single commands are allowed besides edits.
    let permit = (launch.options.permit == PermissionLevel::Ask).then(|| "--permit edit".to_owned());
    let flags: Vec<String> = permit.into_iter().chain(flags).collect();
    (!commands.is_empty()).then(|| flags.join(" "))
}

/// Returns a denied call in one line, with the flag that would have let it pass.
pub fn denial_line(call: &ToolCall) -> String {
    let said = match &call.detail {
        Some(detail) => format!("{}: {detail}", call.tool),
        None => call.tool.clone(),
    };
    match missing_command(call) {
        Some(command) => format!("{said}  (to allow it: --allow {})", shell_word(&command.to_string())),
        None => said,
    }
}
