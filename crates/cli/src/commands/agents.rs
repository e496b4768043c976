//! `callsheet agents`: lists the supported agents and the installed programs.

use callsheet_core::diag::escape_invisible;
use serde_json::{Value, json};

use crate::context::CommandContext;
use callsheet::error::CommandResult;
use callsheet::run::installed_agents::{self, InstalledAgent};

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let all = app.print.run_with_progress(
        || "asking the agents for their versions".into(),
        || installed_agents::list_agents(app),
    )?;
    if app.print.json {
        return app.print.print_value(&all.iter().map(agent_json).collect());
    }
    for found in &all {
        let state = match (&found.path, found.agent.start.as_ref().and_then(|start| start.program.as_ref())) {
            (Some(path), _) => match &found.version {
                Some(version) => format!("{version}  {}", path.display()),
                None => path.display().to_string(),
            },
            (None, Some(program)) => format!("`{program}` is not installed"),
            (None, None) => "any program".into(),
        };
        app.print.print_line(&format!(
            "{:9}  {:13}  {}",
            escape_invisible(&found.name),
            escape_invisible(&found.agent.name),
            escape_invisible(&state)
        ))?;
    }
    Ok(0)
}

fn agent_json(found: &InstalledAgent) -> Value {
    json!({
        "agent": found.name,
        "name": found.agent.name,
        "source": found.source,
        "program": found.agent.start.as_ref().and_then(|start| start.program.as_ref()),
        "path": found.path.as_ref().map(|path| path.display().to_string()),
        "version": found.version,
        "prompt_by": found.agent.prompt.by,
    })
}
