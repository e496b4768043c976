//! Preferences of roles, one extension file per role. Agents propose; persons decide.

use std::collections::BTreeMap;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::library::lookup::list_roles;
use callsheet_core::library::preferences::{Preference, extension_path, list_bullets, remove_bullet};
use callsheet_core::{SourceId, SourceRoot, Sources as _};

use crate::error::Result;
use crate::flow::find::find_proposed;
use crate::project::Project;
use crate::project::person::{refuse_agent, refuse_below_guard};
use crate::session::{add_preferences, open_folder};

impl Project {
    /// Returns the file with the preferences of a role, relative to the caller's directory.
    pub fn preference_file(&self, role: &str) -> String {
        self.path_from_here(&extension_path(&self.config.layout(), role))
    }

    /// Returns the preferences by role, or those of one role.
    pub fn list_preferences(&self, only: Option<&str>) -> Result<BTreeMap<String, Vec<String>>> {
        let (disk, layout) = (self.disk(None), self.config.layout());
        let mut known = list_roles(&disk, &layout);
        if let Some(only) = only {
            check_preference(self, only, "x")?;
            known.retain(|role| role == only);
        }
        let mut all = BTreeMap::new();
        for role in known {
            let Ok(id) = SourceId::new(SourceRoot::Project, &extension_path(&layout, &role)) else {
                continue;
            };
            let text = disk.text(&id).map_err(|error| {
                Diagnostic::error(Code::SourceUnreadable, format!("cannot read `{id}`: {error}"))
            })?;
            let bullets = text.as_deref().map(list_bullets).unwrap_or_default();
            if !bullets.is_empty() {
                all.insert(role, bullets.into_iter().map(String::from).collect());
            }
        }
        Ok(all)
    }

    /// Adds a preference. Returns what is new, which is nothing if the role has it already.
    pub fn add_preference(&self, role: &str, text: &str) -> Result<Vec<String>> {
        refuse_below_guard()?;
        let preference = check_preference(self, role, text)?;
        Ok(self.store_preferences(&[preference])?.remove(role).unwrap_or_default())
    }

    /// Stores what agents of flows proposed, if a person agrees: all of it, that for a role, or one preference. Returns what
    /// is new by role, which is empty if nothing of that kind is proposed.
    pub fn approve_preferences(
        &self,
        role: Option<&str>,
        text: Option<&str>,
        yes: bool,
    ) -> Result<BTreeMap<String, Vec<String>>> {
        refuse_below_guard()?;
        if let Some(role) = role {
            check_preference(self, role, "x")?;
        }
        refuse_agent("an agent cannot approve its own proposal")?;
        let mut ledger = self.write_ledger()?;
        self.refuse_below_ledger_guard(&mut ledger)?;
        let mut proposed = find_proposed(self, &mut ledger)?;
        proposed.retain(|preference| {
            role.is_none_or(|role| preference.role == role)
                && text.is_none_or(|text| preference.bullet == text)
        });
        if !proposed.is_empty() {
            self.require_person(yes)?;
        }
        self.store_preferences(&proposed)
    }

    /// Removes a preference, and returns it as it was written; `None` if the role has none that says so.
    pub fn remove_preference(&self, role: &str, text: &str) -> Result<Option<String>> {
        refuse_below_guard()?;
        check_preference(self, role, text)?;
        let path = extension_path(&self.config.layout(), role);
        let remove = |old: &str| match remove_bullet(old, text) {
            Some((new, bullet)) => (new, Some(bullet)),
            None => (old.to_owned(), None),
        };
        Ok(open_folder(&self.dir)?.update(&path, self.config.max_file_bytes.value, remove)?)
    }

    fn store_preferences(&self, new: &[Preference]) -> Result<BTreeMap<String, Vec<String>>> {
        add_preferences(&self.dir, &self.config.layout(), self.config.max_file_bytes.value, new)
    }
}

/// Returns the preference if it has no problems.
fn check_preference(project: &Project, role: &str, text: &str) -> Result<Preference> {
    let preference = Preference { role: role.to_owned(), bullet: text.to_owned() };
    let problems = preference.find_problems(&list_roles(&project.disk(None), &project.config.layout()));
    if problems.is_empty() { Ok(preference) } else { Err(Diagnostics(problems).into()) }
}
