//! Fills the holes of an agent's arguments, environment and files.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::toml_text::to_toml;
use super::{DeliveryAction, DeliveryContext, DeliveryText, refused_error};
use crate::compose::reply_instructions::SERVER;
use crate::diag::{Code, Diagnostic};
use crate::library::agent::{Agent, AgentArgument, ArgHole, ArgSpec, DeliveryMethod};

pub(super) struct HoleFiller<'a> {
    pub(super) agent: &'a Agent,
    /// The part of the prompt that goes into the system prompt; empty if there is none.
    pub(super) shared: &'a str,
    /// The rest of the prompt.
    pub(super) prompt: &'a str,
    pub(super) context: &'a DeliveryContext,
    /// The rules that allow single commands, in the agent's own form.
    pub(super) rules: Vec<String>,
    /// The value of a hole for which a part of a file is repeated.
    pub(super) current: Option<(ArgHole, String)>,
    /// Files that the arguments name, each once.
    pub(super) files: Vec<DeliveryAction>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl HoleFiller<'_> {
    pub(super) fn build_argv(&mut self, by: DeliveryMethod) -> Result<Vec<String>, Diagnostic> {
        let agent = self.agent;
        let Some(start) = &agent.start else { return Err(refused_error("the agent has no start command")) };
        let mut argv: Vec<String> = match &start.program {
            Some(program) => [program.clone()].into(),
            None => self.context.command.clone(),
        };
        let args = match (by, &agent.terminal) {
            (DeliveryMethod::Terminal, Some(terminal)) => &terminal.args,
            _ => &start.args,
        };
        for arg in args {
            argv.extend(self.fill_argument(arg, by));
        }
        Ok(argv)
    }

    pub(super) fn build_env(&mut self) -> BTreeMap<String, String> {
        let mut env = self.context.env.clone();
        let agent = self.agent;
        for (name, arg) in &agent.env {
            env.extend(
                self.fill_argument(arg, DeliveryMethod::Stdin).pop().map(|value| (name.clone(), value)),
            );
        }
        env
    }

    fn fill_argument(&mut self, arg: &AgentArgument, by: DeliveryMethod) -> Vec<String> {
        let spec = match arg {
            AgentArgument::Word(word) => return [word.clone()].into(),
            AgentArgument::Spec(spec) => spec,
        };
        let permitted = spec.permit.is_none_or(|permit| permit == self.context.permit);
        let with = spec.with.is_none_or(|hole| !self.hole_values(hole).is_empty());
        // The prompt is an argument only if it is delivered as one.
        let elsewhere = spec.hole == Some(ArgHole::Prompt) && by != DeliveryMethod::Argument;
        if !permitted || !with || elsewhere {
            return Vec::new();
        }
        let values = match (&spec.hole, &spec.file) {
            (Some(ArgHole::SharedFile), _) => {
                self.add_shared_file().map(|path| wrap_value(spec, &path)).into_iter().collect()
            }
            (Some(_), _) => self.fill_spec(spec),
            (None, Some(file)) => {
                self.add_file(file).map(|path| wrap_value(spec, &path)).into_iter().collect()
            }
            (None, None) => return spec.words.clone(),
        };
        values.into_iter().flat_map(|value| spec.words.iter().cloned().chain([value])).collect()
    }

    /// Returns the values for the hole of `spec`, in the form that it requires.
    fn fill_spec(&mut self, spec: &ArgSpec) -> Vec<String> {
        let Some(hole) = spec.hole else { return Vec::new() };
        let values = self.hole_values(hole);
        if spec.json && hole == ArgHole::McpArgs && self.context.mcp.is_some() {
            return [wrap_value(spec, &to_quoted(&Value::from(values)))].into();
        }
        // A parenthesis in a glob would end the rule that contains it.
        let (fit, unfit): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|value| !spec.suffix.contains(')') || !value.contains(['(', ')']));
        for value in unfit {
            let message = format!(
                "{} has no setting for `{value}`; its changes are checked after the run",
                self.agent.name
            );
            self.diagnostics.push(Diagnostic::warning(Code::DeliverOtherwise, message));
        }
        let json = |value: String| if spec.json { to_quoted(&Value::from(value)) } else { value };
        fit.into_iter().map(|value| wrap_value(spec, &json(value))).collect()
    }

    fn hole_values(&self, hole: ArgHole) -> Vec<String> {
        let how = self.context;
        if let Some((_, value)) = self.current.as_ref().filter(|(current, _)| *current == hole) {
            return [value.clone()].into();
        }
        let one = |value: &Option<String>| value.iter().cloned().collect();
        let mcp = how.mcp.as_ref();
        match hole {
            ArgHole::Model => one(&how.model),
            // A resumed session already has its id.
            ArgHole::Session if how.resume.is_some() => Vec::new(),
            ArgHole::Session => one(&how.session),
            ArgHole::Resume => one(&how.resume),
            ArgHole::McpServer => mcp.map(|_| SERVER.to_string()).into_iter().collect(),
            ArgHole::McpCommand => mcp.map(|mcp| mcp.command.clone()).into_iter().collect(),
            ArgHole::McpArgs => mcp.map(|mcp| mcp.args.clone()).unwrap_or_default(),
            ArgHole::Write => how.scope.write.clone(),
            ArgHole::Exclude => how.scope.exclude.clone(),
            ArgHole::Commands => self.rules.clone(),
            ArgHole::Prompt => [self.prompt.to_string()].into(),
            ArgHole::Shared => Some(self.shared)
                .filter(|shared| !shared.is_empty())
                .map(str::to_string)
                .into_iter()
                .collect(),
            ArgHole::SharedFile => self.shared_file().into_iter().collect(),
        }
    }

    /// Returns the path of the file with the shared part; `None` if there is no shared part.
    fn shared_file(&self) -> Option<String> {
        (!self.shared.is_empty()).then(|| format!("{}/shared.md", self.context.folder))
    }

    /// Returns the path of the file with the shared part and plans to write it.
    fn add_shared_file(&mut self) -> Option<String> {
        let path = self.shared_file()?;
        let text = DeliveryText::Part { before: String::new(), start: 0, end: self.shared.len() };
        self.files.push(DeliveryAction::Write { path: path.clone(), text });
        Some(path)
    }

    /// Returns the path of a file of the agent and plans to write it. Returns `None` if no hole of the file
    /// has a value.
    fn add_file(&mut self, name: &str) -> Option<String> {
        let agent = self.agent;
        let shape = agent.files.get(name)?;
        let mut used = false;
        let filled = self.fill_value(shape, &mut used);
        if !used {
            return None;
        }
        let (file, text) = match name.ends_with(".toml") {
            true => (name.to_string(), to_toml(&filled)),
            false => (format!("{name}.json"), format!("{filled}\n")),
        };
        let path = format!("{}/{file}", self.context.folder);
        let act = DeliveryAction::Write { path: path.clone(), text: DeliveryText::Text(text) };
        if !self.files.contains(&act) {
            self.files.push(act);
        }
        Some(path)
    }

    /// Returns a file's contents with the holes filled. Sets `used` if one of them has a value.
    fn fill_value(&mut self, shape: &Value, used: &mut bool) -> Value {
        match shape {
            Value::Object(map) if map.contains_key("hole") => {
                let values = self.fill_hole(shape);
                *used |= !values.is_empty();
                match parse_hole(shape) {
                    Some(hole) if self.current.as_ref().is_some_and(|(current, _)| *current == hole) => {
                        values.into_iter().next().map_or(Value::Null, Value::from)
                    }
                    Some(ArgHole::McpArgs | ArgHole::Write | ArgHole::Exclude | ArgHole::Commands) => {
                        Value::from(values)
                    }
                    _ => values.into_iter().next().map_or(Value::Null, Value::from),
                }
            }
            Value::Object(map) => {
                let filled = map.iter().map(|(key, shape)| (key.clone(), self.fill_value(shape, used)));
                Value::Object(filled.collect::<Map<_, _>>())
            }
            // In a list, a hole with several values becomes several items.
            Value::Array(items) => {
                let mut filled = Vec::new();
                for item in items {
                    if let Some((hole, rest)) = parse_each(item) {
                        for value in self.hole_values(hole) {
                            let before = self.current.replace((hole, value));
                            filled.push(self.fill_value(&rest, used));
                            self.current = before;
                        }
                    } else if parse_hole(item).is_some() {
                        let values = self.fill_hole(item);
                        *used |= !values.is_empty();
                        filled.extend(values.into_iter().map(Value::from));
                    } else {
                        filled.push(self.fill_value(item, used));
                    }
                }
                Value::Array(filled)
            }
            other => other.clone(),
        }
    }

    fn fill_hole(&mut self, shape: &Value) -> Vec<String> {
        // A shape that cannot be read was reported with the agent's file.
        serde_json::from_value::<ArgSpec>(shape.clone()).map(|spec| self.fill_spec(&spec)).unwrap_or_default()
    }
}

/// Returns the hole for whose values a table of a list is repeated, and the table without it.
fn parse_each(item: &Value) -> Option<(ArgHole, Value)> {
    let mut rest = item.as_object()?.clone();
    let hole = serde_json::from_value(rest.remove("each")?).ok()?;
    Some((hole, Value::Object(rest)))
}

fn parse_hole(shape: &Value) -> Option<ArgHole> {
    serde_json::from_value(shape.get("hole")?.clone()).ok()
}

/// Returns a value as JSON that is valid TOML too: TOML has no unescaped DEL.
pub(super) fn to_quoted(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}

fn wrap_value(spec: &ArgSpec, value: &str) -> String {
    [&spec.prefix, value, &spec.suffix].concat()
}
