//! Profiles: what a role binds besides its words.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::PermissionLevel;
use crate::compose::Composer;
use crate::data::RecipeFile;
use crate::diag::Diagnostics;
use crate::lookup::Library;
use crate::recipe::{Recipe, RequestField};
use crate::request::{Layout, Request};

/// Where a recipe that has profiles finds the words of one.
const PATH: &str = "profiles/{role}.md";

/// The profile that a prompt was composed for: which version of it, and who takes it on with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<PermissionLevel>,
}

impl Library<'_> {
    /// The profile that `request` asks for by its role, where its recipe has profiles.
    pub fn profile(&self, request: &Request) -> Result<Option<Profile>, Diagnostics> {
        let RecipeFile { recipe, .. } = self.recipe(request)?;
        let role =
            request.role.as_deref().or_else(|| recipe.defaults.get(&RequestField::Role).map(String::as_str));
        Ok(role.and_then(|role| self.find_profile(&recipe, role, &request.layout)))
    }

    /// One that cannot be used says so where the prompt holds it.
    fn find_profile(&self, recipe: &Recipe, role: &str, layout: &Layout) -> Option<Profile> {
        let mut blocks = recipe.section.iter().flat_map(|section| &section.blocks);
        let has = blocks
            .any(|block| block.template.iter().any(|paths| paths.all().iter().any(|path| path == PATH)));
        let file = has.then(|| self.template(&path(role), recipe.notation, layout).ok()).flatten()??;
        let front = &file.front;
        Some(Profile {
            name: role.into(),
            version: front.version.clone(),
            agent: front.agent.clone(),
            model: front.model.clone(),
            permit: front.permit,
        })
    }
}

impl Composer<'_> {
    pub(crate) fn profile(&self) -> Option<Profile> {
        let role = self.field(RequestField::Role)?;
        self.library.find_profile(self.recipe, role, &self.request.layout)
    }
}

/// The file of a profile.
pub(crate) fn path(role: &str) -> String {
    format!("profiles/{role}.md")
}
