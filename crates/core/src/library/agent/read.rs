//! Finds and reads the files of agents.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Agent, find_problems};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{DynLibrary, list_names};
use crate::library::read_toml::{FileFormat, ReadErrorCodes, check_length, find_file, read_data};
use crate::source::SourceId;
use crate::text::SharedText;

/// Reads and checks an agent's file.
pub fn read_agent(id: &SourceId, text: &SharedText) -> Result<Agent, Diagnostics> {
    check_length(id, text, Code::AgentBad)?;
    let codes = ReadErrorCodes { bad: Code::AgentBad, unknown: Code::AgentBad };
    let agent: Agent = read_data(&id.to_string(), text, FileFormat::Toml, codes)?;
    let wrong: Vec<Diagnostic> = find_problems(&agent)
        .into_iter()
        .map(|(message, hint)| Diagnostic::error(Code::AgentBad, format!("{id}: {message}")).hint(hint))
        .collect();
    if wrong.is_empty() { Ok(agent) } else { Err(Diagnostics(wrong)) }
}

/// Returns the name of the agent's file: `CLAUDE` is `claude` if there is no `CLAUDE`.
pub fn resolve_agent_name(library: &DynLibrary<'_>, name: String, layout: &Layout) -> String {
    let lower = name.to_ascii_lowercase();
    let is_there = |name: &str| {
        library.read_file(&format!("agents/{name}.toml"), layout).is_ok_and(|file| file.is_some())
    };
    if lower == name || is_there(&name) || !is_there(&lower) && lower != "base" { name } else { lower }
}

/// Checks whether the agent has a system template. Some agents have nothing else.
pub(crate) fn has_system_template(library: &DynLibrary<'_>, name: &str, layout: &Layout) -> bool {
    let start = format!("{}-", name.to_ascii_uppercase());
    list_names(&library.sources, "templates/system", layout).iter().any(|file| file.starts_with(&start))
}

/// Finds and reads the agent `name`. Returns the id of its file, too.
pub fn find_agent(
    library: &DynLibrary<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, Agent), Diagnostics> {
    let (id, text) = find_file(library, "agents", name, layout, Code::AgentNotFound)?;
    let agent = read_agent(&id, &text)?;
    Ok((id, agent))
}
