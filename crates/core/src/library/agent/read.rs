//! Finds and reads the files of agents.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Agent, StreamSpec, find_problems};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{DynLibrary, Library, list_names};
use crate::library::read_toml::{FileFormat, ReadErrorCodes, check_length, find_file, read_data};
use crate::source::SourceId;
use crate::source::builtin::Builtin;
use crate::text::SharedText;

/// Reads and checks an agent's file.
pub fn read_agent(id: &SourceId, text: &SharedText) -> Result<Agent, Diagnostics> {
    check_length(id, text, Code::AgentBad)?;
    let mut agent = parse_agent(id, text)?;
    if agent.output.stream.is_none() {
        agent.output.stream = find_shipped_stream(agent.output.format.as_deref())?;
    }
    let wrong: Vec<Diagnostic> = find_problems(&agent)
        .into_iter()
        .map(|(message, hint)| Diagnostic::error(Code::AgentBad, format!("{id}: {message}")).hint(hint))
        .collect();
    if wrong.is_empty() { Ok(agent) } else { Err(Diagnostics(wrong)) }
}

fn parse_agent(id: &SourceId, text: &SharedText) -> Result<Agent, Diagnostics> {
    let codes = ReadErrorCodes { bad: Code::AgentBad, unknown: Code::AgentBad };
    read_data(&id.to_string(), text, FileFormat::Toml, codes)
}

/// Returns the stream of the shipped agent that has this output format; none for a text.
fn find_shipped_stream(format: Option<&str>) -> Result<Option<StreamSpec>, Diagnostics> {
    let Some(format) = format.filter(|format| *format != TEXT) else { return Ok(None) };
    let mut known = alloc::vec![TEXT.to_string()];
    let layout = Layout::default();
    for name in list_names(&Builtin, "agents", &layout) {
        let (id, text) = find_file(&Library::new(&Builtin), "agents", &name, &layout, Code::AgentNotFound)?;
        let output = parse_agent(&id, &text)?.output;
        if output.format.as_deref() == Some(format) {
            return Ok(output.stream);
        }
        known.extend(output.format);
    }
    let message = format!("`output.format` is `{format}`, not one of {}", known.join(", "));
    Err(Diagnostic::error(Code::AgentBad, message).hint("or describe its events in `[output.stream]`").into())
}

/// The output format of agents that print no events.
const TEXT: &str = "text";

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
