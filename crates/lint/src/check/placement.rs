//! Places: files that are never used because of their folder or their name.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::catalog::{
    CatalogFile, CatalogFileKind, CatalogRecipe, FOLDERS, SourceCatalog, folder_of, own_name,
};
use crate::check::{suggest_near, system};
use callsheet_core::diag::{Code, Diagnostic, find_closest};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::RequestField;
use callsheet_core::source::{ListingLimits, SourceId, SourceRoot, Sources};
use callsheet_core::text::name::is_name;

const NAMES: &str = "a name begins with a letter or digit and contains only letters, digits, `_` and `-`";

/// Returns the problem with the name or the folder of a file.
pub(super) fn check_placement(catalog: &SourceCatalog, file: &CatalogFile) -> Option<Diagnostic> {
    match file.kind() {
        CatalogFileKind::Recipe => check_data_name(file, "recipes", Code::RecipeBad),
        CatalogFileKind::Agent => check_data_name(file, "agents", Code::AgentBad),
        CatalogFileKind::Contract => check_data_name(file, "contracts", Code::ContractBad),
        CatalogFileKind::Flow => check_data_name(file, "flows", Code::FlowBad),
        CatalogFileKind::Prices => check_data_name(file, "prices", Code::PricesBad),
        CatalogFileKind::Secrets => check_data_name(file, "secrets", Code::SecretsBad),
        CatalogFileKind::Skeleton => check_skeleton(catalog, file),
        CatalogFileKind::Template => system::check_file_name(catalog, file).or_else(|| {
            catalog.reach.unreached.contains(&file.path).then(|| unreached_diagnostic(catalog, file))
        }),
    }
}

fn check_data_name(file: &CatalogFile, home: &str, code: Code) -> Option<Diagnostic> {
    if folder_of(&file.path) == home && file.stem(".toml").is_some_and(is_name) {
        return None;
    }
    let message = format!("no request can name `{}`", file.id);
    Some(Diagnostic::error(code, message).hint(format!("move it to `{home}/NAME.toml`")).hint(NAMES))
}

/// Returns the diagnostic for a file that is never used. In the user's library it is a warning: that serves
/// many projects, and another one may well have the recipe that uses the file.
fn unreachable_diagnostic(id: &SourceId, message: String) -> Diagnostic {
    match id.root() {
        SourceRoot::User => Diagnostic::warning(Code::TemplateUnreachable, message),
        _ => Diagnostic::error(Code::TemplateUnreachable, message),
    }
}

fn unreached_diagnostic(catalog: &SourceCatalog, file: &CatalogFile) -> Diagnostic {
    let home = folder_of(&file.path);
    let patterns: Vec<&str> = catalog.recipes.iter().flat_map(CatalogRecipe::template_paths).collect();
    let mut here: Vec<&str> =
        patterns.iter().filter(|path| folder_of(path) == home && path.contains('{')).copied().collect();
    here.sort_unstable();
    here.dedup();
    if !here.is_empty() {
        let message = format!("no request can reach `{}`", file.id);
        let names: Vec<String> = here.iter().map(|path| format!("`{}`", own_name(path))).collect();
        let error = unreachable_diagnostic(&file.id, message);
        let error = error.hint(format!("recipes search `{home}` for {}", names.join(", ")));
        let is_named = file.stem(".md").is_none_or(is_name);
        return if is_named { error } else { error.hint(NAMES) };
    }
    if home == "templates/shared" {
        return unreachable_diagnostic(&file.id, format!("no recipe and no template names `{}`", file.id));
    }
    let mut homes: BTreeSet<&str> = patterns.iter().map(|path| folder_of(path)).collect();
    homes.insert("templates/shared");
    let error = unreachable_diagnostic(&file.id, format!("no recipe searches for `{}`", file.id));
    let homes_listed: Vec<String> = homes.iter().map(|home| format!("`{home}`")).collect();
    let near = find_closest(own_name(home), homes.iter().map(|home| own_name(home)));
    let near = homes.iter().find(|home| near == Some(own_name(home)));
    suggest_near(error, near).hint(format!("recipes search {}", homes_listed.join(", ")))
}

/// Checks the name of a skeleton, which begins with its phase.
fn check_skeleton(catalog: &SourceCatalog, file: &CatalogFile) -> Option<Diagnostic> {
    if catalog.reach.is_reached(&file.path) {
        return None;
    }
    let phases: Vec<&str> = catalog.reach.phases.iter().map(String::as_str).collect();
    let stem = file.stem(".md").filter(|_| folder_of(&file.path) == "skeletons");
    let of_phase = |stem: &str| {
        phases.iter().any(|phase| stem.strip_prefix(phase).is_some_and(|rest| rest.starts_with('-')))
    };
    if stem.is_some_and(of_phase) {
        return None;
    }
    let error = unreachable_diagnostic(&file.id, format!("no phase can reach `{}`", file.id));
    let given = stem.and_then(|stem| stem.split('-').next()).unwrap_or_default();
    let error = error.suggest(given, phases.iter().copied());
    Some(error.hint(format!("name it `skeletons/PHASE-NAME.md`; known phases: {}", phases.join(", "))))
}

/// Returns the names that the slots of an extension can use, or the reason why no prompt ever holds it.
pub(super) fn find_extension_slots<'c>(
    catalog: &'c SourceCatalog,
    file: &CatalogFile,
) -> Result<&'c BTreeSet<String>, Diagnostic> {
    let (home, name) = (folder_of(&file.path), file.stem(".md"));
    let (field, plural) = match home {
        "agents" => (RequestField::Role, "roles"),
        "commands" => (RequestField::Command, "commands"),
        _ if name == Some("context") => return Err(refused_extension_error(&file.id)),
        _ => {
            let error =
                unreachable_diagnostic(&file.id, format!("no role or command can reach `{}`", file.id));
            return Err(error
                .suggest(home, ["agents", "commands"])
                .hint("name it `agents/ROLE.md` or `commands/COMMAND.md`"));
        }
    };
    let names = catalog.reach.extensible.get(&field);
    if let Some(provided) = name.and_then(|name| names?.get(name)) {
        return Ok(provided);
    }
    if name == Some("context") {
        return Err(refused_extension_error(&file.id));
    }
    let names: Vec<&str> = names.into_iter().flat_map(|names| names.keys().map(String::as_str)).collect();
    let error = unreachable_diagnostic(&file.id, format!("no template uses `{}`", file.id));
    let given = name.unwrap_or_default().to_string();
    Err(error.suggest(&given, names.iter().copied()).hint(format!("known {plural}: {}", names.join(", "))))
}

/// Returns folders that are never searched and whose names resemble one that is.
pub(super) fn find_misnamed_folders(
    catalog: &SourceCatalog,
    sources: &dyn Sources,
    layout: &Layout,
) -> Vec<(SourceId, Diagnostic)> {
    let limits = ListingLimits { depth: 1, entries: 10_000, ignored: true };
    let own = catalog.recipes.iter().flat_map(CatalogRecipe::template_paths);
    let own = own.filter_map(|path| path.split_once('/').map(|(first, _)| first));
    let known: BTreeSet<&str> = FOLDERS.into_iter().chain(["prompts"]).chain(own).collect();
    let mut misnamed = Vec::new();
    for (root, home) in [(SourceRoot::Project, ".callsheet"), (SourceRoot::User, ".")] {
        let Ok(home) = SourceId::new(root, home) else { continue };
        let Ok(Some(listing)) = sources.list(&home, limits) else { continue };
        for entry in listing.entries.iter().filter(|entry| entry.dir && !known.contains(entry.path.as_str()))
        {
            let Ok(id) = SourceId::new(root, &format!("{}/{}", home.path(), entry.path)) else { continue };
            let inside = |path: &String| {
                let rest = path.strip_prefix(id.path()).filter(|_| root == SourceRoot::Project);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if layout.templates.iter().chain([&layout.prompts]).any(inside) {
                continue;
            }
            if let Some(near) = find_closest(&entry.path, known.iter().copied()) {
                let message = format!("callsheet reads nothing in `{id}`");
                let warning = Diagnostic::warning(Code::TemplateUnreachable, message);
                misnamed.push((id, warning.hint(format!("did you mean `{near}`?"))));
            }
        }
    }
    misnamed
}

fn refused_extension_error(id: &SourceId) -> Diagnostic {
    let message = format!("`{id}`: the pipeline controls `context.md`, so it takes no text of a project");
    Diagnostic::error(Code::OverrideRefused, message)
}

pub(super) fn refused_override_error(id: &SourceId) -> Diagnostic {
    let message = format!("`{id}`: the pipeline controls `context.md`, so it cannot be overridden");
    Diagnostic::error(Code::OverrideRefused, message)
}
