//! The profiles of a project that allow commands to agents.

use callsheet_core::library::frontmatter::split_frontmatter;
use callsheet_core::{SourceId, SourceRoot, Sources as _, candidates};

use crate::error::Result;
use crate::project::Project;

/// A profile of the project that allows commands.
pub(crate) struct ProjectProfile {
    pub name: String,
    pub id: SourceId,
    pub allow: Vec<String>,
}

/// Returns the profiles of the project that allow commands. Skips one with an error: its use reports it.
pub(crate) fn project_profiles(project: &Project) -> Result<Vec<ProjectProfile>> {
    let (disk, layout) = (project.disk_for_trust(), project.config.layout());
    let mut found = Vec::new();
    for name in callsheet_core::list_names(&disk, "profiles", &layout) {
        let places = candidates(&format!("profiles/{name}.md"), &layout);
        for id in places.into_iter().filter(|id| id.root() == SourceRoot::Project) {
            let Ok(Some(text)) = disk.text(&id) else { continue };
            let allow = split_frontmatter(&id, &text).map(|(front, _)| front.allow).unwrap_or_default();
            if !allow.is_empty() {
                found.push(ProjectProfile { name: name.clone(), id, allow });
            }
        }
    }
    Ok(found)
}
