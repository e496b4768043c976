//! The profile of a role and the scope that results from it.

use alloc::string::String;
use alloc::vec::Vec;

use super::Composer;
use crate::diag::Diagnostics;
use crate::library::layout::Layout;
use crate::library::lookup::{DynLibrary, Library};
use crate::library::recipe::RecipeFile;
use crate::library::recipe::{Recipe, RequestField};
use crate::request::Request;
use crate::request::profile::{PATH, Profile, profile_path};
use crate::request::scope::Scope;
use crate::source::Sources;

impl<S: Sources> Library<S> {
    /// Returns the profile that `request` names by its role, if its recipe has profiles.
    pub fn profile(&self, request: &Request) -> Result<Option<Profile>, Diagnostics> {
        let RecipeFile { recipe, .. } = self.recipe(request)?;
        let role =
            request.role.as_deref().or_else(|| recipe.defaults.get(&RequestField::Role).map(String::as_str));
        let library: &DynLibrary<'_> = self;
        Ok(role.and_then(|role| library.find_profile(&recipe, role, &request.layout)))
    }
}

impl DynLibrary<'_> {
    /// Finds the profile of a role. Skips one with an error: the section that holds it reports the error.
    fn find_profile(&self, recipe: &Recipe, role: &str, layout: &Layout) -> Option<Profile> {
        let mut blocks = recipe.section.iter().flat_map(|section| &section.blocks);
        let has = blocks
            .any(|block| block.template.iter().any(|paths| paths.as_slice().iter().any(|path| path == PATH)));
        let file = has
            .then(|| self.load_template(&profile_path(role), recipe.notation, layout).ok())
            .flatten()??;
        let front = &file.front;
        Some(Profile {
            name: role.into(),
            version: front.version.clone(),
            agent: front.agent.clone(),
            model: front.model.clone(),
            permit: front.permit,
            allow: front.allow.clone(),
        })
    }
}

impl Composer<'_> {
    pub(crate) fn profile(&self) -> Option<Profile> {
        let role = self.field(RequestField::Role)?;
        self.library.find_profile(self.recipe, role, &self.request.layout)
    }
}

impl Composer<'_> {
    /// Returns the write scope of the task, combined with that of the role's profile if there is one.
    pub(crate) fn scope(&mut self) -> &Scope {
        if self.scope.is_none() {
            let mut scope = Scope::from_request(self.request);
            let profile = self.field(RequestField::Role).map(profile_path);
            // Skip a profile with an error: the section that holds it reports the error.
            let profile = profile.and_then(|path| {
                self.library.load_template(&path, self.recipe.notation, &self.request.layout).ok()
            });
            if let Some(profile) = profile.flatten() {
                let write = if scope.write.is_empty() { profile.front.write.clone() } else { Vec::new() };
                scope = scope.merge(&Scope { write, exclude: profile.front.exclude.clone() });
            }
            self.scope = Some(scope);
        }
        self.scope.get_or_insert_default()
    }
}
