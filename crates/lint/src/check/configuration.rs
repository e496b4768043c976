//! Checks the names in configuration files: the recipe and the agent that a run would use. The settings themselves are
//! checked when the configuration is read.

use alloc::format;

use super::LintProblems;
use crate::catalog::{SourceCatalog, is_agent, value_range_in};
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::source::{SourceId, SourceRoot, Sources};
use toml::de::DeTable;

/// Files of settings, each in its root.
const FILES: [(SourceRoot, &str); 2] =
    [(SourceRoot::Project, ".callsheet/config.toml"), (SourceRoot::User, "config.toml")];

/// Reports every recipe and agent that a configuration file names and no root holds.
pub(super) fn check(catalog: &SourceCatalog, sources: &dyn Sources, problems: &mut LintProblems) {
    for (root, path) in FILES {
        let Ok(id) = SourceId::new(root, path) else { continue };
        let Ok(Some(text)) = sources.text(&id) else { continue };
        // A file that cannot be parsed is reported when the configuration is read.
        let Ok(table) = DeTable::parse(&text) else { continue };
        for (key, folder, code) in
            [("recipe", "recipes", Code::RecipeNotFound), ("agent", "agents", Code::AgentNotFound)]
        {
            let Some(name) = table.get_ref().get(key).and_then(|value| value.get_ref().as_str()) else {
                continue;
            };
            let path = format!("{folder}/{name}.toml");
            let is_known = match code {
                // Case does not matter, and an agent can have a system template only.
                Code::AgentNotFound => {
                    is_agent(&catalog.agents, name, true) || has_system_template(catalog, name)
                }
                _ => catalog.files.winner(&path).is_some(),
            };
            if !is_known {
                let at = value_range_in(&text, &[key]);
                let error = Diagnostic::error(code, format!("no `{path}`"))
                    .searched(catalog.candidate_places(&path))
                    .suggest(name, catalog.files.names(folder, ".toml"))
                    .at(&id, &text, at.start..at.end);
                problems.add(&id, error);
            }
        }
    }
}

fn has_system_template(catalog: &SourceCatalog, agent: &str) -> bool {
    let start = format!("{}-", agent.to_ascii_uppercase());
    catalog.files.names("templates/system", ".md").any(|file| file.starts_with(&start))
}
