//! `callsheet agents`: lists the supported agents and the installed programs.

use callsheet::output::{AgentOutput, ListOutput};
use callsheet_core::diag::escape_invisible;

use crate::context::CommandContext;
use callsheet::error::CommandResult;
use callsheet::run::installed_agents::{InstalledAgent, list_agents};

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let progress = app.observer.show_progress(Box::new(|| "asking the agents for their versions".into()));
    let all = list_agents(app)?;
    drop(progress);
    app.print.print_output(
        || all.iter().map(AgentOutput::from).collect::<ListOutput<_>>(),
        || all.iter().map(agent_line).collect(),
    )
}

fn agent_line(found: &InstalledAgent) -> String {
    let state = match (&found.path, found.agent.start.as_ref().and_then(|start| start.program.as_ref())) {
        (Some(path), _) => match &found.version {
            Some(version) => format!("{version}  {}", path.display()),
            None => path.display().to_string(),
        },
        (None, Some(program)) => format!("`{program}` is not installed"),
        (None, None) => "any program".into(),
    };
    let [id, name, state] = [&found.name, &found.agent.name, &state].map(|text| escape_invisible(text));
    format!("{id:9}  {name:13}  {state}\n")
}
