//! Holes: slots without a value, variables that no slot uses, fragments that are missing or contain
//! themselves.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::catalog::{BOTH_NOTATIONS, CatalogFile, SourceCatalog, folder_of, fragment_names};
use crate::check::{LintProblems, suggest_near};
use callsheet_core::compose::compose_limits::{MAX_DEPTH, depth_error};
use callsheet_core::diag::{Code, Diagnostic, find_closest};
use callsheet_core::library::frontmatter;
use callsheet_core::library::lookup::fragment_path;
use callsheet_core::library::template::{Template, TemplateNode, TemplateNotation};
use callsheet_core::source::{SourceId, SourceRoot};
use callsheet_core::text::name::is_name_byte;

const DECLARE: &str = "list slots for values of the request in the frontmatter, under `variables`";

pub(super) fn check(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    if let Some(bad) = file.parse_error() {
        problems.add(&file.id, bad.clone());
    }
    for notation in catalog.reach.notations(&file.path) {
        let (Some(template), Some(provided)) =
            (file.template(notation), catalog.reach.provided(&file.path, notation))
        else {
            continue;
        };
        check_unknown_slots(template, provided, DECLARE, problems);
        check_undeclared_slots(template, provided, problems);
        check_fragments(catalog, template, problems);
        check_includes(template, problems);
    }
    check_unused_variables(catalog, file, problems);
    check_misspelt_keys(file, problems);
}

/// Reports keys of the frontmatter that have no meaning but resemble one that has.
fn check_misspelt_keys(file: &CatalogFile, problems: &mut LintProblems) {
    let Ok(text) = &file.text else { return };
    let Ok((_, body)) = frontmatter::split_frontmatter(&file.id, text) else { return };
    for key in frontmatter::find_foreign_keys(text, body) {
        let name = &text[key.clone()];
        if let Some(near) = find_closest(name, frontmatter::KEYS) {
            let warning = Diagnostic::warning(Code::FrontBad, format!("the frontmatter has no key `{name}`"));
            let warning = warning.hint(format!("did you mean `{near}`?"));
            problems.add(&file.id, warning.at(&file.id, text, key));
        }
    }
}

/// Reports the slots that the template does not declare and nothing provides. `remedy` is the hint for a name
/// that is not a mere typo.
pub(super) fn check_unknown_slots(
    template: &Template,
    provided: &BTreeSet<String>,
    remedy: &str,
    problems: &mut LintProblems,
) {
    let declared = template.front.variables.iter().flatten().map(|variable| variable.name.as_str());
    let known: Vec<&str> = declared.chain(provided.iter().map(String::as_str)).collect();
    for (name, span, times) in distinct_slots(template) {
        if !known.contains(&name) && problems.has_capacity(&template.id, Code::SlotUnknown, span.start) {
            let message = format!("slot `{name}` is neither declared nor filled");
            let error = Diagnostic::error(Code::SlotUnknown, message).at(&template.id, &template.text, span);
            let error = error.suggest(name, known.iter().copied());
            let error = if error.hints.is_empty() { error.hint(remedy) } else { error };
            problems.add(&template.id, with_count(error, times));
        }
    }
}

/// Reports the slots that are provided, but not listed in the `variables` of the frontmatter.
fn check_undeclared_slots(template: &Template, provided: &BTreeSet<String>, problems: &mut LintProblems) {
    let Some(declared) = &template.front.variables else { return };
    for (name, span, times) in distinct_slots(template) {
        if provided.contains(name) && !declared.iter().any(|variable| variable.name == name) {
            let message = format!("the frontmatter does not list `{name}` among its variables");
            let error =
                Diagnostic::error(Code::SlotUndeclared, message).at(&template.id, &template.text, span);
            problems.add(&template.id, with_count(error, times));
        }
    }
}

fn with_count(error: Diagnostic, times: usize) -> Diagnostic {
    if times > 1 { error.hint(format!("it occurs {times} times")) } else { error }
}

/// Returns the name of each slot once, with its first position and its number of occurrences.
fn distinct_slots(template: &Template) -> Vec<(&str, Range<usize>, usize)> {
    let mut slots: Vec<(&str, Range<usize>, usize)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for span in template.slots() {
        let name = span.slice(&template.text);
        let place = *places.entry(name).or_insert(slots.len());
        match slots.get_mut(place) {
            Some((.., times)) => *times += 1,
            None => slots.push((name, span.start..span.end, 1)),
        }
    }
    slots
}

/// Reports the fragments that no root holds.
pub(super) fn check_fragments(catalog: &SourceCatalog, template: &Template, problems: &mut LintProblems) {
    for node in &template.nodes {
        let TemplateNode::Fragment(span) = node else { continue };
        let name = span.slice(&template.text);
        let is_missing = catalog.files.winner(&fragment_path(name)).is_none();
        if is_missing
            && problems.has_capacity(&template.id, Code::FragmentNotFound, span.start)
            && let Some(error) = missing_fragment_error(catalog, name)
        {
            problems.add(&template.id, error.at(&template.id, &template.text, span.start..span.end));
        }
    }
}

pub(super) fn missing_fragment_error(catalog: &SourceCatalog, name: &str) -> Option<Diagnostic> {
    let path = fragment_path(name);
    if catalog.files.winner(&path).is_some() {
        return None;
    }
    let error = Diagnostic::error(Code::FragmentNotFound, format!("fragment not found: `{name}`"));
    let error = error.searched(catalog.candidate_places(&path));
    let (prefix, own) =
        name.rsplit_once('/').map_or((String::new(), name), |(up, own)| (format!("{up}/"), own));
    let near = find_closest(own, catalog.files.names(folder_of(&path), ".md"));
    Some(suggest_near(error, near.map(|near| format!("{prefix}{near}"))))
}

/// Reports includes that can never be inside a session, whatever the request.
fn check_includes(template: &Template, problems: &mut LintProblems) {
    for node in &template.nodes {
        let TemplateNode::Include(include) = node else { continue };
        let (at, [TemplateNode::Text(path)]) = (include.at, include.path.as_slice()) else { continue };
        let path = path.slice(&template.text);
        if let Err(why) = SourceId::new(SourceRoot::Session, path) {
            let error = Diagnostic::error(Code::IncludeBadPath, format!("cannot include `{path}`: {why}"))
                .at(&template.id, &template.text, at.start..at.end)
                .hint("an include must be inside the session directory");
            problems.add(&template.id, error);
        }
    }
}

/// Reports the variables that have no slot in the file or in a fragment of it.
fn check_unused_variables(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    let Some(template) = file.template(TemplateNotation::Braces) else { return };
    if template.front.variables.is_none() {
        return;
    }
    let mut used = BTreeSet::new();
    for notation in catalog.reach.notations_or_both(&file.path) {
        let Some(template) = file.template(notation) else { return };
        if !collect_slots(catalog, template, notation, &mut used) {
            return;
        }
    }
    for variable in template.front.variables.iter().flatten() {
        if !used.contains(&variable.name) {
            let message = format!("no slot uses the variable `{}`", variable.name);
            let warning = Diagnostic::warning(Code::VariableUnused, message);
            let warning = match find_declaration(template, &variable.name) {
                Some(range) => warning.at(&file.id, &template.text, range),
                None => warning.hint(format!("it is declared in {}", file.id)),
            };
            problems.add(&file.id, warning.suggest(&variable.name, used.iter().map(String::as_str)));
        }
    }
}

/// Adds the slots of `template` and of all fragments in it. Returns `false` if a fragment cannot be read.
fn collect_slots(
    catalog: &SourceCatalog,
    template: &Template,
    notation: TemplateNotation,
    slots: &mut BTreeSet<String>,
) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = alloc::vec![template];
    while let Some(template) = open.pop() {
        slots.extend(template.slots().into_iter().map(|span| span.slice(&template.text).to_string()));
        for path in fragment_names(&template.text, &template.nodes).map(fragment_path) {
            let fragment = catalog.files.winner(&path).and_then(|file| file.template(notation));
            match fragment {
                _ if !seen.insert(path) => {}
                Some(inner) => open.push(inner),
                None => return false,
            }
        }
    }
    true
}

/// Returns the range in which the frontmatter declares a variable: an item of a list, or the name in a
/// mapping.
fn find_declaration(template: &Template, name: &str) -> Option<Range<usize>> {
    let (_, body) = frontmatter::split_frontmatter(&template.id, &template.text).ok()?;
    let header = &template.text[..body.start];
    let from = header.find("variables")?;
    header[from..].match_indices(name).map(|(at, _)| from + at).find_map(|at| {
        let before = header[..at].trim_end_matches([' ', '"', '\'']);
        let after = header[at + name.len()..].trim_start_matches(['"', '\'']);
        let item = before.ends_with(['-', '[', ',', '\n']) || before.ends_with("name:");
        let whole = !after.bytes().next().is_some_and(is_name_byte) && !after.starts_with(':');
        (item && whole).then(|| at..at + name.len())
    })
}

/// Reports fragments that contain themselves, each cycle once.
pub(super) fn check_cycles(catalog: &SourceCatalog, problems: &mut LintProblems) {
    for notation in BOTH_NOTATIONS {
        let mut done = BTreeSet::new();
        for (path, _) in catalog.files.by_path() {
            follow_fragments(catalog, path, notation, &mut Vec::new(), &mut done, problems);
        }
    }
}

fn follow_fragments(
    catalog: &SourceCatalog,
    path: &str,
    notation: TemplateNotation,
    open: &mut Vec<String>,
    done: &mut BTreeSet<String>,
    problems: &mut LintProblems,
) {
    let template = catalog.files.winner(path).and_then(|file| file.template(notation));
    let Some(template) = template.filter(|_| catalog.reach.provided(path, notation).is_some()) else {
        return;
    };
    if !done.insert(path.to_string()) {
        return;
    }
    if open.len() == MAX_DEPTH {
        let error = depth_error().at(&template.id, &template.text, 0..0);
        problems.add(&template.id, error);
        done.remove(path);
        return;
    }
    open.push(path.to_string());
    for node in &template.nodes {
        let TemplateNode::Fragment(span) = node else { continue };
        let name = span.slice(&template.text);
        let inner = fragment_path(name);
        let Some(at) = open.iter().position(|open| *open == inner) else {
            follow_fragments(catalog, &inner, notation, open, done, problems);
            continue;
        };
        let ring = open[at..].iter().chain([&inner]).filter_map(|path| catalog.files.winner(path));
        let chain: Vec<String> = ring.map(|file| file.id.to_string()).collect();
        let error = Diagnostic::error(Code::FragmentCycle, format!("the fragment `{name}` contains itself"))
            .at(&template.id, &template.text, span.start..span.end)
            .hint(chain.join(" → "));
        problems.add(&template.id, error);
    }
    open.pop();
}
