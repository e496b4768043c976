//! The variables of an agent, and the command of the MCP server for its run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callsheet_core::delivery::McpServerCommand;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::Run;
use callsheet_run::find_own_program;

use super::options::RunSetup;
use crate::error::Result;
use crate::project::Project;
use crate::project::state::state_dir;

pub(super) fn path_to_utf8(path: &Path) -> Result<String> {
    let shown = path.to_str().map(str::to_owned);
    let odd = || Diagnostic::error(Code::DeliverRefused, format!("`{}` is not UTF-8", path.display()));
    shown.ok_or_else(|| odd().into())
}

pub(super) fn build_environment(
    setup: &RunSetup,
    run: &Run,
    session: Option<PathBuf>,
) -> BTreeMap<String, String> {
    let mut env = setup.env.clone();
    let session = setup.session.clone().or(session).and_then(|session| session.to_str().map(str::to_owned));
    let of_flow = |key: &str| setup.flow.get(key).cloned();
    let own = [
        ("CALLSHEET_RUN", Some(run.id.to_string())),
        ("CALLSHEET_PHASE", of_flow("phase").or_else(|| run.phase.clone())),
        ("CALLSHEET_ROLE", run.role.clone().or_else(|| of_flow("role"))),
        ("CALLSHEET_LANE", of_flow("lane")),
        ("CALLSHEET_FLOW", of_flow("flow")),
        ("CALLSHEET_TASK", of_flow("task").or_else(|| run.task.clone())),
        ("CALLSHEET_SESSION", session),
    ];
    for (name, value) in own {
        // An unset value must not be inherited from the surrounding environment.
        env.insert(name.into(), value.unwrap_or_default());
    }
    env
}

/// Returns the command of the MCP server for this run only.
pub(super) fn mcp_server_command(project: &Project, setup: &RunSetup, run: &Run) -> Result<McpServerCommand> {
    let program =
        find_own_program().map_err(|error| Diagnostic::error(Code::RunNotStarted, error.to_string()))?;
    let mut args: Vec<String> =
        vec!["-C".into(), path_to_utf8(&project.dir)?, "mcp".into(), "--run".into(), run.id.to_string()];
    args.extend(["--state".into(), path_to_utf8(&state_dir()?)?]);
    if let Some(session) = &setup.session {
        args.extend(["--session".into(), path_to_utf8(session)?]);
    }
    if let Some(role) = &run.role {
        args.extend(["--role".into(), role.clone()]);
    }
    if setup.proposes {
        args.push("--proposes".into());
    }
    Ok(McpServerCommand { command: path_to_utf8(&program)?, args })
}
