//! Offers the project's templates as prompts: composed by the engine, with their variables as arguments.

use callsheet::error::Result;
use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::recipe::DeriveSpec;
use callsheet_core::library::template::{Template, TemplateNotation};
use callsheet_core::render::render;
use callsheet_core::secrets::{Gate, SecretRules};
use callsheet_core::{Request, SharedText, Sources as _, candidates, compose, read_recipe};
use callsheet_lint::catalog::{TemplateSummary, list_templates};
use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Map, Value};

use super::server::SessionServer;
use callsheet::paths::{is_in_git, relative_path};

/// The task in words, an argument of every prompt.
const INSTRUCTIONS: &str = "instructions";

pub(super) fn list(server: &SessionServer) -> Vec<Prompt> {
    let session = &server.session;
    let templates = list_templates(&session.disk, &session.layout);
    templates.iter().filter_map(|template| describe_prompt(server, template)).collect()
}

fn describe_prompt(server: &SessionServer, template: &TemplateSummary) -> Option<Prompt> {
    let asked = request_for(template)?;
    let derived = read_derived(server, asked.recipe.as_deref().unwrap_or_default());
    let text = server.session.disk.text(&template.source).ok()??;
    let notation = if template.path.starts_with("agents/") || template.path.starts_with("commands/") {
        TemplateNotation::Brackets
    } else {
        TemplateNotation::Braces
    };
    let front = Template::parse(template.source.clone(), text, notation).ok()?.front;
    let mut arguments: Vec<PromptArgument> = Vec::new();
    for name in &template.variables {
        let variable = front.variable(name);
        // An optional variable is either derived by the engine or has a default.
        let required = !derived.contains_key(name) && variable.is_none_or(|variable| variable.required);
        let argument = PromptArgument::new(name).with_required(required && name != INSTRUCTIONS);
        let description = variable.and_then(|variable| variable.description.clone());
        arguments.push(match description {
            Some(description) => argument.with_description(description),
            None => argument,
        });
    }
    for name in derived_inputs(template, &derived) {
        arguments.push(PromptArgument::new(name).with_required(false));
    }
    if !template.variables.iter().any(|name| name == INSTRUCTIONS) {
        arguments.push(PromptArgument::new(INSTRUCTIONS).with_required(false));
    }
    Some(Prompt::new(template.path.clone(), template.description.clone(), Some(arguments)))
}

/// Returns the slots that the recipe derives, by name.
fn read_derived(server: &SessionServer, recipe: &str) -> BTreeMap<String, DeriveSpec> {
    let session = &server.session;
    let places = candidates(&format!("recipes/{recipe}.toml"), &session.layout);
    let found = places.iter().find_map(|id| Some((id, session.disk.text(id).ok()??)));
    let recipe = found.and_then(|(id, text)| read_recipe(id, &text).ok());
    recipe.map(|recipe| recipe.derive).unwrap_or_default()
}

/// Returns the inputs of a template's derived values, each once.
fn derived_inputs(
    template: &TemplateSummary,
    derived: &BTreeMap<String, DeriveSpec>,
) -> BTreeSet<&'static str> {
    let asked = template.variables.iter().filter_map(|name| derived.get(name));
    let inputs = asked.flat_map(|derive| derive.from.inputs().iter().copied());
    inputs.filter(|name| !template.variables.iter().any(|known| known == name)).collect()
}

pub(super) fn get(
    server: &SessionServer,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<GetPromptResult> {
    let session = &server.session;
    let templates = list_templates(&session.disk, &session.layout);
    let found = templates.iter().find(|template| template.path == name);
    let Some((template, mut asked)) = found.and_then(|template| Some((template, request_for(template)?)))
    else {
        let known = || templates.iter().filter(|template| request_for(template).is_some());
        let wrong = Diagnostic::error(Code::TemplateNotFound, format!("unknown prompt `{name}`"));
        return Err(wrong.suggest(name, known().map(|template| template.path.as_str())).into());
    };
    let derived = read_derived(server, asked.recipe.as_deref().unwrap_or_default());
    let inputs = derived_inputs(template, &derived);
    for (key, value) in arguments {
        let Value::String(text) = value else {
            let message = format!("the argument `{key}` must be a string");
            return Err(Diagnostic::error(Code::RequestBad, message).into());
        };
        let text = SharedText::from(text.as_str());
        if key == INSTRUCTIONS {
            asked.instructions = Some(text);
        } else if template.variables.contains(key) || inputs.contains(key.as_str()) {
            asked.values.insert(key.as_str().into(), text);
        } else {
            let known = template.variables.iter().map(String::as_str);
            let known = known.chain(inputs.iter().copied()).chain([INSTRUCTIONS]);
            let wrong =
                Diagnostic::error(Code::RequestUnknownKey, format!("`{name}` has no argument `{key}`"));
            let all: Vec<&str> = known.clone().collect();
            let wrong = wrong.suggest(key, known).hint(format!("known arguments: {}", all.join(", ")));
            return Err(wrong.into());
        }
    }
    asked.agent = asked.agent.or_else(|| server.agent.clone());
    asked.layout = session.layout.clone();
    asked.mcp = true;
    asked.no_git = !is_in_git(&session.project);
    asked.session = Some(relative_path(&session.project, &session.dir)).filter(|way| way != ".");
    let rules = SecretRules::load(&session.disk, &session.layout)?;
    let gate = Gate::new(&rules, server.secrets);
    gate.scan_request(&mut asked);
    let composed = compose(&asked, &gate.wrap_sources(&session.disk))
        .map_err(|failure| gate.mask_diagnostics(failure))?;
    let rendered = render(&composed.prompt, composed.prompt.format, None)?;
    gate.judge(&asked, &composed.prompt, &rendered)?;
    let message = PromptMessage::new_text(Role::User, rendered.text);
    let result = GetPromptResult::new(vec![message]);
    Ok(match &template.description {
        Some(description) => result.with_description(description.clone()),
        None => result,
    })
}

/// Returns the request whose main template is this one. Fragments, which are only used inside other
/// templates, have none.
fn request_for(template: &TemplateSummary) -> Option<Request> {
    let (folder, name) = template.path.rsplit_once('/')?;
    let name = Some(name.to_owned());
    let of = |recipe: &str| Request { recipe: Some(recipe.to_owned()), ..Request::default() };
    Some(match folder {
        "agents" => Request { role: name, ..of("staged") },
        "commands" => Request { command: name, ..of("staged") },
        "identity" => Request { role: name, ..of("layers") },
        "profiles" => Request { role: name, ..of("run") },
        "system" => Request {
            agent: template.agent.as_ref().map(|agent| agent.to_lowercase()),
            phase: Some(template.phase.clone()?),
            ..of("unified")
        },
        _ => return None,
    })
}
